"""Build `make-records` commands, the fix in messages about records. Imports no TensorFlow."""

import dataclasses
import itertools
import os
import shlex
from collections.abc import Iterable, Mapping

from bert_keras.pipelines.corpus.text_sources import PROSE
from bert_keras.pipelines.records.settings import RecordSettings

_OPTIONS = {"sentence_objective": "--objective", "packed": "--pack"}  # settings whose option has another name
WITHOUT_OPTION = ("block_bytes",)  # settings that only Python has
_MAX_SOURCES = 5  # a command with more files would be too long


def build_make_records_command(
    settings: Mapping[str, object],
    *,
    vocabulary: str | os.PathLike,
    out: str | os.PathLike,
    options: Iterable[str] = (),
) -> str:
    """Return a `make-records` command for the shell.

    Args:
        settings: values keyed as in `RecordSettings`; other keys are ignored.
        vocabulary: the argument VOCAB, a vocabulary file or a model folder.
        out: the argument OUT.
        options: additional arguments.
    """
    words = ["bert-keras", "make-records", os.fspath(vocabulary), os.fspath(out), *options]
    for field in dataclasses.fields(RecordSettings):
        value = settings.get(field.name, field.default)
        if field.name not in WITHOUT_OPTION and value != field.default:
            words.append(_OPTIONS.get(field.name, "--" + field.name.replace("_", "-")))
            words += [] if value is True else [str(value)]
    return shlex.join(words)


def build_remake_command(
    manifest: Mapping[str, object],
    folder: str | os.PathLike,
    *,
    vocabulary: str | os.PathLike,
    options: Iterable[str] = (),
) -> str:
    """Return the command that makes the records of a manifest with another vocabulary, in a new folder.

    Args:
        manifest: the manifest of `folder`, or the values it should have.
        folder: the records folder, which the command leaves alone.
        vocabulary: the argument VOCAB.
        options: how VOCAB splits text, if its files do not say so.
    """
    sentences = ["--sentences", "split"] if manifest.get("sentences") == "split" else []
    options = [*options, *_get_text_options(manifest.get("sources", ())), *sentences]
    return build_make_records_command(manifest, vocabulary=vocabulary, out=_choose_new_folder(folder), options=options)


def _get_text_options(sources: Iterable[Mapping[str, object]]) -> list[str]:
    """Return the option for the text: the files if all still exist, otherwise the placeholder TEXT."""
    names = [source.get("name") for source in sources]
    if names == [PROSE]:
        return []
    exist = 0 < len(names) <= _MAX_SOURCES and all(
        isinstance(name, str) and not name.startswith("-") and os.path.isfile(name) for name in names
    )
    return ["--text", *(names if exist else ["TEXT"])]


def _choose_new_folder(folder: str | os.PathLike) -> str:
    """Return an unused path next to a folder."""
    base = os.path.normpath(os.fspath(folder))
    names = itertools.chain([f"{base}_again"], (f"{base}_again_{number}" for number in itertools.count(2)))
    return next(name for name in names if not os.path.lexists(name))
