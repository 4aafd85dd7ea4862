"""Parameters and FLOPs of a model by kind of layer, and the sizes of its weight files."""

import collections
import dataclasses
import math
from collections.abc import Iterable

import keras

from bert_keras.analysis.cost_model.tracing.operations import Operation

# End of a layer's path -> name of the component; the longest matching end counts
_COMPONENTS = {
    "embeddings/token": "token embeddings",
    "embeddings/segment": "segment embeddings",
    "embeddings/position": "position embeddings",
    "embeddings/layer_norm": "embedding norm",
    "embedding_projection": "embedding projection",
    "attention/query": "attention Q",
    "attention/key": "attention K",
    "attention/value": "attention V",
    "attention/projection": "attention output",
    "attention_norm": "attention norm",
    "intermediate": "feed-forward in",
    "feed_forward": "feed-forward out",
    "feed_forward_norm": "feed-forward norm",
    "pooler": "pooler",
    "mlm_head": "masked-LM head",
    "mlm_head/transform": "masked-LM head",
    "mlm_head/layer_norm": "masked-LM head",
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


def count_parameters(model: keras.Model) -> list[Component]:
    """Count the parameters of a built model by component; tied weights count once.

    Returns:
        The components in the order of the model. They add up to `model.count_params()`.
    """
    counts, layers = collections.Counter(), collections.defaultdict(set)
    for weight in model.weights:
        layer, _, _ = weight.path.rpartition("/")
        name = _name_component(layer)
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


def _name_component(layer: str) -> str:
    """Return the component name of a layer path; layers of heads have the name of the layer."""
    parts = layer.split("/")
    for start in range(len(parts)):
        if (name := _COMPONENTS.get("/".join(parts[start:]))) is not None:
            return name
    return parts[-1].replace("_", " ")


def _find_part(operation: Operation) -> str:
    if not operation.is_matrix_product:
        return ELEMENTWISE
    if not operation.layers:
        return "loss"
    if operation.layers[-1] == "attention":
        *scopes, name = operation.source.name.split("/")
        return "context" if _SECOND_PRODUCT in (scopes if operation.is_backward else (name,)) else "scores"
    name = _name_component("/".join(operation.layers))
    return _PARTS.get(name, name)
