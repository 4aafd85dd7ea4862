"""Read the vocabulary and the tokenizer settings of a model folder; check that they belong to a model or records."""

import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from bert_keras.checkpoints.keras_files.keras_weights import is_preset
from bert_keras.checks import quote
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.pipelines.text.text_rules import TextRules
from bert_keras.pipelines.text.tokenizer_folder import VOCABULARY, TokenizerFolder

if TYPE_CHECKING:
    from bert_keras.pipelines.text.tokenizer import BertTokenizer
import logging
from collections.abc import Callable

from bert_keras.checkpoints.keras_files.keras_weights import read_settings as read_own_settings
from bert_keras.checks import format_names, read_field
from bert_keras.errors import UnsupportedTokenizerError
from bert_keras.files import read_json
from bert_keras.pipelines.text.tokenizer_folder import TOKENIZER_JSON
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS, read_vocabulary

logger = logging.getLogger(__name__)
_MAX_PADDING = 1024  # rows without a token: tables are padded to a multiple of 8 to 1,024 rows
_VOCABULARY_FILES = (VOCABULARY, "assets/tokenizer/vocabulary.txt")  # of Google and of KerasHub
_RULES = ("lowercase", "strip_accents", "tokenize_chinese_chars", "max_input_chars_per_word", "text_rules")


def check_tokenizer_size(tokenizer: "BertTokenizer", config: BertConfig) -> None:
    """Raise `InputError` if a tokenizer has more tokens than a model; it may have fewer, in a padded model."""
    if tokenizer.vocabulary_size > config.vocabulary_size:
        raise InputError(
            f"the tokenizer has {tokenizer.vocabulary_size:,} tokens and the model's token table "
            f"{config.vocabulary_size:,} rows; expected the tokenizer that the model was trained with: load both from "
            "one folder"
        )


def check_same_tokenizer(
    checkpoint: str | os.PathLike,
    settings: Mapping[str, object],
    records: str | os.PathLike,
    records_settings: Mapping[str, object],
) -> None:
    """Raise `InputError` unless records were made with a checkpoint's tokenizer; the message lists all differences.

    Args:
        checkpoint: the model folder, for the message.
        settings: the arguments of `BertTokenizer` for this folder, see `read_tokenizer_settings`.
        records: the records folder, for the message.
        records_settings: the arguments of `BertTokenizer` for the records.
    """
    ours, theirs = _select_settings(settings), _select_settings(records_settings)
    differences = [*_compare_vocabularies(settings["vocabulary"], records_settings["vocabulary"])]
    differences += [f"{name} is {ours[name]} and {theirs[name]}" for name in ours if ours[name] != theirs[name]]
    if not differences:
        return
    from bert_keras.pipelines.records.manifest import read_manifest  # loads tokenizers, which servers need not
    from bert_keras.pipelines.records.settings import build_remake_command

    vocabulary, options = pathlib.Path(checkpoint), []
    files = [path for path in map(vocabulary.joinpath, _VOCABULARY_FILES) if path.is_file()]
    if files and (is_preset(vocabulary) or not TokenizerFolder(vocabulary).has_settings):
        vocabulary, options = files[0], _list_options(settings)
    manifest = read_manifest(records, checked_splits=())
    raise InputError(
        f"{checkpoint} has another tokenizer than the records {records} ({'; '.join(differences)} in the records); "
        "expected the same, because the token ids would mean other words: make the records again with  "
        f"{build_remake_command(manifest, records, vocabulary=vocabulary, options=options)}"
    )


def _list_options(settings: Mapping[str, object]) -> list[str]:
    """Return the options of `make-records` that replace the settings of a vocabulary file without any."""
    rules = _select_settings(settings)
    switches = {
        "--cased": not rules["lowercase"],
        "--strip-accents": rules["strip_accents"] and not rules["lowercase"],
        "--no-strip-accents": not rules["strip_accents"] and rules["lowercase"],
        "--no-chinese-split": not rules["tokenize_chinese_chars"],
    }
    tokens = settings.get("additional_special_tokens") or ()
    return [*(option for option, is_on in switches.items() if is_on), *(f"--special-token={token}" for token in tokens)]


def _select_settings(settings: Mapping[str, object]) -> dict[str, object]:
    """Return the settings, other than the vocabulary, that change the ids of a text, with their defaults."""
    rules = TextRules(**{name: settings[name] for name in _RULES if name in settings})
    own_tokens = {name: sorted(settings.get(name) or ()) for name in ("additional_special_tokens", "added_tokens")}
    return {**{name: getattr(rules, name) for name in _RULES}, **own_tokens}


def _compare_vocabularies(ours: Sequence[str], theirs: Sequence[str]) -> Iterator[str]:
    """Yield phrases with the sizes, the number of different tokens and the first of them, if there are any."""
    if len(ours) != len(theirs):
        yield f"{len(ours):,} tokens and {len(theirs):,}"
    pairs = zip(ours, theirs, strict=False)
    differing = [(place, one, other) for place, (one, other) in enumerate(pairs) if one != other]
    if differing:
        place, one, other = differing[0]
        yield f"{len(differing):,} tokens differ, token {place:,} is {quote(one)} and {quote(other)}"


def open_tokenizer(folder: pathlib.Path, table_size: int | None = None) -> Callable[[], dict | None]:
    """Check a folder's vocabulary, and return a function that reads the arguments of `BertTokenizer`.

    Args:
        folder: a folder of bert_keras, transformers or Google.
        table_size: number of rows of the model's token table, which may be larger than the vocabulary; None: unknown.

    Returns:
        A function that returns the arguments, or None if there is no vocabulary. It raises `UnsupportedTokenizerError`
        for a tokenizer of another kind. A folder without settings, such as Google's, is treated as cased if its
        vocabulary has upper-case letters.

    Raises:
        InputError: the vocabulary cannot be read, or has more tokens than the model.
    """
    files = TokenizerFolder(folder)
    try:
        if table_size is not None and files.has_vocabulary:
            _check_fits(files.vocabulary, table_size, folder)
    except UnsupportedTokenizerError:
        pass  # the returned function raises it; the weights can be used without the tokenizer

    def read() -> dict | None:
        if not files.has_vocabulary and not files.other_kind:
            return None
        if files.has_settings or not files.has_vocabulary:
            return files.settings()
        words = (token for token in files.vocabulary if token not in SPECIAL_TOKENS)
        return {"vocabulary": files.vocabulary, "lowercase": not any(token != token.lower() for token in words)}

    return read


def _check_fits(vocabulary: Sequence[str], table_size: int, folder: pathlib.Path) -> None:
    name = TOKENIZER_JSON if (folder / TOKENIZER_JSON).exists() else VOCABULARY
    if (missing := len(vocabulary) - table_size) > 0:
        raise InputError(
            f"{folder / name} has {len(vocabulary):,} tokens, the model's token table {table_size:,} rows: "
            f"{format_names(vocabulary[table_size:], 1)} have no embedding; the vocabulary is of another model, or "
            "tokens were added to it and not to the model: restore the vocabulary of the model, or call "
            f"resize_token_embeddings({len(vocabulary)}) of the model in transformers"
        )
    if -missing > _MAX_PADDING:
        logger.warning(
            "%s has %s tokens, the model's token table %s rows: does the vocabulary belong to this model?",
            folder / name,
            f"{len(vocabulary):,}",
            f"{table_size:,}",
        )


def read_preset_settings(folder: pathlib.Path) -> dict | None:
    """Return the arguments of `BertTokenizer` for a KerasHub preset folder, or None if it has no vocabulary."""
    vocabulary = folder / "assets/tokenizer/vocabulary.txt"
    if not vocabulary.exists():
        return None
    path = folder / "tokenizer.json"
    settings = read_field(read_json(path), "config", dict, source=path, default={})
    source = folder / "preprocessor.json"
    values = read_json(source) if source.exists() else {}
    preprocessor = read_field(values, "config", dict, source=source, default={})
    own = read_own_settings(folder)
    return {
        "vocabulary": read_vocabulary(vocabulary),
        "lowercase": read_field(settings, "lowercase", bool, source=path, default=False),
        "strip_accents": read_field(settings, "strip_accents", bool, source=path, default=None),
        "max_sequence_length": read_field(preprocessor, "sequence_length", int, source=source, default=None, minimum=1),
        **({} if own is None else own.tokenizer),
    }
