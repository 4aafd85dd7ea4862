"""The operations of a traced model, with their layers, shapes and FLOPs.

FLOPs: a multiply and an add count as two. Moving data (gather, transpose, reshape, concatenate) counts as zero, an
elementwise function (erf, exp, tanh, a square root) as one.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

Shape = tuple[int, ...]

ENCODER = "encoder"  # the encoder's layer name in `Operation.layers`, whatever number Keras appended to it
MATRIX_PRODUCTS = ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
_FLOPS_PER_OUTPUT = {
    **dict.fromkeys(("Add", "AddV2", "BiasAdd", "Sub", "Mul", "Div", "RealDiv", "DivNoNan", "Maximum", "Minimum"), 1),
    **dict.fromkeys(("Erf", "Exp", "Log", "Neg", "Pow", "Reciprocal", "Rsqrt", "Sqrt", "Square", "Tanh", "Relu"), 1),
    **dict.fromkeys(("ReluGrad", "SquaredDifference"), 2),
    **dict.fromkeys(("RsqrtGrad", "SqrtGrad", "TanhGrad"), 3),
    "Softmax": 5,  # maximum, subtraction, exp, sum, division
    "LogSoftmax": 5,
}
_ONE_FLOP_PER_INPUT = ("Mean", "Sum", "Max", "BiasAddGrad", "UnsortedSegmentSum")
_BACKWARD_MARKER = "the_gradients_begin_here"


@dataclasses.dataclass(frozen=True)
class Operation:
    """An operation of a traced function.

    Attributes:
        kind: TensorFlow's operation type, such as "MatMul".
        layers: names of the enclosing layers, outermost first.
        is_backward: whether the operation belongs to the backward pass.
        inputs, outputs: shapes of the inputs and outputs.
        flops: floating-point operations.
        source: the TensorFlow object.
    """

    kind: str
    layers: tuple[str, ...]
    is_backward: bool
    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    flops: int
    source: tf.Operation = dataclasses.field(repr=False)

    @property
    def is_matrix_product(self) -> bool:
        """Whether the operation multiplies matrices."""
        return self.kind in MATRIX_PRODUCTS

    @property
    def is_attention_softmax(self) -> bool:
        """Whether the operation computes attention probabilities."""
        return self.kind == "Softmax" and "attention" in self.layers


def trace_operations(function: Callable, *specs: object, layers: Mapping[str, str] | None = None) -> list[Operation]:
    """Trace a function, and return the operations that its outputs depend on, in program order. Nothing is computed.

    Args:
        function: a function that TensorFlow can trace; it may call `compute_gradients` once.
        *specs: a `tf.TensorSpec` of known shape, or a nested structure of them, for each argument.
        layers: maps layer names to the names in `Operation.layers`. With it, `block_0_1`, the scope that TensorFlow
            opens when `block_0` is called a second time, counts as `block_0`.

    Example:
        >>> operations = trace_operations(lambda x: x @ tf.ones((3, 4)), tf.TensorSpec((2, 3)))
        >>> [operation.flops for operation in operations if operation.is_matrix_product]
        [48]
    """
    graph = trace_graph(function, *specs)
    names = [operation.name for operation in graph.get_operations()]
    start = next((index for index, name in enumerate(names) if name.startswith(_BACKWARD_MARKER)), len(names))
    backward = set(names[start:])
    return [_describe(operation, operation.name in backward, layers or {}) for operation in list_operations(graph)]


def trace_graph(function: Callable, *specs: object) -> tf.Graph:
    """Trace a function and inline all functions that it calls, so that the graph holds every operation."""
    previous = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)  # inlines inner functions; the outermost one is still traced
    try:
        return tf.function(function, autograph=False).get_concrete_function(*specs).graph
    finally:
        tf.config.run_functions_eagerly(previous)


def compute_gradients(tape: tf.GradientTape, loss: tf.Tensor, variables: list) -> list:
    """Return the gradients of a loss; the operations traced from here on are `Operation.is_backward`."""
    tf.no_op(name=_BACKWARD_MARKER)
    return tape.gradient(loss, variables)


def list_operations(graph: tf.Graph, *, with_side_effects: bool = False) -> list[tf.Operation]:
    """List the operations that the outputs of a traced function depend on, in program order.

    Args:
        graph: the graph of the function.
        with_side_effects: include operations that run for their effect, such as weight updates. The list is then all
            that TensorFlow runs.
    """
    needed = set()
    waiting = [tensor.op for tensor in graph.outputs] + (list(graph.control_outputs) if with_side_effects else [])
    while waiting:
        operation = waiting.pop()
        if operation not in needed:
            needed.add(operation)
            waiting += [tensor.op for tensor in operation.inputs]
            waiting += operation.control_inputs if with_side_effects else ()
    return [operation for operation in graph.get_operations() if operation in needed]


def _describe(operation: tf.Operation, is_backward: bool, layers: Mapping[str, str]) -> Operation:
    *scopes, _ = operation.name.split("/")
    scopes = [name if name in layers else re.sub(r"_\d+$", "", name) for name in scopes]
    inputs, outputs = (tuple(map(_get_shape, tensors)) for tensors in (operation.inputs, operation.outputs))
    return Operation(
        kind=operation.type,
        layers=tuple(layers[name] for name in scopes if name in layers),
        is_backward=is_backward,
        inputs=inputs,
        outputs=outputs,
        flops=_count_flops(operation, inputs, outputs),
        source=operation,
    )


def _count_flops(operation: tf.Operation, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int:
    """Count the FLOPs of an operation from its shapes; operations on integers and booleans count as zero."""
    kind = operation.type
    if not outputs or not operation.outputs[0].dtype.is_floating:
        return 0
    if kind in MATRIX_PRODUCTS:
        is_transposed = operation.get_attr("transpose_a" if kind == "MatMul" else "adj_x")
        return 2 * math.prod(outputs[0]) * inputs[0][-2 if is_transposed else -1]
    if kind in _ONE_FLOP_PER_INPUT:
        return math.prod(inputs[0])
    if kind == "AddN":
        return (len(inputs) - 1) * math.prod(outputs[0])
    if kind == "SparseSoftmaxCrossEntropyWithLogits":
        return 6 * math.prod(inputs[0])
    return _FLOPS_PER_OUTPUT.get(kind, 0) * math.prod(outputs[0])


def _get_shape(tensor: tf.Tensor) -> Shape:
    return tuple(tensor.shape) if tensor.shape.rank is not None else ()
