"""A tokenizer's files in a model folder, as Hugging Face's libraries write and read them.

`tokenizer.json` holds everything for Rust's `tokenizers`, and is all that transformers 5 writes beside
`tokenizer_config.json`, the settings; `vocab.txt` holds the tokens alone, and `added_tokens.json` those that were added
to them in transformers 4. What only we know stands under the key `bert_keras` of `tokenizer_config.json`.
"""

import functools
import logging
import os
import pathlib

from tokenizers import AddedToken as RustAddedToken
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from bert_keras.checks import check_integer, check_value, quote, read_field
from bert_keras.errors import InputError, UnsupportedTokenizerError
from bert_keras.files import read_json, write_json
from bert_keras.module_list import transformer_folder
from bert_keras.pipelines.text.tokenizer_json import (
    AddedToken,
    check_is_bert,
    expect,
    normalizer_of,
    read_added_tokens,
    read_tokens_by_id,
    tokens_by_id,
)
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS, check_vocabulary, read_vocabulary, write_vocabulary

_LOG = logging.getLogger(__name__)
VOCABULARY, TOKENIZER_JSON = "vocab.txt", "tokenizer.json"
_CONFIG, _ADDED, _SPECIAL_MAP = "tokenizer_config.json", "added_tokens.json", "special_tokens_map.json"
_SENTENCE = "sentence_bert_config.json"  # of sentence-transformers
_OTHER_KINDS = {  # files of other tokenizers, with their kind
    "stoken.model": "SentencePiece",
    "sentencepiece.bpe.model": "SentencePiece",
    "tokenizer.model": "SentencePiece",
    "vocab.json": "BPE",
    "merges.txt": "BPE",
}
_TEXT_SETTINGS = ("lowercase", "strip_accents", "tokenize_chinese_chars", "max_input_chars_per_word")
_UNLIMITED = int(1e30)  # what Hugging Face writes as `model_max_length` when there is none
_OURS = "bert_keras"
_OUR_SETTINGS = ("text_rules", "unicode_version")
_NAMES_OF_MORE_TOKENS = ("additional_special_tokens", "extra_special_tokens")  # in transformers 4 and 5
_NAMES_OF_SPECIAL_TOKENS = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
_CLASSES_OF_THE_FILE = ("TokenizersBackend", "PreTrainedTokenizerFast")  # they obey tokenizer.json alone


class TokenizerFolder:
    """The tokenizer's files of a model folder, each read when it is asked for, and once.

    `tokenizer.json` counts before `vocab.txt`, as in transformers; what it lacks, `tokenizer_config.json` says.

    Args:
        folder: the model folder.
    """

    def __init__(self, folder: str | os.PathLike):
        self._folder = transformer_folder(pathlib.Path(folder))

    @property
    def has_vocabulary(self) -> bool:
        """Whether there is a file that holds the tokens."""
        return any((self._folder / name).exists() for name in (TOKENIZER_JSON, VOCABULARY))

    @property
    def has_settings(self) -> bool:
        """Whether a file says more than the tokens."""
        return any((self._folder / name).exists() for name in (TOKENIZER_JSON, _CONFIG, _ADDED))

    @property
    def other_kind(self) -> str | None:
        """The name of a file of another tokenizer in a folder without a vocabulary of ours; None: there is none."""
        if self.has_vocabulary:
            return None
        return next((name for name in _OTHER_KINDS if (self._folder / name).exists()), None)

    @functools.cached_property
    def vocabulary(self) -> list[str]:
        """The tokens in the order of their ids, the added ones among them.

        Raises:
            InputError: there is no vocabulary, it cannot be read, or ids are missing.
            UnsupportedTokenizerError: it is no WordPiece vocabulary.
        """
        self._check_there_is_one()
        if not self._fast and not self._added:
            return list(self._text_vocabulary)
        source = self._folder / TOKENIZER_JSON if self._fast else self._folder
        base = read_tokens_by_id(self._fast, source) if self._fast else dict(enumerate(self._text_vocabulary))
        tokens = tokens_by_id(
            [*((t, i) for i, t in base.items()), *((t.content, t.token_id) for t in self._added)], source
        )
        missing = next((number for number in range(len(tokens)) if number not in tokens), None)
        if missing is not None:
            raise InputError(
                f"{source} has no token with the id {missing}, but {len(tokens):,} tokens, the last with the id "
                f"{max(tokens):,}; expected ids without a gap: give [unused{missing}] that id in the file"
            )
        vocabulary = [tokens[number] for number in range(len(tokens))]
        check_vocabulary(vocabulary, source=str(source))
        self._warn_of_another_vocab_txt(vocabulary)
        return vocabulary

    def settings(self) -> dict:
        """Returns the arguments of `BertTokenizer` that the folder asks for, the vocabulary among them.

        Raises:
            InputError: there is no vocabulary, or a file cannot be read.
            UnsupportedTokenizerError: text is split by other rules than BERT's.
        """
        vocabulary = self.vocabulary
        self._check_config()
        ours = read_field(self._config, _OURS, dict, source=self._folder / _CONFIG, default={})
        special, added = self._own_tokens()
        return {
            "vocabulary": vocabulary,
            "max_sequence_length": self.max_sequence_length(),
            "additional_special_tokens": special,
            "added_tokens": added,
            **self._text_settings(),
            **{name: ours[name] for name in _OUR_SETTINGS if name in ours},
        }

    def max_sequence_length(self) -> int | None:
        """Returns the length that sentence-transformers' file says, else `tokenizer_config.json`, else the other one.

        Of a tokenizer of any kind. "Unlimited" counts as none.

        Raises:
            InputError: a file cannot be read, or the length is none.
        """
        lengths = [self._read_if_there(_SENTENCE).get("max_seq_length"), self._config.get("model_max_length")]
        length = next((length for length in lengths if length is not None), None)
        if length is None or _is_unlimited(length):
            length = self._truncation.get("max_length")
        try:
            return check_length(length)
        except InputError as error:
            raise InputError(f"{self._folder}: {error}") from None

    @functools.cached_property
    def _config(self) -> dict:
        return self._read_if_there(_CONFIG)

    @functools.cached_property
    def _fast_of_any_kind(self) -> dict:
        return self._read_if_there(TOKENIZER_JSON)

    @functools.cached_property
    def _fast(self) -> dict:
        """`tokenizer.json`, checked to be BERT's; `{}`: there is none."""
        path = self._folder / TOKENIZER_JSON
        if path.exists():
            check_is_bert(self._fast_of_any_kind, path)
        return self._fast_of_any_kind

    @functools.cached_property
    def _text_vocabulary(self) -> list[str]:
        return read_vocabulary(self._folder / VOCABULARY)

    @functools.cached_property
    def _added(self) -> list[AddedToken]:
        """The added tokens: those of `tokenizer.json`, `tokenizer_config.json` and `added_tokens.json` together."""
        source = self._folder / _CONFIG
        config = read_field(self._config, "added_tokens_decoder", dict, source=source, default=None) or {}
        found = [
            *read_added_tokens(self._fast, self._folder / TOKENIZER_JSON),
            *(AddedToken.read(token, _number(token_id), source=source) for token_id, token in config.items()),
        ]
        known = {token.content for token in found}
        special = {*SPECIAL_TOKENS, *self._named_special_tokens}
        more = self._read_if_there(_ADDED)
        source = self._folder / _ADDED
        for content in more:
            if content not in known:
                token_id = read_field(more, content, int, source=source, minimum=0)
                found.append(AddedToken(content, token_id, normalized=content not in special))
        return list({token.content: token for token in reversed(found)}.values())[::-1]

    @functools.cached_property
    def _named_special_tokens(self) -> list[str]:
        """The special tokens past BERT's five that the settings name, as strings or as objects."""
        source, named = self._folder / _CONFIG, None
        for values in (self._config, self._read_if_there(_SPECIAL_MAP)):
            named = named or next((values[key] for key in _NAMES_OF_MORE_TOKENS if values.get(key)), None)
        tokens = list(named.values()) if isinstance(named, dict) else named or []
        tokens = check_value(tokens, list, name="additional_special_tokens", source=source)
        texts = [token.get("content") if isinstance(token, dict) else token for token in tokens]
        texts = check_value(texts, list[str], name="additional_special_tokens", source=source)
        return list(dict.fromkeys(text for text in texts if text not in SPECIAL_TOKENS))

    def _own_tokens(self) -> tuple[list[str], list[str]]:
        """Returns the tokens that are looked for in a text as it is, and those looked for after case was folded."""
        own = [token for token in self._added if token.content not in SPECIAL_TOKENS]
        if single := [token.content for token in own if token.single_word]:
            raise UnsupportedTokenizerError(
                f"{self._folder} has the added token {quote(single[0])} with single_word, which counts only between "
                "other characters than letters; BertTokenizer keeps its tokens whole everywhere: set single_word to "
                "false in tokenizer.json, if that is what the model was trained with"
            )
        folded = [token.content for token in own if token.normalized]
        whole = [*self._named_special_tokens, *(token.content for token in own if not token.normalized)]
        return [token for token in dict.fromkeys(whole) if token not in folded], folded

    @property
    def _truncation(self) -> dict:
        source = self._folder / TOKENIZER_JSON
        return read_field(self._fast_of_any_kind, "truncation", dict, source=source, default=None) or {}

    def _check_config(self) -> None:
        """Refuses settings under which text is split by other rules than BERT's, so that the ids would differ."""
        source = self._folder / _CONFIG
        for name, expected in (("word_tokenizer_type", "basic"), ("subword_tokenizer_type", "wordpiece")):
            expect(name, self._config.get(name) or expected, expected, source)
        for name, expected in zip(_NAMES_OF_SPECIAL_TOKENS, SPECIAL_TOKENS, strict=True):
            token = self._config.get(name) or expected
            expect(name, token.get("content") if isinstance(token, dict) else token, expected, source)
        if "truncation_side" in self._config:  # it counts before tokenizer.json, as in transformers
            expect("truncation_side", self._config["truncation_side"], "right", source)
        else:
            direction = self._truncation.get("direction", "Right")
            expect("truncation direction", direction, "Right", self._folder / TOKENIZER_JSON)

    def _text_settings(self) -> dict:
        """Returns how text is split: `tokenizer_config.json` counts before `tokenizer.json`, as in transformers."""
        normalizer, model = normalizer_of(self._fast), self._fast.get("model") or {}
        of_file = {
            ours: values[theirs]
            for ours, values, theirs in (
                ("lowercase", normalizer, "lowercase"),
                ("strip_accents", normalizer, "strip_accents"),
                ("tokenize_chinese_chars", normalizer, "handle_chinese_chars"),
                ("max_input_chars_per_word", model, "max_input_chars_per_word"),
            )
            if theirs in values
        }
        names = {"lowercase": "do_lower_case", **{name: name for name in _TEXT_SETTINGS[1:]}}
        of_config = {ours: self._config[theirs] for ours, theirs in names.items() if theirs in self._config}
        if of_config.get("lowercase", 0) is None:
            del of_config["lowercase"]
        if self._fast and self._config.get("tokenizer_class") in _CLASSES_OF_THE_FILE:
            settings = {"lowercase": True, **of_file}
        else:
            self._warn_of_silent_casing(of_config, of_file)
            settings = {"lowercase": True, **of_file, **of_config}
        if not settings["lowercase"] and self._read_if_there(_SENTENCE).get("do_lower_case") is True:
            # sentence-transformers folds the case and no more
            settings |= {"lowercase": True, "strip_accents": bool(settings.get("strip_accents"))}
        return settings

    def _warn_of_silent_casing(self, of_config: dict, of_file: dict) -> None:
        path = self._folder / _CONFIG
        if "lowercase" in of_config:
            return
        if "lowercase" not in of_file:
            _LOG.warning("%s does not say do_lower_case: text will be lowercased, as is BERT's default", path)
        elif of_file["lowercase"] is False:
            _LOG.warning(
                "%s does not say do_lower_case: text keeps its case, as %s says; transformers' BertTokenizer would "
                "lowercase it: add the setting",
                path,
                TOKENIZER_JSON,
            )

    def _warn_of_another_vocab_txt(self, vocabulary: list[str]) -> None:
        if not self._fast or not (self._folder / VOCABULARY).exists():
            return
        try:
            is_same = self._text_vocabulary == vocabulary[: len(self._text_vocabulary)]
        except InputError:
            is_same = False
        if not is_same:
            _LOG.warning(
                "%s and its %s hold different tokens: %s counts, as in transformers; delete the wrong one",
                self._folder / VOCABULARY,
                TOKENIZER_JSON,
                TOKENIZER_JSON,
            )

    def _check_there_is_one(self) -> None:
        if self.has_vocabulary:
            return
        if other := self.other_kind:
            raise UnsupportedTokenizerError(
                f"{self._folder} has a {_OTHER_KINDS[other]} tokenizer ({other}); expected WordPiece, BERT's own, in "
                f"{VOCABULARY} or {TOKENIZER_JSON}: load the weights alone (bert_keras.load)"
            )
        raise InputError(f"{self._folder} {missing_vocabulary_message()}")

    def _read_if_there(self, name: str) -> dict:
        path = self._folder / name
        return read_json(path) if path.exists() else {}


def missing_vocabulary_message() -> str:
    """Returns the end of a message about a folder without a vocabulary."""
    return (
        f"has no vocabulary, neither {TOKENIZER_JSON} nor {VOCABULARY}; expected the one that the model was trained "
        f"with: put its {VOCABULARY} there"
    )


def read_settings(folder: str | os.PathLike) -> dict:
    """Returns the arguments of `BertTokenizer` that a model folder asks for (see `TokenizerFolder.settings`)."""
    return TokenizerFolder(folder).settings()


def write_settings(folder: str | os.PathLike, tokenizer) -> None:
    """Writes the files of a `BertTokenizer`."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_vocabulary(folder / VOCABULARY, tokenizer.vocabulary)
    write_json(folder / _CONFIG, _config(tokenizer))
    if tokenizer.rules.text_rules == "bert":  # Rust's library has no part that does what MediaPipe does
        text = _fast_tokenizer(tokenizer).to_str(pretty=True)  # its `save` raises a bare Exception on a full disk
        (folder / TOKENIZER_JSON).write_text(text, encoding="utf-8")


def _number(text: str) -> int | str:
    """Returns the id that the key of a JSON object spells."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else text


def _is_unlimited(length: object) -> bool:
    return isinstance(length, int | float) and length >= _UNLIMITED


def check_length(length: object) -> int | None:
    """Returns a `max_sequence_length` that can be one, or None."""
    return None if length is None else check_integer("the tokenizer's max_sequence_length", length)


def _config(tokenizer) -> dict:
    rules = tokenizer.rules
    return {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": rules.lowercase,
        "strip_accents": rules.strip_accents,
        "tokenize_chinese_chars": rules.tokenize_chinese_chars,
        "max_input_chars_per_word": rules.max_input_chars_per_word,
        "model_max_length": tokenizer.max_sequence_length or _UNLIMITED,
        **dict(zip(_NAMES_OF_SPECIAL_TOKENS, SPECIAL_TOKENS, strict=True)),
        "additional_special_tokens": list(tokenizer.special_tokens[len(SPECIAL_TOKENS) :]),
        _OURS: {name: getattr(rules, name) for name in _OUR_SETTINGS},
    }


def _fast_tokenizer(tokenizer) -> Tokenizer:
    rules = tokenizer.rules
    ids = {token: index for index, token in enumerate(tokenizer.vocabulary)}
    limit = rules.max_input_chars_per_word
    fast = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=limit))
    fast.normalizer = normalizers.BertNormalizer(
        lowercase=rules.lowercase,
        strip_accents=rules.strip_accents,
        handle_chinese_chars=rules.tokenize_chinese_chars,
    )
    fast.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    fast.decoder = decoders.WordPiece(prefix="##")
    fast.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", tokenizer.cls_id), ("[SEP]", tokenizer.sep_id)],
    )
    fast.add_special_tokens(list(tokenizer.special_tokens))
    fast.add_tokens([RustAddedToken(token, normalized=True) for token in tokenizer.added_tokens])
    return fast
