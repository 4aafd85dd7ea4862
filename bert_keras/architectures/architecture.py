"""`Architecture`: the encoder, tensors and classes of a model type of transformers. This module imports nothing heavy.

Heavy parts are named as `module:attribute` and imported on use.
"""

import dataclasses
import importlib
from collections.abc import Mapping, Set

DENSE, OUTPUT, NORM, TABLE, VECTOR = "dense", "output", "norm", "table", "vector"  # kinds of layers in a tensor table

# A row of a tensor table: the kind of a layer, the axes of its matrix or vector (letters of `weight_names._get_sizes`),
# and its name in our models, in transformers, in Google's TF1 checkpoints and in KerasHub. A row without kind has the
# prefixes of the rows after it.
Rows = tuple[tuple[str | None, ...], ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Architecture:
    """The encoder of an architecture, and its tensors, classes and settings in checkpoints.

    Attributes:
        model_type: its name in `config.json`, which is also the prefix of the encoder's tensors.
        encoder: the Keras class of its encoder, a `BertEncoder` or a class derived from it; `module:attribute`.
        config_keys: the names in `config.json` of the fields of `BertConfig`. A field that is not in it always has the
            value in `fixed_fields`.
        config_defaults: the values of keys that may be missing in `config.json`, as in transformers.
        fixed_fields: the fields of `BertConfig` that have the same value in all models of the architecture.
        act_key: the name in `config.json` of `hidden_act`.
        dropout_keys: the names in `config.json` of the dropout rate of each model class with classes.
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
        tied: the tensors that are equal to another tensor and may be stored all the same: the name of each in
            transformers, and the name of the other tensor.
        has_segments: whether the embeddings have a table of segments.
        classifier_act: the activation of the classifier's dense layer, in an encoder without a pooler.
        has_classifier_dropout: whether there is dropout before that layer, too.
    """

    model_type: str
    encoder: str = "bert_keras.architectures.encoder:BertEncoder"
    config_keys: Mapping[str, str]
    config_defaults: Mapping[str, object] = dataclasses.field(default_factory=dict)
    fixed_fields: Mapping[str, object] = dataclasses.field(default_factory=dict)
    act_key: str = "hidden_act"
    dropout_keys: Mapping[str, str] = dataclasses.field(default_factory=dict)
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
    tied: Mapping[str, str] = dataclasses.field(default_factory=dict)
    has_segments: bool = True
    classifier_act: str = "gelu"
    has_classifier_dropout: bool = True

    @property
    def block_prefix(self) -> str:
        """The beginning of the names of the tensors of block {i} in transformers."""
        return self.block[0][3]

    @property
    def has_embedding_size(self) -> bool:
        """Whether the embeddings can be narrower than the blocks."""
        return "embedding_dim" in self.config_keys

    def load_encoder(self) -> type:
        """Import and return the class of the encoder."""
        module, _, name = self.encoder.partition(":")
        return getattr(importlib.import_module(module), name)
