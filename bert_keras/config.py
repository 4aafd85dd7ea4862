"""`BertConfig`: every number that decides what function a BERT computes, and nothing else.

Sizes and defaults are those of the BERT paper (Devlin et al. 2018) and of the smaller
models of "Well-Read Students Learn Better" (Turc et al. 2019). No TensorFlow here.
"""

import dataclasses

from bert_keras.checks import describe_integer, format_names, is_integer, quote
from bert_keras.errors import InputError

HIDDEN_ACTS = ("gelu", "gelu_tanh", "relu")
POSITION_TYPES = ("learned", "sinusoidal")

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
    """The shape of one BERT encoder.

    Args:
        vocabulary_size: V, number of WordPiece ids.
        num_layers: number of transformer blocks.
        num_heads: N, attention heads a block; must divide `hidden_dim`.
        hidden_dim: D, width of the encoder.
        intermediate_dim: width of the feed-forward layer; 4 D in every published BERT.
        max_sequence_length: the longest input in tokens, [CLS] and [SEP] counted.
        type_vocabulary_size: number of segment ids.
        embedding_dim: width of the embedding tables; ELECTRA's small models make it
            narrower than `hidden_dim` and project. Default: `hidden_dim`.
        hidden_act: "gelu" (with erf, as in the paper), "gelu_tanh" (its approximation,
            as in Google's code) or "relu".
        position_type: "learned" (BERT) or "sinusoidal" (Vaswani et al. 2017, no parameters).
        hidden_dropout_rate: dropout after the embeddings and after each sub-layer.
        attention_dropout_rate: dropout on the attention probabilities.
        layer_norm_epsilon: added to the variance in every layer norm.
        initializer_range: standard deviation of the normal that draws new weights; truncated but in output layers.

    Raises:
        InputError: a value is out of its range; all faults are named at once.

    Example:
        >>> BertConfig.from_preset("tiny", vocabulary_size=8000).hidden_dim
        128
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

    def __post_init__(self):
        if self.embedding_dim is None:
            object.__setattr__(self, "embedding_dim", self.hidden_dim)
        if faults := list(self._faults()):
            raise InputError("BertConfig cannot be built: " + "; ".join(faults))

    def _faults(self):
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

    @property
    def head_dim(self) -> int:
        """H, the width of one attention head."""
        return self.hidden_dim // self.num_heads

    @classmethod
    def from_preset(cls, name: str, **overrides) -> "BertConfig":
        """Returns a published size: tiny, mini, small, medium, base or large; `overrides` change single fields."""
        if name not in PRESETS:
            raise InputError(f"there is no preset {name!r}; expected one of {', '.join(PRESETS)}")
        return cls.from_dict({**PRESETS[name], **overrides})

    @classmethod
    def from_dict(cls, values: dict) -> "BertConfig":
        """Builds a config from plain values and refuses a key that it does not know."""
        known = [field.name for field in dataclasses.fields(cls)]
        if unknown := sorted(set(values) - set(known)):
            raise InputError(f"BertConfig does not know {format_names(unknown)}; its fields are {', '.join(known)}")
        return cls(**values)

    def to_dict(self) -> dict:
        """Returns every field as a plain value; `from_dict` reads it back."""
        return dataclasses.asdict(self)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
