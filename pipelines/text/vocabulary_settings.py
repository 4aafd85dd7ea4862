"""The settings file of a vocabulary: `vocab.tokenizer_config.json` for `vocab.txt`.

A `vocab.txt` does not record its special tokens or the text rules with which it was learned. `learn-vocab` writes them
next to it, with Hugging Face's names, and tokenizers of the vocabulary read them from there.
"""

import os
import pathlib
from collections.abc import Mapping, Sequence

from bert_keras.checks import read_field
from bert_keras.errors import InputError
from bert_keras.files import read_json, write_json
from bert_keras.pipelines.text.text_rules import TextRules
from bert_keras.pipelines.text.tokenizer_folder import (
    CONFIG_NAMES,
    OUR_KEY,
    TOKENIZER_CONFIG,
    TOKENIZER_JSON,
    VOCABULARY,
    TokenizerFolder,
)
from bert_keras.pipelines.text.vocabulary import digest_vocabulary, read_vocabulary, write_vocabulary
from bert_keras.publishing import publish_file

_NAMES = {  # of the settings in the file
    **{name: CONFIG_NAMES[name] for name in ("lowercase", "strip_accents", "tokenize_chinese_chars")},
    "additional_special_tokens": "additional_special_tokens",
}


def get_settings_path(vocabulary_path: str | os.PathLike) -> pathlib.Path:
    """Return the path of the settings of a vocabulary file: `vocab.tokenizer_config.json` for `vocab.txt`."""
    path = pathlib.Path(vocabulary_path)
    return path.parent / f"{path.name.removesuffix('.txt')}.tokenizer_config.json"  # `with_name` fails for "."


def write_vocabulary_and_settings(
    path: str | os.PathLike,
    vocabulary: Sequence[str],
    rules: TextRules,
    *,
    special_tokens: Sequence[str] = (),
    facts: Mapping[str, object] | None = None,
) -> None:
    """Write a `vocab.txt` and its settings.

    The settings are written first: if the process is killed between the two files, the settings do not match the
    vocabulary, which is an error when they are read. A vocabulary without its settings would go unnoticed.

    Args:
        path: the vocabulary file.
        vocabulary: the tokens in the order of their ids.
        rules: the text rules.
        special_tokens: the additional special tokens.
        facts: statistics of the learning, stored in the settings.
    """
    values = (rules.lowercase, rules.strip_accents, rules.tokenize_chinese_chars, list(special_tokens))
    ours = {"vocabulary_sha256": digest_vocabulary(vocabulary), **(facts or {})}
    with publish_file(get_settings_path(path)) as staging:
        write_json(staging, {**dict(zip(_NAMES.values(), values, strict=True)), OUR_KEY: ours})
    write_vocabulary(path, vocabulary)


def read_vocabulary_and_settings(
    path: str | os.PathLike, given: Mapping[str, object] | None = None, *, option_names: Mapping[str, str] | None = None
) -> dict:
    """Read a vocabulary and the settings of its tokenizer.

    Args:
        path: a vocabulary file with or without settings, the `vocab.txt` of a model folder, or a model folder.
        given: the settings given by the user, keyed by the arguments of `BertTokenizer`; a value of None means the
            setting of the file.
        option_names: the names of these settings in error messages, keyed by the same arguments.

    Returns:
        Arguments of `BertTokenizer`, without `max_sequence_length`, which belongs to a model.

    Raises:
        InputError: the vocabulary cannot be read, or the settings belong to another vocabulary or contradict `given`.
    """
    path = pathlib.Path(path)
    given = {name: value for name, value in (given or {}).items() if value is not None}
    source, settings = _read_settings(path)
    settings.pop("max_sequence_length", None)
    if source is not None:
        _check_given(source, settings, given, option_names or {})
    return settings | given


def _read_settings(path: pathlib.Path) -> tuple[pathlib.Path | None, dict]:
    """Return the file or folder with the settings, None if there is none, and the arguments of `BertTokenizer`."""
    if path.is_dir():
        return path, TokenizerFolder(path).settings()
    vocabulary = read_vocabulary(path)
    file = get_settings_path(path)
    if file.is_file():
        return file, {"vocabulary": vocabulary, **_read_settings_file(file, path, vocabulary)}
    model_files = [path.with_name(name) for name in (TOKENIZER_CONFIG, TOKENIZER_JSON)]
    if path.name == VOCABULARY and (found := [file for file in model_files if file.is_file()]):
        settings = TokenizerFolder(path.parent).settings()
        if list(settings["vocabulary"])[: len(vocabulary)] != vocabulary:
            raise InputError(
                f"{path} differs from the vocabulary of {found[0]}; expected the same tokens: name the folder, or copy "
                "the file to another folder"
            )
        return found[0], settings
    return None, {"vocabulary": vocabulary}


def _read_settings_file(file: pathlib.Path, path: pathlib.Path, vocabulary: Sequence[str]) -> dict:
    values = read_json(file)
    facts = read_field(values, OUR_KEY, dict, source=file, default={})
    digest = read_field(facts, "vocabulary_sha256", str, source=file)
    if digest != digest_vocabulary(vocabulary):
        raise InputError(
            f"{file} belongs to another vocabulary than {path}, which was changed after it was learned: learn the "
            f"vocabulary again, or delete {file.name} and pass the options that it was learned with"
        )
    kinds = (bool, bool, bool, list[str])
    return {
        ours: read_field(values, theirs, kind, source=file)
        for (ours, theirs), kind in zip(_NAMES.items(), kinds, strict=True)
    }


def _check_given(
    source: pathlib.Path, settings: Mapping[str, object], given: Mapping[str, object], option_names: Mapping[str, str]
) -> None:
    """Raise `InputError` if a given setting contradicts the settings of `source`."""
    rules = TextRules(**{name: settings[name] for name in vars(TextRules()) if name in settings})
    stored = {**vars(rules), "additional_special_tokens": settings.get("additional_special_tokens", ())}
    for name in _NAMES.keys() & given.keys():
        before, now = (value if isinstance(value, bool) else sorted(value) for value in (stored[name], given[name]))
        if before != now:
            shown = str(before).lower() if isinstance(before, bool) else " ".join(before) or "empty"
            raise InputError(
                f"{option_names.get(name, name)} contradicts {source}, where {_NAMES[name]} is {shown}: leave it out, "
                "or learn a vocabulary with it"
            )
