"""The `make-records` command that makes records of given settings: the remedy in messages. No TensorFlow here."""

import dataclasses
import itertools
import os
import shlex
from collections.abc import Iterable, Mapping

from bert_keras.pipelines.corpus.text_sources import PROSE
from bert_keras.pipelines.records.settings import RecordSettings

_OPTIONS = {"sentence_objective": "--objective", "packed": "--pack"}  # where the name is another
_NO_OPTIONS = ("block_bytes",)
_MAX_SOURCES = 5  # more files are not listed


def make_records_command(
    settings: Mapping[str, object], *, vocabulary: object, out: object, options: Iterable[str] = ()
) -> str:
    """Return a `make-records` command for the shell.

    Args:
        settings: by the names of `RecordSettings`; other keys are ignored.
        vocabulary: VOCAB, a vocabulary file or a model folder.
        out: OUT.
        options: what else to pass, as words.
    """
    words = ["bert-keras", "make-records", os.fspath(vocabulary), os.fspath(out), *options]
    for field in dataclasses.fields(RecordSettings):
        if field.name in settings and field.name not in _NO_OPTIONS and settings[field.name] != field.default:
            words.append(_OPTIONS.get(field.name, "--" + field.name.replace("_", "-")))
            words += [] if settings[field.name] is True else [str(settings[field.name])]
    return shlex.join(words)


def build_remake_command(
    manifest: Mapping[str, object],
    folder: str | os.PathLike,
    *,
    vocabulary: object,
    options: Iterable[str] = (),
) -> str:
    """Return the command that makes the records of a manifest again, in a new folder, with another vocabulary.

    Args:
        manifest: that of `folder`, or what it should say.
        folder: the records folder, which stays.
        vocabulary: VOCAB.
        options: how VOCAB splits text, where its files do not say it.
    """
    sentences = ["--sentences", "split"] if manifest.get("sentences") == "split" else []
    options = [*options, *_text_options(manifest.get("sources", ())), *sentences]
    return make_records_command(manifest, vocabulary=vocabulary, out=_new_folder(folder), options=options)


def _text_options(sources: Iterable[Mapping[str, object]]) -> list[str]:
    """Return the option for the text, with the files that are still there; TEXT stands for the others."""
    names = [source.get("name") for source in sources]
    if names == [PROSE]:
        return []
    known = 0 < len(names) <= _MAX_SOURCES and all(
        isinstance(name, str) and not name.startswith("-") and os.path.isfile(name) for name in names
    )
    return ["--text", *(names if known else ["TEXT"])]


def _new_folder(folder: str | os.PathLike) -> str:
    """Return a name beside a folder that nothing has."""
    base = os.path.normpath(os.fspath(folder))
    names = itertools.chain([f"{base}_again"], (f"{base}_again_{number}" for number in itertools.count(2)))
    return next(name for name in names if not os.path.lexists(name))
