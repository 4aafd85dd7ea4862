"""Where the parameters of a built model sit."""

import collections
import dataclasses
import math

import keras

# The end of a layer's path -> what people call it; the longest end that fits
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


@dataclasses.dataclass(frozen=True)
class Component:
    """What one kind of layer holds, in all blocks together.

    Attributes:
        name: "attention Q".
        parameters: of all the layers of this kind.
        num_layers: how many there are; 12 attention norms in base.
    """

    name: str
    parameters: int
    num_layers: int


def parameters_of(model: keras.Model) -> list[Component]:
    """Counts the weights of a model as it is built, those that two layers share once.

    Returns:
        The components in the order of the model. They add up to `model.count_params()`.
    """
    counts, layers = collections.Counter(), collections.defaultdict(set)
    for weight in model.weights:
        layer, _, _ = weight.path.rpartition("/")
        name = component_of(layer)
        counts[name] += math.prod(weight.shape)
        layers[name].add(layer)
    return [Component(name, number, len(layers[name])) for name, number in counts.items()]


def component_of(layer: str) -> str:
    """Returns what people call the layer of a path; for the layers of heads their own name."""
    parts = layer.split("/")
    for start in range(len(parts)):
        if (name := _COMPONENTS.get("/".join(parts[start:]))) is not None:
            return name
    return parts[-1].replace("_", " ")
