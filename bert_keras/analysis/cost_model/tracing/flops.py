"""How many floating-point operations a TensorFlow operation takes, by the shapes of what it reads and writes.

A multiply and an add count as two. Moving data (gather, transpose, reshape, concatenate) counts as none, a function of
one number (erf, exp, tanh, a square root) as one.
"""

import math
from collections.abc import Mapping, Sequence

Shape = tuple[int, ...]

PRODUCTS = ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
_OF_EACH_OUTPUT = {
    **dict.fromkeys(("Add", "AddV2", "BiasAdd", "Sub", "Mul", "Div", "RealDiv", "DivNoNan", "Maximum", "Minimum"), 1),
    **dict.fromkeys(("Erf", "Exp", "Log", "Neg", "Pow", "Reciprocal", "Rsqrt", "Sqrt", "Square", "Tanh", "Relu"), 1),
    **dict.fromkeys(("ReluGrad", "SquaredDifference"), 2),
    **dict.fromkeys(("RsqrtGrad", "SqrtGrad", "TanhGrad"), 3),
    "Softmax": 5,  # the largest, the difference, exp, the sum, the quotient
    "LogSoftmax": 5,
}
_OF_EACH_INPUT = ("Mean", "Sum", "Max", "BiasAddGrad", "UnsortedSegmentSum")
_FLOATS = ("float32", "float16", "bfloat16", "float64")


def flops_of(kind: str, dtype: str, attributes: Mapping, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int:
    """Returns the floating-point operations of one operation.

    Args:
        kind: TensorFlow's name for it, such as "MatMul".
        dtype: of its first output; whole numbers and truth values count as none.
        attributes: those of TensorFlow; products read whether they transpose what they are given.
        inputs, outputs: shapes.
    """
    if dtype not in _FLOATS:
        return 0
    if kind in PRODUCTS:
        rows = attributes.get("transpose_a" if kind == "MatMul" else "adj_x", False)
        return 2 * math.prod(outputs[0]) * inputs[0][-2 if rows else -1]
    if kind in _OF_EACH_INPUT:
        return math.prod(inputs[0])
    if kind == "AddN":
        return (len(inputs) - 1) * math.prod(outputs[0])
    if kind == "SparseSoftmaxCrossEntropyWithLogits":
        return 6 * math.prod(inputs[0])
    return _OF_EACH_OUTPUT.get(kind, 0) * math.prod(outputs[0]) if outputs else 0
