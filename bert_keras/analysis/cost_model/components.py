"""Parameters and FLOPs of a model by kind of layer, its forward pass as a list of steps, and the sizes of its files."""

import collections
import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator

import keras

from bert_keras.analysis.cost_model.workloads import ENCODER, Operation, Shape

_DENSE = "x W + b"
_NORM = "gamma (x - mean) / sqrt(variance + epsilon) + beta"
# End of a layer's path -> its component, and the name and equation of its step; the longest matching end counts.
# Layers without a step have sublayers and are described in `_STEPS_OF_LAYERS`
_LAYERS = {
    "embeddings/token": ("token embeddings", "token embeddings", "E_token[token_ids]"),
    "embeddings/segment": ("segment embeddings", "segment embeddings", "E_segment[segment_ids]"),
    "embeddings/position": ("position embeddings", "position embeddings", "E_position[0 ... S-1]"),
    "embeddings/layer_norm": ("embedding norm", "norm", _NORM),
    "embedding_projection": ("embedding projection", "projection", _DENSE),
    "attention/query": ("attention Q", "queries", "Q = x W_Q + b_Q"),
    "attention/key": ("attention K", "keys", "K = x W_K + b_K"),
    "attention/value": ("attention V", "values", "V = x W_V + b_V"),
    "attention/projection": ("attention output", "output", "context W_O + b_O"),
    "attention_norm": ("attention norm", "norm", _NORM),
    "intermediate": ("feed-forward in", "feed-forward in", "x W_1 + b_1"),
    "feed_forward": ("feed-forward out", "feed-forward out", "x W_2 + b_2"),
    "feed_forward_norm": ("feed-forward norm", "norm", _NORM),
    "pooler": ("pooler", "pooler", "x[CLS] W_P + b_P"),
    "mlm_head": ("masked-LM head", None, None),
    "mlm_head/transform": ("masked-LM head", "transform", _DENSE),
    "mlm_head/layer_norm": ("masked-LM head", "norm", _NORM),
    "cls_dense": ("cls dense", "transform", "x[CLS] W + b"),
    "classifier": ("classifier", "classes", _DENSE),
    "span": ("span", "starts and ends", _DENSE),
    "next_sentence": ("next sentence", "next sentence", _DENSE),
    "head_dense": ("head dense", "transform", _DENSE),
    "replaced": ("replaced", "replaced", _DENSE),
}
ELEMENTWISE = "elementwise"  # additions, norms, softmax, GELU: everything except matrix products
# Components that `count_flops_by_part` joins
_PARTS = {
    "attention Q": "QKV",
    "attention K": "QKV",
    "attention V": "QKV",
    "feed-forward in": "feed-forward",
    "feed-forward out": "feed-forward",
}
_SECOND_PRODUCT = "MatMul_1"  # TensorFlow's name of the second matrix product of a layer
_FLOAT32, _FLOAT16, _INT8 = 4, 2, 1  # bytes

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
class Component:
    """All layers of one kind in a model.

    Attributes:
        name: name of the component, such as "attention Q".
        parameters: number of parameters of all these layers.
        num_layers: number of these layers, such as 12 attention norms in base.
    """

    name: str
    parameters: int
    num_layers: int


@dataclasses.dataclass(frozen=True)
class Flops:
    """FLOPs of a part of a model.

    Attributes:
        part: "QKV", "scores", "context", "attention output", "feed-forward", "elementwise", or the name of a head's
            layer.
        forward, backward: FLOPs of the forward and the backward pass.
    """

    part: str
    forward: int
    backward: int


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


def count_parameters(model: keras.Model) -> list[Component]:
    """Count the parameters of a built model by component; tied weights count once.

    Returns:
        The components in the order of the model. They add up to `model.count_params()`.
    """
    counts, layers = collections.Counter(), collections.defaultdict(set)
    for weight in model.weights:
        layer, _, _ = weight.path.rpartition("/")
        name, *_ = _find_layer(layer)
        counts[name] += math.prod(weight.shape)
        layers[name].add(layer)
    return [Component(name, number, len(layers[name])) for name, number in counts.items()]


def count_flops_by_part(operations: Iterable[Operation], block: int | None = None) -> list[Flops]:
    """Add up the FLOPs of operations by part, in the order of the model.

    Args:
        operations: the operations of a forward pass or a training step.
        block: index of the block to count; None counts the whole model.
    """
    forward, backward = collections.Counter(), collections.Counter()
    for operation in operations:
        if operation.flops and (block is None or f"block_{block}" in operation.layers):
            (backward if operation.is_backward else forward)[_find_part(operation)] += operation.flops
    parts = dict.fromkeys((*(part for part in forward if part != ELEMENTWISE), *backward, ELEMENTWISE))
    return [Flops(part, forward[part], backward[part]) for part in parts]


def list_forward_steps(operations: Iterable[Operation]) -> list[Step]:
    """Group the operations of a forward pass, of a `Workload`, into named steps."""
    steps, remaining = [], {}
    for layers, group in itertools.groupby(operations, key=lambda operation: operation.layers):
        _, name, equation = _find_layer("/".join(layers))
        if name is not None:
            steps.append(_describe_layer(layers, name, equation, list(group)))
        else:
            layer = layers[-1] if layers else ""
            kind = "block" if layer.startswith("block_") else layer
            expected = remaining.setdefault(layers, list(_STEPS_OF_LAYERS.get(kind, _STEPS_OF_HEADS)))
            steps += _match_steps(layers, group, expected)
    return steps


def estimate_file_sizes(model: keras.Model) -> dict[str, int]:
    """Compute the bytes of the weights in each file format; graph, vocabulary and metadata are not included.

    int8 files store matrices and embedding tables as int8 with one float32 scale per output channel, and vectors as
    float32. The second copy of the tied embedding table in a TFLite masked LM is not included.
    """
    shapes = [weight.shape for weight in model.weights]
    num_parameters = sum(map(math.prod, shapes))
    int8_bytes = sum(
        _INT8 * math.prod(shape) + _FLOAT32 * shape[-1] if len(shape) > 1 else _FLOAT32 * math.prod(shape)
        for shape in shapes
    )
    return {
        "checkpoint (safetensors)": _FLOAT32 * num_parameters,
        "SavedModel": _FLOAT32 * num_parameters,
        "TFLite float32": _FLOAT32 * num_parameters,
        "TFLite float16": _FLOAT16 * num_parameters,
        "TFLite dynamic_int8": int8_bytes,
        "ONNX": _FLOAT32 * num_parameters,
        "ONNX int8": int8_bytes,
    }


def _match_steps(layers: tuple[str, ...], operations: Iterable[Operation], expected: list) -> Iterator[Step]:
    for operation in operations:
        # token indices are integers, and the addition of a constant is no step
        is_constant = operation.kind == "AddV2" and any(one.shape == () for one in operation.inputs)
        if expected and operation.kind in expected[0] and operation.is_floating and not is_constant:
            name, equation = expected.pop(0)[operation.kind]
            inputs = tuple(one.shape for one in operation.inputs if len(one.shape) > 1)
            output = operation.outputs[0].shape
            yield Step(_format_path(layers), name, equation, inputs, (), output, operation.flops)


def _describe_layer(layers: tuple[str, ...], name: str, equation: str, operations: list[Operation]) -> Step:
    weights = {one.inputs[0]: one.outputs[0].shape for one in operations if one.kind == "ReadVariableOp"}
    main = next(one for one in operations if one.is_matrix_product or one.kind in ("GatherV2", "Mean"))
    inputs = tuple(one.shape for one in (main.inputs[1:2] if main.kind == "GatherV2" else main.inputs[:1]))
    flops = sum(operation.flops for operation in operations)
    output = operations[-1].outputs[0].shape
    return Step(_format_path(layers), name, equation, inputs, tuple(weights.values()), output, flops)


def _format_path(layers: tuple[str, ...]) -> str:
    """Join the names of layers, without the encoder's own name."""
    return "/".join(layers[1:] if len(layers) > 1 and layers[0] == ENCODER else layers)


def _find_layer(path: str) -> tuple[str, str | None, str | None]:
    """Return the component of a layer and its step; components of unknown layers of heads have the layer's name."""
    parts = path.split("/")
    ends = ("/".join(parts[start:]) for start in range(len(parts)))
    return next((_LAYERS[end] for end in ends if end in _LAYERS), (parts[-1].replace("_", " "), None, None))


def _find_part(operation: Operation) -> str:
    if not operation.is_matrix_product:
        return ELEMENTWISE
    if not operation.layers:
        return "loss"
    if operation.layers[-1] == "attention":
        *scopes, name = operation.name.split("/")
        return "context" if _SECOND_PRODUCT in (scopes if operation.is_backward else (name,)) else "scores"
    name, *_ = _find_layer("/".join(operation.layers))
    return _PARTS.get(name, name)
