"""A tokenizer in Hugging Face's `tokenizers`: to tokenize without TensorFlow, and as files in a model folder."""

import dataclasses
import hashlib
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from bert_keras.errors import UnsupportedTokenizerError
from bert_keras.files import write_json
from bert_keras.pipelines.text.text_rules import TextRules
from bert_keras.pipelines.text.token_arrays import TokenArrays, as_text_array
from bert_keras.pipelines.text.tokenizer_folder import (
    CONFIG_NAMES,
    OUR_KEY,
    OUR_SETTINGS,
    SPECIAL_TOKENS_KEYS,
    TOKENIZER_CONFIG,
    TOKENIZER_JSON,
    UNLIMITED,
    VOCABULARY,
    check_length,
)
from bert_keras.pipelines.text.vocabulary import (
    SPECIAL_TOKENS,
    check_special_tokens,
    check_vocabulary,
    digest_vocabulary,
    write_vocabulary,
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
    """The arguments of a `BertTokenizer`, some of them as `TextRules`: to save, compare, and rebuild it elsewhere.

    A `BertTokenizer` needs TensorFlow, which costs 0.5 GB and seconds. A process that only reads text does without.

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
        arguments = {**vars(self), **vars(self.rules)}
        del arguments["rules"]
        return arguments

    @property
    def identity(self) -> dict:
        """The values that identify a tokenizer in a manifest, keyed as in `IDENTITY`."""
        lists = {name: list(getattr(self, name)) for name in ("additional_special_tokens", "added_tokens")}
        digest = digest_vocabulary(self.vocabulary)
        values = {"vocabulary_size": len(self.vocabulary), "vocabulary_sha256": digest, **vars(self.rules), **lists}
        return {name: values[name] for name in IDENTITY}

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


class PortableTokenizer(SpecifiedTokenizer):
    """Tokenizer that splits text into WordPiece ids without TensorFlow, for programs that only predict.

    It is Hugging Face's library with the vocabulary and the text rules of a `BertTokenizer`, as `BertTokenizer.save`
    writes them to `tokenizer.json`. Its Unicode version is that of the library, so the ids of rare characters can
    differ from `BertTokenizer`'s (`docs/reference/tokenizer.md` lists them); the parity report of an ONNX artifact
    counts the texts that do. Special tokens in a text are ordinary text, as in `BertTokenizer.tokenize`.

    Args:
        vocabulary: the tokens in the order of their ids, including `SPECIAL_TOKENS`.
        additional_special_tokens, added_tokens, max_sequence_length: see `BertTokenizer`.
        **rules: fields of `TextRules`.

    Raises:
        InputError: the vocabulary or a setting is invalid, or the text rules are MediaPipe's.

    Example:
        >>> tokenizer = PortableTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "play", "##ing"])
        >>> tokenizer.tokenize_to_arrays(["Playing pl\u00e1y"]).token_ids.tolist()
        [5, 6, 5]
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        *,
        additional_special_tokens: Sequence[str] = (),
        added_tokens: Sequence[str] = (),
        max_sequence_length: int | None = None,
        **rules: Any,
    ):
        own_tokens = tuple(additional_special_tokens), tuple(added_tokens)
        super().__init__(TokenizerSpec(tuple(vocabulary), TextRules(**rules), *own_tokens, max_sequence_length))
        if self.rules.is_mediapipe:
            raise UnsupportedTokenizerError(
                "the tokenizer has MediaPipe's text rules, which run in TensorFlow only; expected BERT's: use the "
                "engine tensorflow"
            )
        self._rust = _make_rust_tokenizer(self.spec, with_special_tokens=False)

    def tokenize_to_arrays(self, texts: Any, *, with_offsets: bool = False) -> TokenArrays:
        """Return the tokens of all texts as NumPy arrays.

        Args:
            texts: `(B,)` strings.
            with_offsets: whether to compute the range of characters and the word of each token.

        Raises:
            InputError: `texts` is not a batch of strings.
        """
        texts = [text.decode("utf-8", "replace") if isinstance(text, bytes) else text for text in as_text_array(texts)]
        run = self._rust.encode_batch if with_offsets else self._rust.encode_batch_fast
        encodings = run(texts, add_special_tokens=False)
        ids = [encoding.ids for encoding in encodings]
        row_splits = np.cumsum([0, *map(len, ids)])
        token_ids = np.fromiter((number for text in ids for number in text), np.int32, row_splits[-1])
        if not with_offsets:
            return TokenArrays(token_ids, row_splits)
        offsets = np.array([pair for encoding in encodings for pair in encoding.offsets], np.int32).reshape(-1, 2)
        word_ids = np.array([number for encoding in encodings for number in encoding.word_ids], np.int32)
        return TokenArrays(token_ids, row_splits, offsets[:, 0], offsets[:, 1], word_ids)


def _make_rust_tokenizer(spec: TokenizerSpec, *, with_special_tokens: bool) -> Tokenizer:
    """Return a tokenizer of Hugging Face's library.

    Args:
        spec: the arguments of the tokenizer, with BERT's text rules.
        with_special_tokens: whether all special tokens are matched in the raw text, and left out when ids are decoded;
            otherwise only the additional ones are matched, as ordinary tokens.
    """
    ids, rules = {token: index for index, token in enumerate(spec.vocabulary)}, spec.rules
    limit = rules.max_input_chars_per_word
    rust = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=limit))
    rust.normalizer = _make_bert_normalizer(rules, handle_chinese_chars=rules.tokenize_chinese_chars)
    rust.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    rust.decoder = decoders.WordPiece(prefix="##")
    rust.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(token, ids[token]) for token in ("[CLS]", "[SEP]")],
    )
    if with_special_tokens:
        rust.add_special_tokens(list(spec.special_tokens))
    else:
        rust.add_tokens([AddedToken(token, normalized=False) for token in spec.additional_special_tokens])
    rust.add_tokens([AddedToken(token, normalized=True) for token in spec.added_tokens])
    return rust


def _make_bert_normalizer(rules: TextRules, *, handle_chinese_chars: bool) -> normalizers.BertNormalizer:
    return normalizers.BertNormalizer(
        lowercase=rules.lowercase, strip_accents=rules.strip_accents, handle_chinese_chars=handle_chinese_chars
    )


def make_normalizer(rules: TextRules) -> Callable[[str], str]:
    """Return the function that folds case and strips accents as the rules say, without splitting text."""
    if rules.is_mediapipe:
        return lambda text: "".join(character.lower() if character.isascii() else character for character in text)
    return _make_bert_normalizer(rules, handle_chinese_chars=False).normalize_str


def write_settings(folder: str | os.PathLike, spec: TokenizerSpec) -> None:
    """Write the files of a tokenizer: `vocab.txt`, `tokenizer_config.json` and, with BERT's rules, `tokenizer.json`."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_vocabulary(folder / VOCABULARY, spec.vocabulary)
    config = {
        "tokenizer_class": "BertTokenizer",
        **{theirs: getattr(spec.rules, ours) for ours, theirs in CONFIG_NAMES.items()},
        "model_max_length": spec.max_sequence_length or UNLIMITED,
        **dict(zip(SPECIAL_TOKENS_KEYS, SPECIAL_TOKENS, strict=True)),
        "additional_special_tokens": list(spec.additional_special_tokens),
        OUR_KEY: {name: getattr(spec.rules, name) for name in OUR_SETTINGS},
    }
    write_json(folder / TOKENIZER_CONFIG, config)
    if not spec.rules.is_mediapipe:  # `tokenizers` has no component with MediaPipe's rules
        rust = _make_rust_tokenizer(spec, with_special_tokens=True)
        text = rust.to_str(pretty=True)  # its `save` raises a bare Exception on a full disk
        (folder / TOKENIZER_JSON).write_text(text, encoding="utf-8")
