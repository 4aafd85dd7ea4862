"""Rewrite tf2onnx's graph of a BERT to the forms that onnxruntime recognizes and fuses.

Keras writes a layer norm as eleven operations and an embedding as a gather that first wraps negative ids.

Activations stay flat, (B*S, D), as in our layers. PyTorch's exports have (B, S, D), which onnxruntime also fuses to
`SkipLayerNormalization`, but only flat products include their bias (`Gemm`), and on a CPU the fused norm is slower: 12
of them took 13 ms of a MiniLM-L6 at 8 x 128, 12 plain norms and additions 5 ms. onnxruntime's fused `Attention` does
not help either: 133 ms in total with it, 131 ms without.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bert_keras.export.onnx.onnx_patterns import ANY, Expression, Graph

if TYPE_CHECKING:
    import onnx

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

# pattern, replacement
_RULES = (
    # ONNX's Gather itself counts negative ids from the end
    (("Gather", "table", _WRAPPED, {"axis": 0}), ("Gather", "table", "ids", {"axis": 0})),
    (_LAYER_NORM, lambda graph, found: _build_layer_norm(graph.constants[found["epsilon"]].item())),
    # activations in the order of operations that onnxruntime looks for, which is PyTorch's
    (_GELU, ("Mul", ("Mul", "x", ("Add", ("Erf", ("Div", "x", math.sqrt(2.0))), 1.0)), 0.5)),
    (_GELU_TANH, ("Mul", ("Mul", "x", 0.5), ("Add", ("Tanh", _FAST_GELU), 1.0))),
    # scale the scores instead of the queries, because onnxruntime fuses that with the product
    (
        ("MatMul", ("Transpose", ("Reshape", ("Mul", "x", "scale"), "shape"), _HEADS_FIRST), "keys"),
        ("Mul", ("MatMul", ("Transpose", ("Reshape", "x", "shape"), _HEADS_FIRST), "keys"), "scale"),
    ),
)


def rewrite_model(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model that computes the same with fewer operations, in forms that onnxruntime can fuse."""
    graph = Graph(model)
    for pattern, replacement in _RULES:
        graph.replace_all(pattern, replacement)
    return graph.build_model()


def _build_layer_norm(epsilon: float) -> Expression:
    return ("LayerNormalization", "x", "gamma", "beta", {"axis": -1, "epsilon": epsilon})
