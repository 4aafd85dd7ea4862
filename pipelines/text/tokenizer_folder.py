"""Reading a tokenizer's files in a model folder, written by us or by Hugging Face's libraries.

`tokenizer.json` has the tokens and the rules, for Hugging Face's Rust library `tokenizers`; transformers 5 writes only
this file and `tokenizer_config.json`, the settings. `vocab.txt` has only the tokens, and `added_tokens.json` the added
tokens of transformers 4. Our own settings are under the key `bert_keras` of `tokenizer_config.json`.
"""

import functools
import logging
import os
import pathlib

from bert_keras.checks import check_integer, check_value, quote, read_field
from bert_keras.embedding_settings import transformer_folder
from bert_keras.errors import InputError, UnsupportedTokenizerError
from bert_keras.files import read_json
from bert_keras.pipelines.text.tokenizer_json import (
    AddedToken,
    check_equal,
    check_is_bert,
    key_by_id,
    read_added_tokens,
    read_normalizer,
    read_tokens_by_id,
)
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS, check_vocabulary, read_vocabulary

_LOG = logging.getLogger(__name__)
VOCABULARY, TOKENIZER_JSON, TOKENIZER_CONFIG = "vocab.txt", "tokenizer.json", "tokenizer_config.json"
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
        self._check_has_vocabulary()
        if not self._tokenizer_json and not self._added:
            return list(self._text_vocabulary)
        source = self._folder / TOKENIZER_JSON if self._tokenizer_json else self._folder
        if self._tokenizer_json:
            base = read_tokens_by_id(self._tokenizer_json, source)
        else:
            base = dict(enumerate(self._text_vocabulary))
        pairs = [(token, token_id) for token_id, token in base.items()]
        pairs += [(token.content, token.token_id) for token in self._added]
        tokens = key_by_id(pairs, source)
        missing = next((number for number in range(len(tokens)) if number not in tokens), None)
        if missing is not None:
            raise InputError(
                f"{source} has no token with the id {missing}, but {len(tokens):,} tokens up to the id "
                f"{max(tokens):,}; expected ids without a gap: give [unused{missing}] that id in the file"
            )
        vocabulary = [tokens[number] for number in range(len(tokens))]
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
            check_is_bert(self._tokenizer_json_of_any_kind, path)
        return self._tokenizer_json_of_any_kind

    @functools.cached_property
    def _text_vocabulary(self) -> list[str]:
        return read_vocabulary(self._folder / VOCABULARY)

    @functools.cached_property
    def _added(self) -> list[AddedToken]:
        """The added tokens of `tokenizer.json`, `tokenizer_config.json` and `added_tokens.json`."""
        source = self._folder / TOKENIZER_CONFIG
        config = read_field(self._config, "added_tokens_decoder", dict, source=source, default=None) or {}
        found = [
            *read_added_tokens(self._tokenizer_json, self._folder / TOKENIZER_JSON),
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
            check_equal(name, self._config.get(name) or expected, expected, source)
        for name, expected in zip(SPECIAL_TOKENS_KEYS, SPECIAL_TOKENS, strict=True):
            token = self._config.get(name) or expected
            check_equal(name, token.get("content") if isinstance(token, dict) else token, expected, source)
        if "truncation_side" in self._config:  # has priority over tokenizer.json, as in transformers
            check_equal("truncation_side", self._config["truncation_side"], "right", source)
        else:
            direction = self._truncation.get("direction", "Right")
            check_equal("truncation direction", direction, "Right", self._folder / TOKENIZER_JSON)

    def _text_settings(self) -> dict:
        """Return the text rules. `tokenizer_config.json` has priority over `tokenizer.json`, as in transformers."""
        values = (self._tokenizer_json.get("model") or {}) | read_normalizer(self._tokenizer_json)
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
        try:
            is_same = self._text_vocabulary == vocabulary[: len(self._text_vocabulary)]
        except InputError:
            is_same = False
        if not is_same:
            _LOG.warning(
                "%s and its %s have different tokens: %s is used, as in transformers; delete the wrong file",
                self._folder / VOCABULARY,
                TOKENIZER_JSON,
                TOKENIZER_JSON,
            )

    def _check_has_vocabulary(self) -> None:
        if self.has_vocabulary:
            return
        if other := self.other_kind:
            raise UnsupportedTokenizerError(
                f"{self._folder} has a {_OTHER_KINDS[other]} tokenizer ({other}); expected BERT's WordPiece tokenizer "
                f"in {VOCABULARY} or {TOKENIZER_JSON}: load only the weights (bert_keras.load)"
            )
        raise InputError(f"{self._folder} {explain_missing_vocabulary()}")

    def _read_optional(self, name: str) -> dict:
        path = self._folder / name
        return read_json(path) if path.exists() else {}


def explain_missing_vocabulary() -> str:
    """Return the end of a message about a folder without a vocabulary."""
    return (
        f"has no vocabulary, neither {TOKENIZER_JSON} nor {VOCABULARY}; expected the vocabulary that the model was "
        f"trained with: copy its {VOCABULARY} into the folder"
    )


def _parse_id(text: str) -> int | str:
    """Parse the key of a JSON object as an id; return it unchanged if it is not a number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else text


def check_length(length: object) -> int | None:
    """Return a `max_sequence_length` if it is valid or None; raise `InputError` otherwise."""
    return None if length is None else check_integer("the tokenizer's max_sequence_length", length)
