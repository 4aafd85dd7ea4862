"""Check that a tokenizer belongs to a model, and records to a checkpoint. This module does not import TensorFlow."""

import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from bert_keras.checkpoints.keras_files.preset_checks import is_preset
from bert_keras.checks import quote
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.pipelines.records.manifest import read_manifest
from bert_keras.pipelines.records.settings import build_remake_command
from bert_keras.pipelines.text.text_rules import TextRules
from bert_keras.pipelines.text.tokenizer_folder import VOCABULARY, TokenizerFolder

if TYPE_CHECKING:
    from bert_keras.pipelines.text.tokenizer import BertTokenizer

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
    raise InputError(
        f"{checkpoint} has another tokenizer than the records {records} ({'; '.join(differences)} in the records); "
        "expected the same, because the token ids would mean other words: make the records again with  "
        f"{_format_command(checkpoint, settings, records)}"
    )


def _format_command(checkpoint: str | os.PathLike, settings: Mapping[str, object], records: str | os.PathLike) -> str:
    """Return the command that writes the records again with the vocabulary of a checkpoint of any format."""
    vocabulary, options = pathlib.Path(checkpoint), []
    files = [path for path in map(vocabulary.joinpath, _VOCABULARY_FILES) if path.is_file()]
    if files and (is_preset(vocabulary) or not TokenizerFolder(vocabulary).has_settings):
        vocabulary, options = files[0], _list_options(settings)
    manifest = read_manifest(records, checked_splits=())
    return build_remake_command(manifest, records, vocabulary=vocabulary, options=options)


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
