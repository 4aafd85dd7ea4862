"""A tokenizer's files in a model folder, as Hugging Face's libraries write and read them.

`vocab.txt` holds the pieces, `tokenizer_config.json` the settings, `tokenizer.json` both for Rust's `tokenizers`.
What only we know stands under the key `bert_keras` of `tokenizer_config.json`.
"""

import logging
import os
import pathlib
from collections.abc import Sequence

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from bert_keras.errors import InputError
from bert_keras.files import read_json, write_json
from bert_keras.module_list import transformer_folder
from bert_keras.pipelines.vocabulary import SPECIAL_TOKENS, read_vocabulary, write_vocabulary

_LOG = logging.getLogger(__name__)
_UNLIMITED = int(1e30)  # what Hugging Face writes as `model_max_length` when there is none
_OURS = "bert_keras"
_SENTENCE_CONFIG = "sentence_bert_config.json"  # of sentence-transformers
_OUR_SETTINGS = ("text_rules", "unicode_version")
_NAMES_OF_MORE_TOKENS = ("additional_special_tokens", "extra_special_tokens")  # in transformers 4 and 5


def read_settings(folder: str | os.PathLike, vocabulary: Sequence[str] | None = None) -> dict:
    """Returns the arguments of `BertTokenizer` that a model folder asks for, the vocabulary among them.

    `vocabulary`: the tokens of its `vocab.txt`, if they were read before.

    Raises:
        InputError: there is no `vocab.txt`, or a file cannot be read.
    """
    folder = transformer_folder(pathlib.Path(folder))
    if not (folder / "vocab.txt").is_file():
        raise InputError(
            f"{folder / 'vocab.txt'} does not exist; expected a BERT model folder: check the folder's name"
        )
    config = _read_if_there(folder / "tokenizer_config.json")
    fast = _read_if_there(folder / "tokenizer.json")
    _check_algorithm(config, fast, folder)
    return {
        "vocabulary": read_vocabulary(folder / "vocab.txt") if vocabulary is None else vocabulary,
        "max_sequence_length": _length_of(folder, config),
        "additional_special_tokens": _additional_special_tokens(config),
        **_text_settings(config, fast, folder),
        **{name: config[_OURS][name] for name in _OUR_SETTINGS if name in config.get(_OURS, {})},
    }


def write_settings(folder: str | os.PathLike, tokenizer) -> None:
    """Writes the files of a `BertTokenizer`."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_vocabulary(folder / "vocab.txt", tokenizer.vocabulary)
    write_json(folder / "tokenizer_config.json", _config(tokenizer))
    if tokenizer.rules.text_rules == "bert":  # Rust's library has no part that does what MediaPipe does
        _fast_tokenizer(tokenizer).save(str(folder / "tokenizer.json"))


def _read_if_there(path: pathlib.Path) -> dict:
    return read_json(path) if path.exists() else {}


def _text_settings(config: dict, fast: dict, folder: pathlib.Path) -> dict:
    """Returns how text is split: `tokenizer_config.json` counts before `tokenizer.json`, as in transformers."""
    normalizer, model = fast.get("normalizer") or {}, fast.get("model") or {}
    lowercase = config.get("do_lower_case", normalizer.get("lowercase"))
    if lowercase is None:
        path = folder / "tokenizer_config.json"
        _LOG.warning("%s does not say do_lower_case: text will be lowercased, as is BERT's default", path)
        lowercase = True
    strip_accents = config.get("strip_accents", normalizer.get("strip_accents"))
    if not lowercase and _read_if_there(folder / _SENTENCE_CONFIG).get("do_lower_case") is True:
        lowercase, strip_accents = True, bool(strip_accents)  # sentence-transformers folds the case and no more
    return {
        "lowercase": lowercase,
        "strip_accents": strip_accents,
        "tokenize_chinese_chars": config.get("tokenize_chinese_chars", normalizer.get("handle_chinese_chars", True)),
        "max_input_chars_per_word": config.get("max_input_chars_per_word", model.get("max_input_chars_per_word", 100)),
    }


def _check_algorithm(config: dict, fast: dict, folder: pathlib.Path) -> None:
    """Refuses a folder whose text is split by other rules than BERT's, which would silently read other words."""
    normalizer, model = fast.get("normalizer") or {}, fast.get("model") or {}
    asked = [
        ("tokenizer_config.json", "word_tokenizer_type", config.get("word_tokenizer_type", "basic"), "basic"),
        ("tokenizer.json", "normalizer", normalizer.get("type", "BertNormalizer"), "BertNormalizer"),
        ("tokenizer.json", "clean_text", normalizer.get("clean_text", True), True),
        ("tokenizer.json", "model", model.get("type", "WordPiece"), "WordPiece"),
        ("tokenizer.json", "continuing_subword_prefix", model.get("continuing_subword_prefix", "##"), "##"),
    ]
    for name, key, value, expected in asked:
        if value != expected:
            raise InputError(
                f"{folder / name} has {key} {value!r}; expected {expected!r}, BERT's own: this model reads text "
                "by other rules, so its ids would differ"
            )


def _length_of(folder: pathlib.Path, config: dict) -> int | None:
    """Returns the length that the folder's files ask for, sentence-transformers' first; "unlimited" counts as none."""
    length = _read_if_there(folder / _SENTENCE_CONFIG).get("max_seq_length")
    length = config.get("model_max_length") if length is None else length
    if isinstance(length, int | float) and length >= _UNLIMITED:
        return None
    try:
        return checked_length(length)
    except InputError as error:
        raise InputError(f"{folder}: {error}") from None


def checked_length(length: object) -> int | None:
    """Returns a `max_sequence_length` that can be one, or None."""
    if length is not None and (not isinstance(length, int) or isinstance(length, bool) or length < 1):
        raise InputError(f"the tokenizer's max_sequence_length is {length!r}; expected a whole number from 1, or none")
    return length


def _additional_special_tokens(config: dict) -> list[str]:
    """Returns the special tokens past BERT's five, which transformers writes as strings or as objects."""
    named = next((config[name] for name in _NAMES_OF_MORE_TOKENS if config.get(name)), ())
    tokens = named.values() if isinstance(named, dict) else named
    texts = [token["content"] if isinstance(token, dict) else token for token in tokens]
    return [text for text in texts if text not in SPECIAL_TOKENS]


def _config(tokenizer) -> dict:
    rules = tokenizer.rules
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": rules.lowercase,
        "strip_accents": rules.strip_accents,
        "tokenize_chinese_chars": rules.tokenize_chinese_chars,
        "max_input_chars_per_word": rules.max_input_chars_per_word,
        "model_max_length": tokenizer.max_sequence_length or _UNLIMITED,
        **dict(zip(names, SPECIAL_TOKENS, strict=True)),
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
    return fast
