"""The settings of a vocabulary, beside it: `vocab.txt` has `vocab.tokenizer_config.json`.

A `vocab.txt` does not say which of its tokens are special, nor how text was split when it was learned. `learn-vocab`
writes that beside it, by Hugging Face's names; whoever makes a tokenizer of the vocabulary reads it from there.
"""

import hashlib
import os
import pathlib
from collections.abc import Mapping, Sequence

from bert_keras.checks import read_field
from bert_keras.errors import InputError
from bert_keras.files import read_json, write_json
from bert_keras.pipelines.text.text_rules import TextRules
from bert_keras.pipelines.text.tokenizer_folder import read_settings
from bert_keras.pipelines.text.vocabulary import encode_vocabulary, read_vocabulary, write_vocabulary
from bert_keras.publishing import publish_file

HUGGING_FACE_NAMES = {
    "lowercase": "do_lower_case",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "tokenize_chinese_chars",
    "additional_special_tokens": "additional_special_tokens",
}
_OURS = "bert_keras"
_MODEL_FOLDER_FILES = ("tokenizer_config.json", "tokenizer.json")


def settings_path(vocabulary_path: str | os.PathLike) -> pathlib.Path:
    """Return where the settings of a vocabulary file are: `vocab.tokenizer_config.json` for `vocab.txt`."""
    path = pathlib.Path(vocabulary_path)
    return path.parent / f"{path.name.removesuffix('.txt')}.tokenizer_config.json"  # "." has no name to replace


def write_vocabulary_and_settings(
    path: str | os.PathLike,
    vocabulary: Sequence[str],
    rules: TextRules,
    *,
    special_tokens: Sequence[str] = (),
    facts: Mapping[str, object] | None = None,
) -> None:
    """Write a `vocab.txt` and its settings.

    The settings come first: a run that is killed between the two leaves settings that fit no vocabulary, which is
    noticed, and never a vocabulary without its settings.

    Args:
        path: the vocabulary file.
        vocabulary: the tokens in the order of their ids.
        rules: how text was split.
        special_tokens: those of its tokens that are special, besides BERT's five.
        facts: what else to note, how the vocabulary was learned.
    """
    values = (rules.lowercase, rules.strip_accents, rules.tokenize_chinese_chars, list(special_tokens))
    noted = {"vocabulary_sha256": _digest(vocabulary), **(facts or {})}
    with publish_file(settings_path(path)) as staging:
        write_json(staging, {**dict(zip(HUGGING_FACE_NAMES.values(), values, strict=True)), _OURS: noted})
    write_vocabulary(path, vocabulary)


def read_vocabulary_and_settings(
    path: str | os.PathLike, asked: Mapping[str, object] | None = None, *, option_names: Mapping[str, str] | None = None
) -> dict:
    """Read a vocabulary and the settings of its tokenizer.

    Args:
        path: a vocabulary file with its settings beside it; a bare one; the `vocab.txt` of a model folder; or a model
            folder.
        asked: settings that the user gave, by the names of `BertTokenizer`'s arguments; None: as the file says.
        option_names: how to call them in a message.

    Returns:
        Arguments of `BertTokenizer`; without `max_sequence_length`, which is a model's.

    Raises:
        InputError: the vocabulary cannot be read, the settings are of another vocabulary, or contradict `asked`.
    """
    path = pathlib.Path(path)
    asked = {name: value for name, value in (asked or {}).items() if value is not None}
    source, settings = _settings_of(path)
    settings.pop("max_sequence_length", None)
    if source is not None:
        _check_asked(path, source, settings, asked, option_names or {})
    return settings | asked


def read_facts(path: str | os.PathLike) -> dict:
    """Return what `learn-vocab` noted of how a vocabulary was learned; empty if it noted nothing."""
    noted = settings_path(path)
    return read_field(read_json(noted), _OURS, dict, source=noted, default={}) if noted.is_file() else {}


def _settings_of(path: pathlib.Path) -> tuple[pathlib.Path | None, dict]:
    """Return the file that says how text is split, None if there is none, and the arguments of `BertTokenizer`."""
    if path.is_dir():
        return path, read_settings(path)
    vocabulary = read_vocabulary(path)
    noted = settings_path(path)
    if noted.is_file():
        return noted, {"vocabulary": vocabulary, **_read_noted(noted, path, vocabulary)}
    beside = [path.with_name(name) for name in _MODEL_FOLDER_FILES]
    if path.name == "vocab.txt" and (found := [file for file in beside if file.is_file()]):
        settings = read_settings(path.parent)
        if list(settings["vocabulary"])[: len(vocabulary)] != vocabulary:
            raise InputError(
                f"{path} has other tokens than its folder: name the folder, or a copy of the file elsewhere"
            )
        return found[0], settings
    return None, {"vocabulary": vocabulary}


def _read_noted(noted: pathlib.Path, path: pathlib.Path, vocabulary: Sequence[str]) -> dict:
    values = read_json(noted)
    facts = read_field(values, _OURS, dict, source=noted, default={})
    digest = read_field(facts, "vocabulary_sha256", str, source=noted)
    if digest != _digest(vocabulary):
        raise InputError(
            f"{noted} is of another vocabulary than {path}, which was changed after it was learned: learn it again, or "
            f"delete {noted.name} and give the options that it was learned with"
        )
    kinds = (bool, bool, bool, list[str])
    return {
        ours: read_field(values, theirs, kind, source=noted)
        for (ours, theirs), kind in zip(HUGGING_FACE_NAMES.items(), kinds, strict=True)
    }


def _check_asked(path, source, settings: Mapping, asked: Mapping, option_names: Mapping[str, str]) -> None:
    """Raise `InputError` if a setting contradicts what the vocabulary's own files say."""
    rules = TextRules(**{name: settings[name] for name in vars(TextRules()) if name in settings})
    known = {**vars(rules), "additional_special_tokens": settings.get("additional_special_tokens", ())}
    for name in HUGGING_FACE_NAMES.keys() & asked.keys():
        before, now = (value if isinstance(value, bool) else sorted(value) for value in (known[name], asked[name]))
        if before != now:
            raise InputError(
                f"{option_names.get(name, name)} contradicts {source}, where {HUGGING_FACE_NAMES[name]} is "
                f"{_shown(before)}: leave it out, or learn a vocabulary with it"
            )


def _shown(value: object) -> str:
    return " ".join(value) or "empty" if isinstance(value, list) else str(value).lower()


def _digest(vocabulary: Sequence[str]) -> str:
    return hashlib.sha256(encode_vocabulary(vocabulary)).hexdigest()
