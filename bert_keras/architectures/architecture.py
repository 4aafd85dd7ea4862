"""`Architecture`: the tensors and classes of a model type of transformers. This module imports nothing heavy."""

import dataclasses
from collections.abc import Mapping, Set

DENSE, OUTPUT, NORM, TABLE, VECTOR = "dense", "output", "norm", "table", "vector"  # kinds of layers in a tensor table

# A row of a tensor table: the kind of a layer, the axes of its matrix or vector (letters of `weight_names._get_sizes`),
# and its name in our models, in transformers, in Google's TF1 checkpoints and in KerasHub. A row without kind has the
# prefixes of the rows after it.
Rows = tuple[tuple[str | None, ...], ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Architecture:
    """The tensors, classes and settings of an architecture in checkpoints.

    Attributes:
        model_type: its name in `config.json`, which is also the prefix of the encoder's tensors.
        class_prefix: the beginning of the names of its classes in transformers.
        embeddings: the tensors of the embeddings.
        block: the tensors of a transformer block, with `{i}` for its number.
        projection: the tensors between embeddings that are narrower than the blocks and the first block.
        pooler: the tensors of the pooler.
        heads: the tensors of each head, keyed by the name of the model class.
        needs_pooler: the model classes that cannot be built without a pooler.
        models: the model class for each ending of a class in transformers that means another head than in BERT.
        endings: the ending of the class in transformers for each model class that has no class of its own there.
        head_settings: arguments of heads that `config.json` does not show, keyed by the name of the model class.
        has_embedding_size: whether `config.json` has the width of the embeddings.
    """

    model_type: str
    class_prefix: str
    embeddings: Rows
    block: Rows
    projection: Rows
    pooler: Rows
    heads: Mapping[str, Rows]
    needs_pooler: Set[str]
    models: Mapping[str, str] = dataclasses.field(default_factory=dict)
    endings: Mapping[str, str] = dataclasses.field(default_factory=dict)
    head_settings: Mapping[str, Mapping[str, object]] = dataclasses.field(default_factory=dict)
    has_embedding_size: bool = False
