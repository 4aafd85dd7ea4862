"""The arguments of a `BertTokenizer`, without the tokenizer: to save, compare, and rebuild it in another process.

A `BertTokenizer` needs TensorFlow, which costs 0.5 GB and seconds. The process that only reads text does without it.
"""

import dataclasses
import hashlib
from collections.abc import Mapping

from bert_keras.pipelines.text.text_rules import TextRules
from bert_keras.pipelines.text.tokenizer_folder import check_length
from bert_keras.pipelines.text.vocabulary import (
    SPECIAL_TOKENS,
    check_special_tokens,
    check_vocabulary,
    encode_vocabulary,
)

IDENTITY = (
    "lowercase",
    "strip_accents",
    "tokenize_chinese_chars",
    "additional_special_tokens",
    "added_tokens",
    "vocabulary_size",
    "vocabulary_sha256",
)


@dataclasses.dataclass(frozen=True)
class TokenizerSpec:
    """The arguments of a `BertTokenizer`.

    Attributes:
        vocabulary: the tokens in the order of their ids.
        rules: how text is split into words.
        additional_special_tokens: special tokens other than BERT's five.
        added_tokens: tokens that are found whole in normalized text.
        max_sequence_length: maximum length that the model accepts, or None.

    Raises:
        InputError: the vocabulary or the maximum length is invalid, or the vocabulary lacks a special or added token.
    """

    vocabulary: tuple[str, ...]
    rules: TextRules = dataclasses.field(default_factory=TextRules)
    additional_special_tokens: tuple[str, ...] = ()
    added_tokens: tuple[str, ...] = ()
    max_sequence_length: int | None = None

    def __post_init__(self) -> None:
        check_vocabulary(self.vocabulary)
        check_special_tokens((*self.special_tokens, *self.added_tokens), set(self.vocabulary))
        check_length(self.max_sequence_length)

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, object], max_sequence_length: int | None) -> "TokenizerSpec":
        """Return the spec of the tokenizer that `BertTokenizer` would make from these arguments."""
        rules = {name: arguments[name] for name in vars(TextRules()) if name in arguments}
        tokens = {
            name: tuple(arguments[name]) for name in ("additional_special_tokens", "added_tokens") if name in arguments
        }
        return cls(
            tuple(arguments["vocabulary"]), TextRules(**rules), **tokens, max_sequence_length=max_sequence_length
        )

    @classmethod
    def from_tokenizer(cls, tokenizer: object) -> "TokenizerSpec":
        """Return the spec of a `BertTokenizer`. A `TokenizerSpec` is returned unchanged."""
        return tokenizer if isinstance(tokenizer, cls) else tokenizer.spec

    @property
    def arguments(self) -> dict:
        """The keyword arguments of `BertTokenizer`."""
        return {
            "vocabulary": self.vocabulary,
            **dataclasses.asdict(self.rules),
            "additional_special_tokens": self.additional_special_tokens,
            "added_tokens": self.added_tokens,
            "max_sequence_length": self.max_sequence_length,
        }

    @property
    def identity(self) -> dict:
        """The values that identify a tokenizer in a manifest, keyed as in `IDENTITY`."""
        values = (
            self.rules.lowercase,
            self.rules.strip_accents,
            self.rules.tokenize_chinese_chars,
            list(self.additional_special_tokens),
            list(self.added_tokens),
            len(self.vocabulary),
            hashlib.sha256(encode_vocabulary(self.vocabulary)).hexdigest(),
        )
        return dict(zip(IDENTITY, values, strict=True))

    @property
    def digest(self) -> str:
        """The SHA-256 of all arguments. Tokenizers with equal digests return equal ids."""
        return hashlib.sha256(repr(sorted(self.arguments.items())).encode()).hexdigest()

    @property
    def special_tokens(self) -> tuple[str, ...]:
        """All special tokens, BERT's five first."""
        return (*SPECIAL_TOKENS, *self.additional_special_tokens)


class SpecifiedTokenizer:
    """Base class of tokenizers, with the attributes that follow from a spec; `BertTokenizer` describes them."""

    def __init__(self, spec: TokenizerSpec):
        self.spec = spec
        self.vocabulary = spec.vocabulary
        self.vocabulary_size = len(spec.vocabulary)
        self.rules = spec.rules
        self.lowercase = spec.rules.lowercase
        self.special_tokens = spec.special_tokens
        self.added_tokens = spec.added_tokens
        self.max_sequence_length = spec.max_sequence_length
        self.special_ids = tuple(map(spec.vocabulary.index, SPECIAL_TOKENS))
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = self.special_ids
