"""The table of weight names in the four formats: ours, Hugging Face, Google TF1 and KerasHub.

Our name of a weight is its attribute path in the model: `encoder.blocks.0.attention.query.kernel`. Each row of an
architecture's table names a layer; the layer's kind adds the names of its variables.
"""

import dataclasses
import re
from collections.abc import Sequence

from bert_keras.architectures.architecture import DENSE, NORM, OUTPUT, TABLE, VECTOR, Architecture, Rows
from bert_keras.architectures.known_architectures import ARCHITECTURES, get_architecture
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.heads.known_heads import get_head

# suffixes of each kind of layer for its variables: ours, Hugging Face, Google TF1, KerasHub
_VARIABLES = {
    DENSE: ((".kernel", ".weight", "/kernel", "/kernel"), (".bias", ".bias", "/bias", "/bias")),
    OUTPUT: ((".kernel", ".weight", "_weights", "/kernel"), (".bias", ".bias", "_bias", "/bias")),
    NORM: ((".gamma", ".weight", "/gamma", "/gamma"), (".beta", ".bias", "/beta", "/beta")),
    TABLE: ((".embeddings", ".weight", "", "/embeddings"),),
    VECTOR: (("", "", "", ""),),
}


@dataclasses.dataclass(frozen=True)
class WeightName:
    """The names of a weight in the four formats.

    Attributes:
        ours: its attribute path in our models.
        huggingface: its name in transformers; None, here and below: the format has no such weight.
        google: its name in Google's TF1 code.
        keras_hub: its path in KerasHub.
        axes: its shape in our layout, in the letters of `_get_sizes`.
    """

    ours: str
    huggingface: str | None
    google: str | None
    keras_hub: str | None
    axes: str

    @property
    def is_kernel(self) -> bool:
        """Whether it is the matrix of a dense layer: (in, out) in our models, (out, in) in transformers."""
        return self.ours.endswith(".kernel")

    def shape(self, config: BertConfig, num_classes: int | None = None) -> tuple[int, ...]:
        """Return its shape in our layout; `num_classes` is C, for a head that has it."""
        sizes = _get_sizes(config, num_classes)
        return tuple(sizes[axis] for axis in self.axes)


def list_weights(model: str, config: BertConfig, *, pooler: bool) -> list[WeightName]:
    """List the weights of one of our models, from input to output.

    Args:
        model: the class name, "BertClassifier" for example.
        config: the config of the encoder, whose `model_type` determines the names.
        pooler: whether the encoder has a pooler.
    """
    architecture = get_architecture(config.model_type)
    rows = [
        row
        for row in _add_prefixes(architecture.embeddings)
        if config.position_type == "learned" or "position" not in row[2]
    ]
    if config.embedding_dim != config.hidden_dim:
        rows += architecture.projection
    for i in range(config.num_layers):
        rows += _add_prefixes(architecture.block, i)
    if pooler:
        rows += architecture.pooler
    rows += get_head_rows(architecture, model)
    weights = []
    for kind, axes, *layers in rows:
        for index, suffixes in enumerate(_VARIABLES[kind]):
            names = (None if layer is None else layer + suffix for layer, suffix in zip(layers, suffixes, strict=True))
            weights.append(WeightName(*names, axes[-1] if index else axes))  # a bias has the last axis of its kernel
    return weights


def get_head_rows(architecture: Architecture, model: str) -> Rows:
    """Return the tensors of a head in an architecture; none for the encoder and for heads without weights.

    Raises:
        InputError: the architecture does not have the head.
    """
    if model in architecture.heads:
        return architecture.heads[model]
    if any(model in other.heads for other in ARCHITECTURES.values()):
        raise InputError(
            f"the model is a {model} and its encoder has the model_type {architecture.model_type!r}, for which there "
            f"is no such head; expected one of {', '.join(architecture.heads)}: use one of them or another encoder"
        )
    return get_head(model).tensors


def normalize_tensor_name(name: str) -> str:
    """Convert the name of a tensor in a file to that of the table: no model prefix, no gamma and beta as in TF1."""
    name = re.sub(rf"^({'|'.join(ARCHITECTURES)})\.", "", name)
    return re.sub(r"\.beta$", ".bias", re.sub(r"\.gamma$", ".weight", name))


def _add_prefixes(rows: Sequence[tuple], i: int | None = None) -> list[tuple]:
    """Prepend the prefixes in the first row, with the index of the block, to the names of the other rows."""
    (_, _, *prefixes), *rows = rows

    def join(prefix: str | None, name: str | None) -> str | None:
        return None if prefix is None or name is None else prefix.replace("{i}", str(i)) + name

    return [(kind, axes, *map(join, prefixes, names)) for kind, axes, *names in rows]


def _get_sizes(config: BertConfig, num_classes: int | None) -> dict[str, int | None]:
    return {
        "V": config.vocabulary_size,
        "L": config.max_sequence_length,
        "T": config.type_vocabulary_size,
        "E": config.embedding_dim,
        "D": config.hidden_dim,
        "I": config.intermediate_dim,
        "C": num_classes,
        "1": 1,
        "2": 2,
    }
