"""Reading a tokenizer's files in a model folder, written by us or by Hugging Face's libraries.

`tokenizer.json` has the tokens and the rules, for Hugging Face's Rust library `tokenizers`; transformers 5 writes only
this file and `tokenizer_config.json`, the settings. `vocab.txt` has only the tokens, and `added_tokens.json` the added
tokens of transformers 4. Our own settings are under the key `bert_keras` of `tokenizer_config.json`.
"""

import contextlib
import dataclasses
import functools
import logging
import os
import pathlib
from collections.abc import Iterable, Mapping

from bert_keras.checks import check_integer, check_value, quote, read_field
from bert_keras.embedding_settings import transformer_folder
from bert_keras.errors import InputError, UnsupportedTokenizerError
from bert_keras.files import read_json
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS, check_vocabulary, read_vocabulary

_LOG = logging.getLogger(__name__)
VOCABULARY, TOKENIZER_JSON, TOKENIZER_CONFIG = "vocab.txt", "tokenizer.json", "tokenizer_config.json"
MISSING_VOCABULARY = (  # the end of a message about a folder
    f"has no vocabulary, neither {TOKENIZER_JSON} nor {VOCABULARY}; expected the vocabulary that the model was trained "
    f"with: copy its {VOCABULARY} into the folder"
)
_ADDED, _SPECIAL_MAP = "added_tokens.json", "special_tokens_map.json"
_SENTENCE = "sentence_bert_config.json"  # of sentence-transformers
_OTHER_KINDS = {  # files of other tokenizers and their kind
    "stoken.model": "SentencePiece",
    "sentencepiece.bpe.model": "SentencePiece",
    "tokenizer.model": "SentencePiece",
    "vocab.json": "BPE",
    "merges.txt": "BPE",
}
# The text settings of `BertTokenizer`, with their names in `tokenizer_config.json` and in `tokenizer.json`
CONFIG_NAMES = {
    "lowercase": "do_lower_case",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "tokenize_chinese_chars",
    "max_input_chars_per_word": "max_input_chars_per_word",
}
_JSON_NAMES = CONFIG_NAMES | {"lowercase": "lowercase", "tokenize_chinese_chars": "handle_chinese_chars"}
UNLIMITED = int(1e30)  # `model_max_length` of Hugging Face for no limit
OUR_KEY = "bert_keras"
OUR_SETTINGS = ("text_rules", "unicode_version")
_ADDITIONAL_TOKENS_KEYS = ("additional_special_tokens", "extra_special_tokens")  # in transformers 4 and 5
SPECIAL_TOKENS_KEYS = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
_CLASSES_OF_TOKENIZER_JSON = ("TokenizersBackend", "PreTrainedTokenizerFast")  # they ignore do_lower_case
# the parts of the sequences of one text and of two
_TEMPLATES = {"single": ["[CLS]", "A", "[SEP]"], "pair": ["[CLS]", "A", "[SEP]", "B", "[SEP]"]}


@dataclasses.dataclass(frozen=True)
class AddedToken:
    """A token that Hugging Face's library matches before WordPiece.

    Attributes:
        content: the token.
        token_id: its id.
        normalized: whether it is matched after case and accents are folded.
        single_word: whether it is matched only where no letter is next to it.
    """

    content: str
    token_id: int
    normalized: bool = False
    single_word: bool = False

    @classmethod
    def read(cls, values: object, token_id: object, *, source: object) -> "AddedToken":
        """Read an added token from its JSON object `values` and its id."""
        values = check_value(values, dict, name="an added token", source=source)
        return cls(
            read_field(values, "content", str, source=source),
            check_value(token_id, int, name="the id of an added token", source=source, minimum=0),
            # as in `tokenizers`: special tokens are matched in the raw text
            read_field(values, "normalized", bool, source=source, default=not values.get("special", False)),
            read_field(values, "single_word", bool, source=source, default=False),
        )


def _order_by_id(tokens: Iterable[tuple[str, int]], source: object) -> list[str]:
    """Return tokens in the order of their ids; two tokens with one id, and missing ids, are errors."""
    found: dict[int, str] = {}
    for token, token_id in tokens:
        if found.setdefault(token_id, token) != token:
            raise InputError(
                f"{source} has the id {token_id} for {quote(found[token_id])} and for {quote(token)}; expected one "
                "token per id: restore the file from its source"
            )
    missing = next((number for number in range(len(found)) if number not in found), None)
    if missing is not None:
        raise InputError(
            f"{source} has no token with the id {missing}, but {len(found):,} tokens up to the id {max(found):,}; "
            f"expected ids without a gap: give [unused{missing}] that id in the file"
        )
    return [found[number] for number in range(len(found))]


def _check_is_bert(values: Mapping, source: object) -> None:
    """Raise `UnsupportedTokenizerError` unless a `tokenizer.json` has BERT's text rules."""
    model = read_field(values, "model", dict, source=source)
    read_field(values, "normalizer", dict, source=source, default=None)
    normalizer = _read_normalizer(values)
    by_content = "BPE" if "merges" in model else "WordPiece" if isinstance(model.get("vocab"), dict) else "Unigram"
    _check_equal("model", model.get("type", by_content), "WordPiece", source)  # old files have no type
    _check_equal("unk_token", model.get("unk_token", "[UNK]"), "[UNK]", source)
    _check_equal("continuing_subword_prefix", model.get("continuing_subword_prefix", "##"), "##", source)
    _check_equal("normalizer", _get_kind(normalizer), "BertNormalizer", source)
    _check_equal("clean_text", normalizer.get("clean_text", True), True, source)
    _check_equal("pre_tokenizer", _get_kind(_unwrap(values.get("pre_tokenizer"))), "BertPreTokenizer", source)
    _check_template(read_field(values, "post_processor", dict, source=source, default=None), source)


def _read_normalizer(values: Mapping) -> dict:
    """Return the normalizer of a `tokenizer.json`, or the only one of a sequence; {} if there is no normalizer."""
    normalizer = _unwrap(values.get("normalizer"))
    return normalizer if isinstance(normalizer, dict) else {}


def _check_equal(name: str, value: object, expected: object, source: object) -> None:
    """Raise `UnsupportedTokenizerError` if a setting of a file differs from BERT's."""
    if value != expected:
        raise UnsupportedTokenizerError(
            f"{source} has {name} {quote(value)}; expected BERT's {expected!r}, since the ids would differ with other "
            "text rules: load only the weights (bert_keras.load) and pass them the ids of the model's own tokenizer"
        )


def _find_parts(part: object) -> list | None:
    """Return the parts of a sequence of normalizers or pre-tokenizers; None if it is not a sequence."""
    parts = (part.get("normalizers") or part.get("pretokenizers")) if isinstance(part, dict) else None
    return parts if isinstance(parts, list) else None


def _unwrap(part: object) -> object:
    """Return a normalizer or pre-tokenizer, or the only part of a sequence."""
    while (parts := _find_parts(part)) is not None and len(parts) == 1:
        part = parts[0]
    return part


def _get_kind(part: object) -> object:
    """Return the type of a normalizer or pre-tokenizer, or the types of the parts of a sequence."""
    if not isinstance(part, dict):
        return None
    parts = _find_parts(part)
    return " + ".join(str(_get_kind(one)) for one in parts) if parts is not None else part.get("type")


def _check_template(processor: Mapping | None, source: object) -> None:
    """Raise `UnsupportedTokenizerError` if the special tokens around a text are not [CLS] and [SEP]."""
    if processor is not None and processor.get("type") == "BertProcessing":
        ends = [read_field(processor, name, list, source=source)[:1] for name in ("cls", "sep")]
        _check_equal("post_processor", ends, [["[CLS]"], ["[SEP]"]], source)
    elif processor is not None:  # without one, transformers adds BERT's
        _check_equal("post_processor", processor.get("type"), "TemplateProcessing", source)
        for name, expected in _TEMPLATES.items():
            parts = [[*part.values()] for part in read_field(processor, name, list[dict], source=source)]
            ids = [next((value.get("id") for value in part if isinstance(value, dict)), None) for part in parts]
            _check_equal(f"post_processor {name}", ids, expected, source)


class TokenizerFolder:
    """The tokenizer's files of a model folder, each read when it is needed, and once.

    `tokenizer.json` has priority over `vocab.txt`, as in transformers; `tokenizer_config.json` has further settings.

    Args:
        folder: the model folder.
    """

    def __init__(self, folder: str | os.PathLike):
        self._folder = transformer_folder(pathlib.Path(folder))

    @property
    def has_vocabulary(self) -> bool:
        """Whether there is a file with the tokens."""
        return any((self._folder / name).exists() for name in (TOKENIZER_JSON, VOCABULARY))

    @property
    def has_settings(self) -> bool:
        """Whether there is a file with settings."""
        return any((self._folder / name).exists() for name in (TOKENIZER_JSON, TOKENIZER_CONFIG, _ADDED))

    @property
    def other_kind(self) -> str | None:
        """The name of a file of another kind of tokenizer, in a folder without a WordPiece vocabulary; else None."""
        if self.has_vocabulary:
            return None
        return next((name for name in _OTHER_KINDS if (self._folder / name).exists()), None)

    @functools.cached_property
    def vocabulary(self) -> list[str]:
        """The tokens in the order of their ids, including added tokens.

        Raises:
            InputError: there is no vocabulary, it cannot be read, or ids are missing.
            UnsupportedTokenizerError: it is not a WordPiece vocabulary.
        """
        if other := self.other_kind:
            raise UnsupportedTokenizerError(
                f"{self._folder} has a {_OTHER_KINDS[other]} tokenizer ({other}); expected BERT's WordPiece tokenizer "
                f"in {VOCABULARY} or {TOKENIZER_JSON}: load only the weights (bert_keras.load)"
            )
        if not self.has_vocabulary:
            raise InputError(f"{self._folder} {MISSING_VOCABULARY}")
        if not self._tokenizer_json and not self._added:
            return list(self._text_vocabulary)
        source = self._folder / TOKENIZER_JSON if self._tokenizer_json else self._folder
        if self._tokenizer_json:
            model = read_field(self._tokenizer_json, "model", dict, source=source)
            pairs = [*read_field(model, "vocab", dict[str, int], source=source).items()]
        else:
            pairs = [(token, token_id) for token_id, token in enumerate(self._text_vocabulary)]
        pairs += [(token.content, token.token_id) for token in self._added]
        vocabulary = _order_by_id(pairs, source)
        check_vocabulary(vocabulary, source=str(source))
        self._warn_if_vocab_txt_differs(vocabulary)
        return vocabulary

    def settings(self) -> dict:
        """Return the arguments of `BertTokenizer`, including the vocabulary.

        Raises:
            InputError: there is no vocabulary, or a file cannot be read.
            UnsupportedTokenizerError: the text rules differ from BERT's.
        """
        vocabulary = self.vocabulary
        self._check_config()
        ours = read_field(self._config, OUR_KEY, dict, source=self._folder / TOKENIZER_CONFIG, default={})
        special, added = self._find_own_tokens()
        return {
            "vocabulary": vocabulary,
            "max_sequence_length": self.max_sequence_length(),
            "additional_special_tokens": special,
            "added_tokens": added,
            **self._text_settings(),
            **{name: ours[name] for name in OUR_SETTINGS if name in ours},
        }

    def max_sequence_length(self) -> int | None:
        """Return the maximum sequence length of a tokenizer of any kind; None if unknown or unlimited.

        It is read from sentence-transformers' file, else from `tokenizer_config.json`, else from `tokenizer.json`.

        Raises:
            InputError: a file cannot be read, or the length is invalid.
        """
        lengths = [self._read_optional(_SENTENCE).get("max_seq_length"), self._config.get("model_max_length")]
        length = next((length for length in lengths if length is not None), None)
        if length is None or (isinstance(length, int | float) and length >= UNLIMITED):
            length = self._truncation.get("max_length")
        try:
            return check_length(length)
        except InputError as error:
            raise InputError(f"{self._folder}: {error}") from None

    @functools.cached_property
    def _config(self) -> dict:
        return self._read_optional(TOKENIZER_CONFIG)

    @functools.cached_property
    def _tokenizer_json_of_any_kind(self) -> dict:
        return self._read_optional(TOKENIZER_JSON)

    @functools.cached_property
    def _tokenizer_json(self) -> dict:
        """The content of `tokenizer.json`, with BERT's rules; `{}` if the file is missing."""
        path = self._folder / TOKENIZER_JSON
        if path.exists():
            _check_is_bert(self._tokenizer_json_of_any_kind, path)
        return self._tokenizer_json_of_any_kind

    @functools.cached_property
    def _text_vocabulary(self) -> list[str]:
        return read_vocabulary(self._folder / VOCABULARY)

    @functools.cached_property
    def _added(self) -> list[AddedToken]:
        """The added tokens of `tokenizer.json`, `tokenizer_config.json` and `added_tokens.json`."""
        source = self._folder / TOKENIZER_CONFIG
        config = read_field(self._config, "added_tokens_decoder", dict, source=source, default=None) or {}
        json_path = self._folder / TOKENIZER_JSON
        tokens = read_field(self._tokenizer_json, "added_tokens", list[dict], source=json_path, default=None) or []
        found = [
            *(AddedToken.read(token, token.get("id"), source=json_path) for token in tokens),
            *(AddedToken.read(token, _parse_id(token_id), source=source) for token_id, token in config.items()),
        ]
        known = {token.content for token in found}
        special = {*SPECIAL_TOKENS, *self._named_special_tokens}
        more = self._read_optional(_ADDED)
        source = self._folder / _ADDED
        for content in more:
            if content not in known:
                token_id = read_field(more, content, int, source=source, minimum=0)
                found.append(AddedToken(content, token_id, normalized=content not in special))
        return list({token.content: token for token in reversed(found)}.values())[::-1]

    @functools.cached_property
    def _named_special_tokens(self) -> list[str]:
        """The additional special tokens of the settings, which are strings or objects there."""
        source, named = self._folder / TOKENIZER_CONFIG, None
        for values in (self._config, self._read_optional(_SPECIAL_MAP)):
            named = named or next((values[key] for key in _ADDITIONAL_TOKENS_KEYS if values.get(key)), None)
        tokens = list(named.values()) if isinstance(named, dict) else named or []
        tokens = check_value(tokens, list, name="additional_special_tokens", source=source)
        texts = [token.get("content") if isinstance(token, dict) else token for token in tokens]
        texts = check_value(texts, list[str], name="additional_special_tokens", source=source)
        return list(dict.fromkeys(text for text in texts if text not in SPECIAL_TOKENS))

    def _find_own_tokens(self) -> tuple[list[str], list[str]]:
        """Return the tokens that are matched in the raw text, and those matched after case is folded."""
        own = [token for token in self._added if token.content not in SPECIAL_TOKENS]
        if single := [token.content for token in own if token.single_word]:
            raise UnsupportedTokenizerError(
                f"{self._folder} has the added token {quote(single[0])} with single_word, which matches only between "
                "characters that are not letters; expected single_word false, since BertTokenizer matches tokens "
                "everywhere: change it in tokenizer.json, if the model was trained that way"
            )
        folded = [token.content for token in own if token.normalized]
        whole = [*self._named_special_tokens, *(token.content for token in own if not token.normalized)]
        return [token for token in dict.fromkeys(whole) if token not in folded], folded

    @property
    def _truncation(self) -> dict:
        source = self._folder / TOKENIZER_JSON
        return read_field(self._tokenizer_json_of_any_kind, "truncation", dict, source=source, default=None) or {}

    def _check_config(self) -> None:
        """Raise `UnsupportedTokenizerError` if the settings ask for other text rules than BERT's."""
        source = self._folder / TOKENIZER_CONFIG
        for name, expected in (("word_tokenizer_type", "basic"), ("subword_tokenizer_type", "wordpiece")):
            _check_equal(name, self._config.get(name) or expected, expected, source)
        for name, expected in zip(SPECIAL_TOKENS_KEYS, SPECIAL_TOKENS, strict=True):
            token = self._config.get(name) or expected
            _check_equal(name, token.get("content") if isinstance(token, dict) else token, expected, source)
        if "truncation_side" in self._config:  # has priority over tokenizer.json, as in transformers
            _check_equal("truncation_side", self._config["truncation_side"], "right", source)
        else:
            direction = self._truncation.get("direction", "Right")
            _check_equal("truncation direction", direction, "Right", self._folder / TOKENIZER_JSON)

    def _text_settings(self) -> dict:
        """Return the text rules. `tokenizer_config.json` has priority over `tokenizer.json`, as in transformers."""
        values = (self._tokenizer_json.get("model") or {}) | _read_normalizer(self._tokenizer_json)
        from_json = {ours: values[theirs] for ours, theirs in _JSON_NAMES.items() if theirs in values}
        from_config = {ours: self._config[theirs] for ours, theirs in CONFIG_NAMES.items() if theirs in self._config}
        if from_config.get("lowercase", 0) is None:
            del from_config["lowercase"]
        if self._tokenizer_json and self._config.get("tokenizer_class") in _CLASSES_OF_TOKENIZER_JSON:
            settings = {"lowercase": True, **from_json}
        else:
            self._warn_if_casing_is_missing(from_config, from_json)
            settings = {"lowercase": True, **from_json, **from_config}
        if not settings["lowercase"] and self._read_optional(_SENTENCE).get("do_lower_case") is True:
            # sentence-transformers folds case, and leaves accents
            settings |= {"lowercase": True, "strip_accents": bool(settings.get("strip_accents"))}
        return settings

    def _warn_if_casing_is_missing(self, from_config: dict, from_json: dict) -> None:
        path = self._folder / TOKENIZER_CONFIG
        if "lowercase" in from_config:
            return
        if "lowercase" not in from_json:
            _LOG.warning("%s has no do_lower_case: text is lowercased, BERT's default", path)
        elif from_json["lowercase"] is False:
            _LOG.warning(
                "%s has no do_lower_case: text keeps its case, as in %s; transformers' BertTokenizer would lowercase "
                "it: add the setting",
                path,
                TOKENIZER_JSON,
            )

    def _warn_if_vocab_txt_differs(self, vocabulary: list[str]) -> None:
        if not self._tokenizer_json or not (self._folder / VOCABULARY).exists():
            return
        is_same = False
        with contextlib.suppress(InputError):
            is_same = self._text_vocabulary == vocabulary[: len(self._text_vocabulary)]
        if not is_same:
            _LOG.warning(
                "%s and its %s have different tokens: %s is used, as in transformers; delete the wrong file",
                self._folder / VOCABULARY,
                TOKENIZER_JSON,
                TOKENIZER_JSON,
            )

    def _read_optional(self, name: str) -> dict:
        path = self._folder / name
        return read_json(path) if path.exists() else {}


def _parse_id(text: str) -> int | str:
    """Parse the key of a JSON object as an id; return it unchanged if it is not a number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else text


def check_length(length: object) -> int | None:
    """Return a `max_sequence_length` if it is valid or None; raise `InputError` otherwise."""
    return None if length is None else check_integer("the tokenizer's max_sequence_length", length)
