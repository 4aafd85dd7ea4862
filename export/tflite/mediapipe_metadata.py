"""What MediaPipe asks of a TFLite file beyond the graph: its tensors' names, the vocabulary and the labels inside.

The metadata is a FlatBuffer of its own (`metadata_schema.fbs` of TFLite Support, identifier "M001") in a buffer of the
model's; the files that it names are appended as a ZIP. Written here by hand, since MediaPipe's own writer cannot
be imported on current Pythons, and nobody should need mediapipe to write a file for a phone.
"""

import enum
import os
import pathlib
import zipfile
from collections.abc import Sequence
from typing import NamedTuple

import flatbuffers
from flatbuffers.number_types import UOffsetTFlags
from flatbuffers.table import Table

from bert_keras.errors import InputError
from bert_keras.export.tflite.tflite_file import metadata_entry, read_file, signatures, with_metadata_entry
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.pipelines.text.vocabulary import encode_vocabulary
from bert_keras.publishing import publish_file

ENTRY = "TFLITE_METADATA"
IDENTIFIER = b"M001"
MIN_PARSER_VERSION = "1.1.0"  # the schema's release that brought BertTokenizerOptions, the newest thing used here
VOCABULARY_FILE, LABELS_FILE = "vocab.txt", "labels.txt"
INPUT_NAMES = {"input_ids": "ids", "attention_mask": "mask", "token_type_ids": "segment_ids"}  # MediaPipe's names
OUTPUTS = {"probabilities": "TextClassifier", "sentence_embedding": "TextEmbedder"}  # and who reads them


class _Model(enum.IntEnum):  # the numbers of the fields of `ModelMetadata`, and so on below
    NAME, DESCRIPTION, VERSION, SUBGRAPHS, AUTHOR, LICENSE, FILES, MIN_PARSER_VERSION = range(8)


class _Subgraph(enum.IntEnum):
    NAME, DESCRIPTION, INPUTS, OUTPUTS, FILES, INPUT_UNITS = range(6)


class _Tensor(enum.IntEnum):
    NAME, DESCRIPTION, DIMENSION_NAMES, CONTENT, UNITS, STATS, FILES = range(7)


class _Unit(enum.IntEnum):
    OPTIONS_TYPE, OPTIONS = range(2)


class _BertTokenizer(enum.IntEnum):
    VOCABULARY_FILES = 0


class _File(enum.IntEnum):
    NAME, DESCRIPTION, TYPE = range(3)


_BERT_TOKENIZER_OPTIONS = 4  # in the union `ProcessUnitOptions`
_TENSOR_AXIS_LABELS, _VOCABULARY = 2, 5  # in the enumeration `AssociatedFileType`


class Metadata(NamedTuple):
    """What a file says of itself.

    Attributes:
        name, description: of the model.
        min_parser_version: the oldest reader that understands all of it.
        inputs, outputs: names of its tensors, in the graph's order.
        labels: of the classes, in the order of the output; None: an embedder.
        vocabulary: the tokens in the order of their ids.
    """

    name: str
    description: str
    min_parser_version: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    labels: tuple[str, ...] | None
    vocabulary: tuple[str, ...]


def add_metadata(
    path: str | os.PathLike,
    tokenizer: BertTokenizer,
    *,
    name: str,
    description: str,
    labels: Sequence[str] | None = None,
    of_pairs: bool = False,
    author: str = "",
    license_text: str = "",
) -> None:
    """Makes a file of `write_tflite` one that MediaPipe's `TextClassifier` or `TextEmbedder` runs, in its place.

    A phone tokenizes as `tokenizer.for_mediapipe()` does, whatever the tokenizer's own rules: score with that.

    Args:
        path: a file of a single- or multi-label classifier, or of an embedder.
        tokenizer: that of the model.
        name, description: of the model, for people.
        labels: names of the classes; their numbers, unless given. None for an embedder.
        of_pairs: whether the model reads pairs of texts.
        author, license_text: for people.

    Raises:
        InputError: the file has metadata, or MediaPipe cannot run it: a model of pairs, several lengths, other
            outputs, a vocabulary whose first token is not [PAD], labels that are not one line each.

    Example:
        >>> write_tflite(model, "model.tflite")
        >>> add_metadata("model.tflite", tokenizer, name="Mood", description="Of a review.", labels=["bad", "good"])
    """
    if of_pairs:
        raise InputError("the model reads pairs of texts, and MediaPipe gives one text: run its file in LiteRT itself")
    tokenizer.for_mediapipe()  # raises an InputError if [PAD] is not the first token
    path = pathlib.Path(path)
    content = path.read_bytes()
    inputs, output, width = _tensors(path, content)
    labels = _checked_labels(path, output, width, labels)
    about = {
        _Model.NAME: name,
        _Model.DESCRIPTION: description,
        _Model.SUBGRAPHS: [_subgraph(inputs, output, labels)],
        _Model.MIN_PARSER_VERSION: MIN_PARSER_VERSION,
        **({_Model.AUTHOR: author} if author else {}),
        **({_Model.LICENSE: license_text} if license_text else {}),
    }
    builder = flatbuffers.Builder()
    builder.Finish(_write(builder, about), IDENTIFIER)
    with publish_file(path) as staging:
        staging.write_bytes(with_metadata_entry(content, ENTRY, bytes(builder.Output())))
        with zipfile.ZipFile(staging, "a", zipfile.ZIP_STORED) as archive:  # a ZIP is read from its end
            archive.writestr(zipfile.ZipInfo(VOCABULARY_FILE), encode_vocabulary(tokenizer.vocabulary))
            if labels is not None:
                archive.writestr(zipfile.ZipInfo(LABELS_FILE), "".join(f"{label}\n" for label in labels))


def read_metadata(path: str | os.PathLike) -> Metadata:
    """Reads what `add_metadata` wrote.

    Raises:
        InputError: the file has no metadata, or not of this kind.
    """
    entry = metadata_entry(read_file(pathlib.Path(path).read_bytes(), str(path)), ENTRY)
    files = _associated_files(path)
    if entry is None or entry[4:8] != IDENTIFIER or VOCABULARY_FILE not in files:
        raise InputError(f"{path} has no metadata of a text model: write it with add_metadata")
    model = _root(entry)
    (subgraph,) = _tables(model, _Model.SUBGRAPHS)
    outputs = _tables(subgraph, _Subgraph.OUTPUTS)
    labels = [_text(file, _File.NAME) for tensor in outputs for file in _tables(tensor, _Tensor.FILES)]
    return Metadata(
        _text(model, _Model.NAME),
        _text(model, _Model.DESCRIPTION),
        _text(model, _Model.MIN_PARSER_VERSION),
        tuple(_text(tensor, _Tensor.NAME) for tensor in _tables(subgraph, _Subgraph.INPUTS)),
        tuple(_text(tensor, _Tensor.NAME) for tensor in outputs),
        files[labels[0]] if labels else None,
        files[VOCABULARY_FILE],
    )


def _associated_files(path) -> dict[str, tuple[str, ...]]:
    """Returns the lines of the files that are appended to a file, by their names."""
    if not zipfile.is_zipfile(path):
        return {}
    with zipfile.ZipFile(path) as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    return {name: tuple(text.removesuffix("\n").split("\n")) for name, text in texts.items()}


def _tensors(path: pathlib.Path, content: bytes) -> tuple[list[str], str, int]:
    """Returns the names of the inputs in the graph's order, and the name and the width of the one output."""
    file = read_file(content, str(path))
    if metadata_entry(file, ENTRY) is not None:
        raise InputError(f"{path} has metadata already: write the model again, then its metadata")
    if len(found := signatures(file)) != 1 or file.SubgraphsLength() != 1:
        raise InputError(f"{path} has {len(found)} signatures; MediaPipe runs one: write one length a file")
    ((inputs, outputs),) = found.values()
    if inputs.keys() != INPUT_NAMES.keys() or len(outputs) != 1 or not outputs.keys() <= OUTPUTS.keys():
        raise InputError(
            f"{path} gives {', '.join(outputs)} for {', '.join(inputs)}; MediaPipe runs models that give "
            f"{' or '.join(OUTPUTS)} for {', '.join(INPUT_NAMES)}"
        )
    ((output, shape),) = outputs.items()
    return list(inputs), output, shape[-1]


def _checked_labels(path, output: str, width: int, labels: Sequence[str] | None) -> list[str] | None:
    if OUTPUTS[output] == "TextEmbedder":
        if labels is not None:
            raise InputError(f"{path} gives {output}, which has no labels: leave them out")
        return None
    labels = list(map(str, range(width))) if labels is None else list(labels)
    if len(labels) != width:
        raise InputError(f"{len(labels)} labels were given for {width} classes of {path}: give each class one")
    if repeated := [label for label in labels if labels.count(label) > 1]:
        raise InputError(
            f"the label {repeated[0]!r} is that of two classes; expected one of its own for each: rename it"
        )
    for label in labels:
        if not label or "\n" in label or "\r" in label:
            raise InputError(f"the label {label!r} is not one line of text, as MediaPipe reads labels: rename it")
    return labels


def _subgraph(inputs: list[str], output: str, labels: list[str] | None) -> dict:
    vocabulary = {_File.NAME: VOCABULARY_FILE, _File.DESCRIPTION: "a token a line", _File.TYPE: _VOCABULARY}
    tokenizer = {
        _Unit.OPTIONS_TYPE: _BERT_TOKENIZER_OPTIONS,
        _Unit.OPTIONS: {_BertTokenizer.VOCABULARY_FILES: [vocabulary]},
    }
    of_labels = {_File.NAME: LABELS_FILE, _File.DESCRIPTION: "a class a line", _File.TYPE: _TENSOR_AXIS_LABELS}
    return {
        _Subgraph.INPUTS: [{_Tensor.NAME: INPUT_NAMES[name], _Tensor.DESCRIPTION: name} for name in inputs],
        _Subgraph.OUTPUTS: [{_Tensor.NAME: output, **({} if labels is None else {_Tensor.FILES: [of_labels]})}],
        _Subgraph.INPUT_UNITS: [tokenizer],
    }


def _write(builder: flatbuffers.Builder, table: dict) -> int:
    """Writes a table, `{field: text, number of an enumeration, table or list of tables}`; returns its offset."""
    offsets = {field: _write_value(builder, value) for field, value in table.items() if not isinstance(value, int)}
    builder.StartObject(max(table) + 1)
    for field, value in table.items():
        if field in offsets:
            builder.PrependUOffsetTRelativeSlot(int(field), offsets[field], 0)
        else:
            builder.PrependUint8Slot(int(field), value, 0)
    return builder.EndObject()


def _write_value(builder: flatbuffers.Builder, value: str | dict | list[dict]) -> int:
    if isinstance(value, str):
        return builder.CreateString(value)
    if isinstance(value, dict):
        return _write(builder, value)
    offsets = [_write(builder, table) for table in value]
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):  # a builder writes from the end
        builder.PrependUOffsetTRelative(offset)
    return builder.EndVector()


def _root(content: bytes) -> Table:
    return Table(content, flatbuffers.encode.Get(UOffsetTFlags.packer_type, content, 0))


def _tables(table: Table, field: int) -> list[Table]:
    place = table.Offset(4 + 2 * field)
    if not place:
        return []
    start = table.Vector(place)
    return [Table(table.Bytes, table.Indirect(start + 4 * index)) for index in range(table.VectorLen(place))]


def _text(table: Table, field: int) -> str:
    place = table.Offset(4 + 2 * field)
    return table.String(table.Pos + place).decode() if place else ""
