"""The forward pass as a list of steps, in order, each with its equation and shapes."""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator

from bert_keras.analysis.cost_model.tracing.operations import ENCODER, Operation, Shape

_DENSE = "x W + b"
_NORM = "gamma (x - mean) / sqrt(variance + epsilon) + beta"
# Layers that are a single step: the step's name and equation
_LAYERS = {
    "token": ("token embeddings", "E_token[token_ids]"),
    "segment": ("segment embeddings", "E_segment[segment_ids]"),
    "position": ("position embeddings", "E_position[0 ... S-1]"),
    "layer_norm": ("norm", _NORM),
    "embedding_projection": ("projection", _DENSE),
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
    "Tanh": ("GELU (tanh)", "x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2"),
    "Relu": ("ReLU", "max(0, x)"),
}
_ADD_POSITION = ("sum", "+ position")
# The operations of a layer outside of its sublayers, in order: TensorFlow's operation type -> the step's name and
# equation. An entry with several operation types matches the first that occurs
_STEPS_OF_LAYERS = {
    "attention": (
        {"Mul": ("scale", "Q / sqrt(H)")},
        {"Transpose": ("split heads of Q", "(S, D) -> (N, S, H)")},
        {"Transpose": ("split heads of K", "(S, D) -> (N, S, H)")},
        {"Transpose": ("split heads of V", "(S, D) -> (N, S, H)")},
        {"BatchMatMulV2": ("scores", "Q K^T")},
        {"AddV2": ("mask", "scores + padding bias")},
        {"Softmax": ("attention", "softmax over the keys")},
        {"BatchMatMulV2": ("context", "attention V")},
        {"Reshape": ("merge heads", "(N, S, H) -> (S, D)")},
    ),
    "block": ({"AddV2": ("residual", "x + output")}, _ACTIVATIONS, {"AddV2": ("residual", "x + feed-forward")}),
    "embeddings": (
        {"AddV2": ("sum", "token + segment")},
        {"AddV2": _ADD_POSITION, "GatherV2": ("position vectors", "sines and cosines of 0 ... S-1")},
        {"AddV2": _ADD_POSITION},
    ),
    "mlm_head": (_ACTIVATIONS, {"MatMul": ("logits", "x E_token^T")}, {"AddV2": ("bias", "+ b")}),
}
_STEPS_OF_HEADS = ({**_ACTIVATIONS, "Tanh": ("tanh", "tanh(x)")},)


@dataclasses.dataclass(frozen=True)
class Step:
    """A step of the forward pass.

    Attributes:
        layer: path of the layer, such as "block_3/attention".
        name: name of the step.
        equation: the equation of the step.
        inputs: shapes of the inputs, without weights.
        weights: shapes of the weights.
        output: shape of the output.
        flops: floating-point operations.
    """

    layer: str
    name: str
    equation: str
    inputs: tuple[Shape, ...]
    weights: tuple[Shape, ...]
    output: Shape
    flops: int


def list_forward_steps(operations: Iterable[Operation]) -> list[Step]:
    """Group the operations of a forward pass, from `trace_operations`, into named steps."""
    steps, remaining = [], {}
    for layers, group in itertools.groupby(operations, key=lambda operation: operation.layers):
        layer = layers[-1] if layers else ""
        if layer in _LAYERS:
            steps.append(_describe_layer(layers, list(group)))
        else:
            kind = "block" if layer.startswith("block_") else layer
            expected = remaining.setdefault(layers, list(_STEPS_OF_LAYERS.get(kind, _STEPS_OF_HEADS)))
            steps += _match_steps(layers, group, expected)
    return steps


def _match_steps(layers: tuple[str, ...], operations: Iterable[Operation], expected: list) -> Iterator[Step]:
    for operation in operations:
        if expected and operation.kind in expected[0] and _combines_activations(operation):
            name, equation = expected.pop(0)[operation.kind]
            inputs = tuple(shape for shape in operation.inputs if len(shape) > 1)
            yield Step(_format_path(layers), name, equation, inputs, (), operation.outputs[0], operation.flops)


def _combines_activations(operation: Operation) -> bool:
    """Whether an operation computes floating-point numbers and is not the addition of a constant."""
    is_floating = operation.source.outputs[0].dtype.is_floating  # token indices are integers
    return is_floating and not (operation.kind == "AddV2" and () in operation.inputs)


def _describe_layer(layers: tuple[str, ...], operations: list[Operation]) -> Step:
    name, equation = _LAYERS[layers[-1]]
    weights = {one.source.inputs[0].ref(): one.outputs[0] for one in operations if one.kind == "ReadVariableOp"}
    main = next(one for one in operations if one.is_matrix_product or one.kind in ("GatherV2", "Mean"))
    inputs = main.inputs[1:2] if main.kind == "GatherV2" else main.inputs[:1]
    flops = sum(operation.flops for operation in operations)
    output = operations[-1].outputs[0]
    return Step(_format_path(layers), name, equation, inputs, tuple(weights.values()), output, flops)


def _format_path(layers: tuple[str, ...]) -> str:
    """Join the names of layers, without the encoder's own name."""
    return "/".join(layers[1:] if len(layers) > 1 and layers[0] == ENCODER else layers)
