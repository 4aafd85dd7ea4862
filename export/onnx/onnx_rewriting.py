"""tf2onnx's graph of a BERT, put into the form that onnxruntime recognises and fuses.

Keras writes a layer norm as eleven operations and an embedding as a gather that first wraps negative ids.

Rows stay flat, (B*S, D), as our layers have them, though PyTorch's exports keep (B, S, D) and onnxruntime then fuses
`SkipLayerNormalization` too. Only flat products take their bias along (`Gemm`), and on a CPU that fused norm is the
slower one: 12 of them took 13 ms of a MiniLM-L6 at 8 x 128, 12 plain norms with their additions 5 ms. Nor is its
`Attention` worth a file of its own: 133 ms in all, 131 without.
"""

import math

from bert_keras.export.onnx.onnx_patterns import ANY, Graph

_MEAN = ("ReduceMean", "x", [-1], {"keepdims": 1})
_DEVIATION = ("Sub", "x", _MEAN)
_VARIANCE = ("ReduceMean", ("Mul", _DEVIATION, _DEVIATION), [-1], {"keepdims": 1})
_SCALE = ("Mul", ("Reciprocal", ("Sqrt", ("Add", _VARIANCE, "epsilon"))), ("Reshape", "gamma", ANY))
_LAYER_NORM = ("Add", ("Mul", "x", _SCALE), ("Add", ("Mul", ("Neg", _MEAN), _SCALE), ("Reshape", "beta", ANY)))

_IS_NEGATIVE = ("Less", ("Cast", "ids"), 0.0)
_WRAPPED = (
    "Add",
    ("Mul", ("Cast", _IS_NEGATIVE), ("Add", "ids", ANY)),
    ("Mul", "ids", ("Cast", ("Not", _IS_NEGATIVE))),
)

_TANH_SCALE = math.sqrt(2.0 / math.pi)
_HEADS_FIRST = {"perm": [0, 2, 1, 3]}
_GELU = ("Mul", ("Mul", 0.5, "x"), ("Add", 1.0, ("Erf", ("Mul", "x", math.sqrt(0.5)))))
_CUBE = ("Mul", ("Mul", ("Mul", 0.044715, "x"), "x"), "x")
_GELU_TANH = ("Mul", ("Mul", 0.5, "x"), ("Add", 1.0, ("Tanh", ("Mul", _TANH_SCALE, ("Add", "x", _CUBE)))))
_FAST_GELU = ("Mul", ("Mul", "x", _TANH_SCALE), ("Add", 1.0, ("Mul", ("Mul", 0.044715, "x"), "x")))

# what is looked for, and what is put in its place
_RULES = (
    # ONNX's Gather counts negative ids from the end by itself
    (("Gather", "table", _WRAPPED, {"axis": 0}), ("Gather", "table", "ids", {"axis": 0})),
    (_LAYER_NORM, lambda graph, found: _layer_normalization(graph.constants[found["epsilon"]].item())),
    # the activations in the order that onnxruntime looks for, PyTorch's
    (_GELU, ("Mul", ("Mul", "x", ("Add", ("Erf", ("Div", "x", math.sqrt(2.0))), 1.0)), 0.5)),
    (_GELU_TANH, ("Mul", ("Mul", "x", 0.5), ("Add", ("Tanh", _FAST_GELU), 1.0))),
    # a factor of queries becomes one of scores, where onnxruntime takes it into the product
    (
        ("MatMul", ("Transpose", ("Reshape", ("Mul", "x", "scale"), "shape"), _HEADS_FIRST), "keys"),
        ("Mul", ("MatMul", ("Transpose", ("Reshape", "x", "shape"), _HEADS_FIRST), "keys"), "scale"),
    ),
)


def rewritten(model):
    """Returns an ONNX model (`onnx.ModelProto`) that computes the same with fewer and better known operations."""
    graph = Graph(model)
    for pattern, replacement in _RULES:
        graph.replace_all(pattern, replacement)
    return graph.finished()


def _layer_normalization(epsilon: float):
    return ("LayerNormalization", "x", "gamma", "beta", {"axis": -1, "epsilon": epsilon})
