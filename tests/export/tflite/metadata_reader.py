"""Read the metadata of TFLite files as MediaPipe does."""

import os
import pathlib
import zipfile
from typing import NamedTuple

import flatbuffers
from flatbuffers.number_types import UOffsetTFlags
from flatbuffers.table import Table

from bert_keras.errors import InputError
from bert_keras.export.tflite.mediapipe_metadata import ENTRY, IDENTIFIER, VOCABULARY_FILE
from bert_keras.export.tflite.tflite_file import parse_tflite, read_metadata_entry

# field numbers in `metadata_schema.fbs`: of all tables, of ModelMetadata, of SubGraphMetadata, and of TensorMetadata
NAME, DESCRIPTION = 0, 1
SUBGRAPHS, MIN_PARSER_VERSION = 3, 7
INPUTS, OUTPUTS = 2, 3
FILES = 6


class Metadata(NamedTuple):
    """Metadata of a TFLite file.

    Attributes:
        name, description: name and description of the model.
        min_parser_version: oldest schema version that a reader must support.
        inputs, outputs: names of the tensors, in the order of the graph.
        labels: class names, in the order of the output; None for an embedder.
        vocabulary: tokens, in the order of their ids.
    """

    name: str
    description: str
    min_parser_version: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    labels: tuple[str, ...] | None
    vocabulary: tuple[str, ...]


def read_metadata(path: str | os.PathLike) -> Metadata:
    """Read the metadata of `add_metadata`.

    Raises:
        InputError: the file has no such metadata.
    """
    entry = read_metadata_entry(parse_tflite(pathlib.Path(path).read_bytes(), str(path)), ENTRY)
    files = _associated_files(path)
    if entry is None or entry[4:8] != IDENTIFIER or VOCABULARY_FILE not in files:
        raise InputError(f"{path} has no metadata of a text model: write it with add_metadata")
    model = _root(entry)
    (subgraph,) = _tables(model, SUBGRAPHS)
    outputs = _tables(subgraph, OUTPUTS)
    labels = [_text(file, NAME) for tensor in outputs for file in _tables(tensor, FILES)]
    return Metadata(
        _text(model, NAME),
        _text(model, DESCRIPTION),
        _text(model, MIN_PARSER_VERSION),
        tuple(_text(tensor, NAME) for tensor in _tables(subgraph, INPUTS)),
        tuple(_text(tensor, NAME) for tensor in outputs),
        files[labels[0]] if labels else None,
        files[VOCABULARY_FILE],
    )


def _associated_files(path) -> dict[str, tuple[str, ...]]:
    """Return the lines of each associated file, keyed by file name."""
    if not zipfile.is_zipfile(path):
        return {}
    with zipfile.ZipFile(path) as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    return {name: tuple(text.removesuffix("\n").split("\n")) for name, text in texts.items()}


def _root(content: bytes) -> Table:
    return Table(content, flatbuffers.encode.Get(UOffsetTFlags.packer_type, content, 0))


def _tables(table: Table, field: int) -> list[Table]:
    offset = table.Offset(4 + 2 * field)
    if not offset:
        return []
    start = table.Vector(offset)
    return [Table(table.Bytes, table.Indirect(start + 4 * index)) for index in range(table.VectorLen(offset))]


def _text(table: Table, field: int) -> str:
    offset = table.Offset(4 + 2 * field)
    return table.String(table.Pos + offset).decode() if offset else ""
