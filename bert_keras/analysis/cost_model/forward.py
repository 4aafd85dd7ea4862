"""The forward pass as a table: every step of a model in order, with the shapes that it saw."""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator

from bert_keras.analysis.cost_model.tracing.flops import Shape
from bert_keras.analysis.cost_model.tracing.recording import ENCODER, Operation

_DENSE = "x W + b"
_NORM = "gamma (x - mean) / sqrt(variance + epsilon) + beta"
# Layers that are one step: what it is called, and its equation
_LAYERS = {
    "token": ("token embeddings", "E_token[token_ids]"),
    "segment": ("segment embeddings", "E_segment[segment_ids]"),
    "position": ("position embeddings", "E_position[0 ... S-1]"),
    "layer_norm": ("norm", _NORM),
    "embedding_projection": ("widen", _DENSE),
    "query": ("queries", "Q = x W_Q + b_Q"),
    "key": ("keys", "K = x W_K + b_K"),
    "value": ("values", "V = x W_V + b_V"),
    "projection": ("output", "context W_O + b_O"),
    "attention_norm": ("norm", _NORM),
    "intermediate": ("feed-forward in", "x W_1 + b_1"),
    "feed_forward": ("feed-forward out", "x W_2 + b_2"),
    "feed_forward_norm": ("norm", _NORM),
    "pooler": ("pooler", "x[CLS] W_P + b_P"),
    "transform": ("transform", _DENSE),
    "cls_dense": ("transform", "x[CLS] W + b"),
    "classifier": ("classes", _DENSE),
    "span": ("starts and ends", _DENSE),
    "next_sentence": ("next sentence", _DENSE),
    "head_dense": ("transform", _DENSE),
    "replaced": ("replaced", _DENSE),
}
_ACTIVATIONS = {
    "Erf": ("GELU", "x (1 + erf(x / sqrt(2))) / 2"),
    "Tanh": ("GELU, by tanh", "x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2"),
    "Relu": ("ReLU", "max(0, x)"),
}
_ADD_POSITION = ("sum", "+ position")
# What a layer does between the layers inside it, in order: TensorFlow's operation -> the step's name, its equation.
# Where there are several, the first one that comes
_INSIDE = {
    "attention": (
        {"Mul": ("scale", "Q / sqrt(H)")},
        {"Transpose": ("heads of Q", "(S, D) -> (N, S, H)")},
        {"Transpose": ("heads of K", "(S, D) -> (N, S, H)")},
        {"Transpose": ("heads of V", "(S, D) -> (N, S, H)")},
        {"BatchMatMulV2": ("scores", "Q K^T")},
        {"AddV2": ("mask", "scores + bias, which hides padding")},
        {"Softmax": ("attention", "softmax over the keys")},
        {"BatchMatMulV2": ("context", "attention V")},
        {"Reshape": ("heads side by side", "(N, S, H) -> (S, D)")},
    ),
    "block": ({"AddV2": ("residual", "x + output")}, _ACTIVATIONS, {"AddV2": ("residual", "x + feed-forward")}),
    "embeddings": (
        {"AddV2": ("sum", "token + segment")},
        {"AddV2": _ADD_POSITION, "GatherV2": ("position vectors", "sines and cosines of 0 ... S-1")},
        {"AddV2": _ADD_POSITION},
    ),
    "mlm_head": (_ACTIVATIONS, {"MatMul": ("words", "x E_token^T")}, {"AddV2": ("bias", "+ b")}),
}
_IN_HEADS = ({**_ACTIVATIONS, "Tanh": ("tanh", "tanh(x)")},)


@dataclasses.dataclass(frozen=True)
class Step:
    """A step of the forward pass.

    Attributes:
        layer: where: "block_3/attention".
        name: what people call it.
        equation: what it computes.
        inputs: the shapes of what it reads, weights apart.
        weights: the shapes of its weights.
        output: the shape of what it writes.
        flops: floating-point operations.
    """

    layer: str
    name: str
    equation: str
    inputs: tuple[Shape, ...]
    weights: tuple[Shape, ...]
    output: Shape
    flops: int


def forward_steps(operations: Iterable[Operation]) -> list[Step]:
    """Returns the steps that the operations of a forward pass belong to, in their order.

    Args:
        operations: of a model, as `traced_operations` gives them.
    """
    steps, waiting = [], {}
    for layers, group in itertools.groupby(operations, key=lambda one: one.layers):
        layer, of_layer = layers[-1] if layers else "", list(group)
        if layer in _LAYERS:
            steps.append(_layer_step(layers, of_layer))
        else:
            kind = "block" if layer.startswith("block_") else layer
            expected = waiting.setdefault(layers, list(_INSIDE.get(kind, _IN_HEADS)))
            steps += _found(layers, of_layer, expected)
    return steps


def _found(layers: tuple[str, ...], operations: list[Operation], expected: list) -> Iterator[Step]:
    for operation in operations:
        if expected and operation.kind in expected[0] and _is_whole(operation):
            name, equation = expected.pop(0)[operation.kind]
            inputs = tuple(shape for shape in operation.inputs if len(shape) > 1)
            yield Step(_place(layers), name, equation, inputs, (), operation.outputs[0], operation.flops)


def _place(layers: tuple[str, ...]) -> str:
    """Returns where a step happens: within the encoder it goes without saying."""
    return "/".join(layers[1:] if len(layers) > 1 and layers[0] == ENCODER else layers)


def _is_whole(operation: Operation) -> bool:
    """Tells a sum of two activations from one with a constant."""
    return operation.kind != "AddV2" or () not in operation.inputs


def _layer_step(layers: tuple[str, ...], operations: list[Operation]) -> Step:
    name, equation = _LAYERS[layers[-1]]
    weights = {one.source.inputs[0].ref(): one.outputs[0] for one in operations if one.kind == "ReadVariableOp"}
    first = next(one for one in operations if one.is_product or one.kind in ("GatherV2", "Mean"))
    inputs = first.inputs[1:2] if first.kind == "GatherV2" else first.inputs[:1]
    flops = sum(one.flops for one in operations)
    return Step(_place(layers), name, equation, inputs, tuple(weights.values()), operations[-1].outputs[0], flops)
