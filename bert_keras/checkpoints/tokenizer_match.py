"""Whether a checkpoint and records have the same tokenizer. No TensorFlow here."""

import os
import pathlib
from collections.abc import Mapping

from bert_keras.checkpoints.keras_files.preset_checks import is_preset
from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.pipelines.records.make_records_command import build_remake_command
from bert_keras.pipelines.records.manifest import read_manifest
from bert_keras.pipelines.text.text_rules import TextRules
from bert_keras.pipelines.text.tokenizer_folder import VOCABULARY, TokenizerFolder

_BARE_VOCABULARIES = (VOCABULARY, "assets/tokenizer/vocabulary.txt")  # of Google's folders and KerasHub's
_RULES = ("lowercase", "strip_accents", "tokenize_chinese_chars", "max_input_chars_per_word", "text_rules")


def check_same_tokenizer(
    checkpoint: str | os.PathLike,
    settings: Mapping[str, object],
    records: str | os.PathLike,
    settings_of_records: Mapping[str, object],
) -> None:
    """Raise `InputError` unless records were made with the tokenizer of a checkpoint; all differences are named.

    Args:
        checkpoint: the folder, for messages.
        settings: the arguments of `BertTokenizer` that it asks for, see `read_tokenizer_settings`.
        records: the folder, for messages.
        settings_of_records: the same of the records.
    """
    ours, theirs = _facts(settings), _facts(settings_of_records)
    differences = [*_differing_tokens(settings["vocabulary"], settings_of_records["vocabulary"])]
    differences += [f"{name} is {ours[name]} and {theirs[name]}" for name in ours if ours[name] != theirs[name]]
    if not differences:
        return
    raise InputError(
        f"{checkpoint} has another tokenizer than the records {records} ({'; '.join(differences)} in the records); "
        "expected the same, because token ids would mean other words: make the records again with  "
        f"{_command(checkpoint, settings, records)}"
    )


def _command(checkpoint: str | os.PathLike, settings: Mapping[str, object], records: str | os.PathLike) -> str:
    """Return the command that makes the records again with the vocabulary of a checkpoint of any format."""
    vocabulary, options = pathlib.Path(checkpoint), []
    bare = [path for path in map(vocabulary.joinpath, _BARE_VOCABULARIES) if path.is_file()]
    if bare and (is_preset(vocabulary) or not TokenizerFolder(vocabulary).has_settings):
        vocabulary, options = bare[0], _options(settings)
    manifest = read_manifest(records, checked_splits=())
    return build_remake_command(manifest, records, vocabulary=vocabulary, options=options)


def _options(settings: Mapping[str, object]) -> list[str]:
    """Return the options of `make-records` for a vocabulary file without settings."""
    facts = _facts(settings)
    switches = {
        "--cased": not facts["lowercase"],
        "--strip-accents": facts["strip_accents"] and not facts["lowercase"],
        "--no-strip-accents": not facts["strip_accents"] and facts["lowercase"],
        "--no-chinese-split": not facts["tokenize_chinese_chars"],
    }
    tokens = settings.get("additional_special_tokens") or ()
    return [*(option for option, is_on in switches.items() if is_on), *(f"--special-token={token}" for token in tokens)]


def _facts(settings: Mapping[str, object]) -> dict[str, object]:
    """Return what decides the ids of a text beside the vocabulary."""
    rules = TextRules(**{name: settings[name] for name in _RULES if name in settings})
    own_tokens = {name: sorted(settings.get(name) or ()) for name in ("additional_special_tokens", "added_tokens")}
    return {**{name: getattr(rules, name) for name in _RULES}, **own_tokens}


def _differing_tokens(ours, theirs):
    """Yield how many tokens differ, and the first of them."""
    if len(ours) != len(theirs):
        yield f"{len(ours):,} tokens and {len(theirs):,}"
    pairs = zip(ours, theirs, strict=False)
    differing = [(place, one, other) for place, (one, other) in enumerate(pairs) if one != other]
    if differing:
        place, one, other = differing[0]
        yield f"{len(differing):,} tokens differ, token {place:,} is {quote(one)} and {quote(other)}"
