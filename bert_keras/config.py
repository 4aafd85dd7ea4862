"""`BertConfig`: the hyperparameters that determine the function of a BERT encoder.

Sizes and defaults are from the BERT paper (Devlin et al. 2018), those of the smaller models from "Well-Read Students
Learn Better" (Turc et al. 2019). This module does not import TensorFlow.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

from bert_keras.checks import describe_integer, format_names, is_integer, quote
from bert_keras.errors import InputError

HIDDEN_ACTS = ("gelu", "gelu_tanh", "relu")
POSITION_TYPES = ("learned", "sinusoidal")
PROBLEMS = ("single_label", "multi_label", "regression")  # kinds of labels of a text classifier
# settings of a fine-tuned task as version 0.1 stored them, and their names now
RENAMED_TASK_SETTINGS = {"labelled_pieces": "labelled_tokens", "of_pairs": "has_pairs"}

PRESETS: dict[str, dict[str, int]] = {
    "tiny": {"num_layers": 2, "num_heads": 2, "hidden_dim": 128, "intermediate_dim": 512},
    "mini": {"num_layers": 4, "num_heads": 4, "hidden_dim": 256, "intermediate_dim": 1024},
    "small": {"num_layers": 4, "num_heads": 8, "hidden_dim": 512, "intermediate_dim": 2048},
    "medium": {"num_layers": 8, "num_heads": 8, "hidden_dim": 512, "intermediate_dim": 2048},
    "base": {"num_layers": 12, "num_heads": 12, "hidden_dim": 768, "intermediate_dim": 3072},
    "large": {"num_layers": 24, "num_heads": 16, "hidden_dim": 1024, "intermediate_dim": 4096},
}

_COUNTS = (
    "vocabulary_size",
    "num_layers",
    "num_heads",
    "hidden_dim",
    "intermediate_dim",
    "max_sequence_length",
    "type_vocabulary_size",
    "embedding_dim",
)
_RATES = ("hidden_dropout_rate", "attention_dropout_rate")


@dataclasses.dataclass(frozen=True)
class BertConfig:
    """The hyperparameters of a BERT encoder.

    Args:
        vocabulary_size: V, number of WordPiece ids.
        num_layers: number of transformer blocks.
        num_heads: N, attention heads per block; must divide `hidden_dim`.
        hidden_dim: D, width of the encoder.
        intermediate_dim: width of the feed-forward layers; 4 D in every published BERT.
        max_sequence_length: length of the longest input in tokens, including [CLS] and [SEP].
        type_vocabulary_size: number of segment ids.
        embedding_dim: width of the embedding tables. ELECTRA's small models use a smaller width than `hidden_dim`
            and project to it. Default: `hidden_dim`.
        hidden_act: "gelu" (with erf, as in the paper), "gelu_tanh" (an approximation, as in Google's code) or "relu".
        position_type: "learned" (BERT) or "sinusoidal" (Vaswani et al. 2017, no parameters).
        hidden_dropout_rate: dropout rate after the embeddings and after each sublayer.
        attention_dropout_rate: dropout rate of the attention probabilities.
        layer_norm_epsilon: added to the variance in every layer normalization.
        initializer_range: standard deviation of the normal distribution of new weights, which is truncated except in
            output layers.
        model_type: the architecture as in the `config.json` of transformers: "bert", "electra" (other heads) or
            "distilbert" (no segments, no pooler).

    Raises:
        InputError: a value is out of range. The message lists all such values.

    Example:
        >>> config = bk.BertConfig(num_layers=6, vocabulary_size=8000)
        >>> config.head_dim
        64
    """

    vocabulary_size: int = 30522
    num_layers: int = 12
    num_heads: int = 12
    hidden_dim: int = 768
    intermediate_dim: int = 3072
    max_sequence_length: int = 512
    type_vocabulary_size: int = 2
    embedding_dim: int | None = None
    hidden_act: str = "gelu"
    position_type: str = "learned"
    hidden_dropout_rate: float = 0.1
    attention_dropout_rate: float = 0.1
    layer_norm_epsilon: float = 1e-12
    initializer_range: float = 0.02
    model_type: str = "bert"

    def __post_init__(self):
        if self.embedding_dim is None:
            object.__setattr__(self, "embedding_dim", self.hidden_dim)
        if problems := list(self._find_problems()):
            raise InputError("BertConfig cannot be built: " + "; ".join(problems))

    def _find_problems(self) -> Iterator[str]:
        bad_counts = [name for name in _COUNTS if not is_integer(getattr(self, name), 1)]
        for name in bad_counts:
            yield f"{name} is {quote(getattr(self, name))}, expected {describe_integer(1)}"
        if not {"num_heads", "hidden_dim"} & set(bad_counts) and self.hidden_dim % self.num_heads:
            yield f"hidden_dim {self.hidden_dim} is not divisible by num_heads {self.num_heads}"
        for name in _RATES:
            if not _is_number(getattr(self, name)) or not 0 <= getattr(self, name) < 1:
                yield f"{name} is {quote(getattr(self, name))}, expected a number from 0 to below 1"
        for name in ("layer_norm_epsilon", "initializer_range"):
            if not _is_number(getattr(self, name)) or not 0 < getattr(self, name) < float("inf"):
                yield f"{name} is {quote(getattr(self, name))}, expected a number above 0"
        if self.hidden_act not in HIDDEN_ACTS:
            yield f"hidden_act is {quote(self.hidden_act)}, expected one of {', '.join(HIDDEN_ACTS)}"
        if self.position_type not in POSITION_TYPES:
            yield f"position_type is {quote(self.position_type)}, expected one of {', '.join(POSITION_TYPES)}"
        if not isinstance(self.model_type, str):
            yield f"model_type is {quote(self.model_type)}, expected a name such as 'bert'"

    @property
    def head_dim(self) -> int:
        """H, the width of an attention head."""
        return self.hidden_dim // self.num_heads

    @classmethod
    def from_preset(cls, name: str, **overrides: Any) -> "BertConfig":
        """Create the config of a published model size.

        Args:
            name: "tiny", "mini", "small", "medium", "base" or "large".
            **overrides: fields to change.

        Returns:
            The config.

        Raises:
            InputError: the preset does not exist, or an override is invalid.

        Example:
            >>> bk.BertConfig.from_preset("tiny", vocabulary_size=8000).hidden_dim
            128
        """
        if name not in PRESETS:
            raise InputError(f"there is no preset {name!r}; expected one of {', '.join(PRESETS)}")
        return cls.from_dict({**PRESETS[name], **overrides})

    @classmethod
    def from_dict(cls, values: dict) -> "BertConfig":
        """Create a config from the dict of `to_dict`.

        Args:
            values: fields of the config, keyed by name; missing ones have their default.

        Returns:
            The config.

        Raises:
            InputError: a key is unknown, or a value is invalid.

        Example:
            >>> config = bk.BertConfig.from_preset("tiny")
            >>> bk.BertConfig.from_dict(config.to_dict()) == config
            True
        """
        known = [field.name for field in dataclasses.fields(cls)]
        if unknown := sorted(set(values) - set(known)):
            raise InputError(f"BertConfig has no {format_names(unknown)}; its fields are {', '.join(known)}")
        return cls(**values)

    def to_dict(self) -> dict:
        """Return all fields as a dict, the argument of `from_dict`.

        Returns:
            Integers, floats and strings, keyed by the name of the field.

        Example:
            >>> bk.BertConfig.from_preset("tiny").to_dict()["num_layers"]
            2
        """
        return dataclasses.asdict(self)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
