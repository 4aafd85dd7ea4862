"""The settings of pretraining records, and the `make-records` command with them, the fix in messages about records.

The manifest stores all settings.
"""

import dataclasses
import itertools
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping

from bert_keras.checks import describe_integer, is_integer, quote
from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.text_sources import PROSE

OBJECTIVES = ("nsp", "sop", "none")
NUM_SPECIAL = 3  # [CLS] A [SEP] B [SEP]
_BLOCK_BYTES = 8_000_000  # 15,000 sequences of 128 tokens, enough to pack them to 99.9 %; 0.2 GB of memory per worker
_MIN_BLOCK_BYTES = 1_000
_MAX_SEED = 2**31 - 1
_OPTIONS = {"sentence_objective": "--objective", "packed": "--pack"}  # settings whose option has another name
WITHOUT_OPTION = ("block_bytes",)  # settings that only Python has
_MAX_SOURCES = 5  # a command with more files would be too long


@dataclasses.dataclass(frozen=True)
class RecordSettings:
    """How text becomes records.

    Attributes other than `block_bytes` are arguments of `make_records`.

    Attributes:
        block_bytes: UTF-8 bytes of text in a block, which is processed at once and becomes one shard per split.

    Raises:
        InputError: a setting is out of range, or two contradict each other.
    """

    max_sequence_length: int
    sentence_objective: str = "nsp"
    short_sequence_rate: float = 0.1
    keep_documents_apart: bool = False
    packed: bool = False
    max_examples_per_sequence: int = 8
    duplicates: int = 1
    held_out_rate: float = 0.01
    seed: int = 0
    block_bytes: int = _BLOCK_BYTES

    def __post_init__(self) -> None:
        if problems := list(self._find_problems()):
            raise InputError("; ".join(problems))

    def _find_problems(self) -> Iterator[str]:
        if self.sentence_objective not in OBJECTIVES:
            yield f"sentence_objective is {quote(self.sentence_objective)}; expected one of {', '.join(OBJECTIVES)}"
        shortest = NUM_SPECIAL + 2
        if not is_integer(self.max_sequence_length, shortest):
            yield (
                f"max_sequence_length is {self.max_sequence_length}; expected at least {shortest} tokens, since "
                f"{NUM_SPECIAL} are [CLS] and [SEP]"
            )
        if not 0 <= self.short_sequence_rate <= 1:
            yield f"short_sequence_rate is {self.short_sequence_rate}; expected a share from 0 to 1"
        if not 0 <= self.held_out_rate < 1:
            yield f"held_out_rate is {self.held_out_rate}; expected a share from 0 to below 1"
        for name in ("duplicates", "max_examples_per_sequence"):
            if not is_integer(getattr(self, name), 1):
                yield f"{name} is {getattr(self, name)}; expected {describe_integer(1)}"
        if not is_integer(self.seed, 0, _MAX_SEED):
            yield f"seed is {self.seed!r}; expected {describe_integer(0, _MAX_SEED)}"
        if not is_integer(self.block_bytes, _MIN_BLOCK_BYTES):
            yield f"block_bytes is {self.block_bytes}; expected at least {_MIN_BLOCK_BYTES:,} bytes of text"
        if self.keep_documents_apart and self.sentence_objective != "none":
            yield (
                f"keep_documents_apart is for sentence_objective 'none'; {self.sentence_objective!r} never joins "
                "documents in an example: leave it out"
            )


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
