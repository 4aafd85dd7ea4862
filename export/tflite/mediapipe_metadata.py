"""Add the metadata that MediaPipe requires to a TFLite file: names of its tensors, the vocabulary and the labels.

The metadata is a separate FlatBuffer (`metadata_schema.fbs` of TFLite Support, identifier "M001") in a buffer of the
model; the files that it refers to are appended as a ZIP. It is written here, because MediaPipe's own writer cannot
be imported on current Python versions, and so that writing a file for a phone does not need mediapipe.
"""

import os
import pathlib
import zipfile
from collections.abc import Sequence

import flatbuffers

from bert_keras.errors import InputError
from bert_keras.export.tflite.tflite_file import (
    add_metadata_entry,
    parse_tflite,
    read_metadata_entry,
    read_signatures,
)
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.pipelines.text.vocabulary import encode_vocabulary
from bert_keras.publishing import publish_file

ENTRY = "TFLITE_METADATA"
IDENTIFIER = b"M001"
MIN_PARSER_VERSION = "1.1.0"  # the schema version that introduced BertTokenizerOptions, the newest feature in use
VOCABULARY_FILE, LABELS_FILE = "vocab.txt", "labels.txt"
INPUT_NAMES = {"input_ids": "ids", "attention_mask": "mask", "token_type_ids": "segment_ids"}  # MediaPipe's names
OUTPUTS = {
    "probabilities": "TextClassifier",
    "sentence_embedding": "TextEmbedder",
}  # and its MediaPipe task


# field numbers of tables
_NAME, _DESCRIPTION = 0, 1  # of `ModelMetadata`, `TensorMetadata` and `AssociatedFile`
_SUBGRAPHS, _MIN_PARSER_VERSION = 3, 7  # of `ModelMetadata`
_INPUTS, _OUTPUTS, _INPUT_UNITS = 2, 3, 5  # of `SubGraphMetadata`
_TENSOR_FILES, _FILE_TYPE = 6, 2  # of `TensorMetadata` and `AssociatedFile`
_OPTIONS_TYPE, _OPTIONS = 0, 1  # of `ProcessUnit`
_VOCABULARY_FILES = 0  # of `BertTokenizerOptions`
_BERT_TOKENIZER_OPTIONS = 4  # in the union `ProcessUnitOptions`
_TENSOR_AXIS_LABELS, _VOCABULARY = 2, 5  # in the enumeration `AssociatedFileType`


def add_metadata(
    path: str | os.PathLike,
    tokenizer: BertTokenizer,
    *,
    name: str,
    description: str,
    labels: Sequence[str] | None = None,
) -> None:
    """Add metadata to a TFLite file, so that MediaPipe's `TextClassifier` or `TextEmbedder` can run it.

    Phones tokenize like `tokenizer.for_mediapipe()`, whatever the rules of `tokenizer`, so evaluate with that.

    Args:
        path: the file of a single- or multi-label classifier or of an embedder. It is replaced.
        tokenizer: the model's tokenizer.
        name: the model's name, for people.
        description: the model's description, for people.
        labels: the names of the classes; None: their numbers, or none for an embedder.

    Raises:
        InputError: the file already has metadata, or MediaPipe cannot run it, because it has several lengths or other
            outputs, its vocabulary does not begin with [PAD], or a label is not one line.

    Example:
        >>> from bert_keras.export.tflite.to_tflite import write_tflite
        >>> model, tokenizer = bk.load("demo/classifier"), bk.load_tokenizer("demo/classifier")
        >>> facts = write_tflite(model, "my/model.tflite", length=16)
        >>> add_metadata("my/model.tflite", tokenizer, name="Topic", description="Of a text.", labels=model.labels)
    """
    tokenizer.for_mediapipe()  # raises an InputError if [PAD] is not the first token
    path = pathlib.Path(path)
    content = path.read_bytes()
    inputs, output, width = _read_tensors(path, content)
    labels = _check_labels(path, output, width, labels)
    metadata = {
        _NAME: name,
        _DESCRIPTION: description,
        _SUBGRAPHS: [_build_subgraph(inputs, output, labels)],
        _MIN_PARSER_VERSION: MIN_PARSER_VERSION,
    }
    builder = flatbuffers.Builder()
    builder.Finish(_write_table(builder, metadata), IDENTIFIER)
    with publish_file(path) as staging:
        staging.write_bytes(add_metadata_entry(content, ENTRY, bytes(builder.Output())))
        with zipfile.ZipFile(staging, "a", zipfile.ZIP_STORED) as archive:  # a ZIP is found from the end
            archive.writestr(zipfile.ZipInfo(VOCABULARY_FILE), encode_vocabulary(tokenizer.vocabulary))
            if labels is not None:
                archive.writestr(zipfile.ZipInfo(LABELS_FILE), "".join(f"{label}\n" for label in labels))


def _read_tensors(path: pathlib.Path, content: bytes) -> tuple[list[str], str, int]:
    """Return the names of the inputs in the order of the graph, and the name and the width of the only output."""
    file = parse_tflite(content, str(path))
    if read_metadata_entry(file, ENTRY) is not None:
        raise InputError(f"{path} already has metadata: write the model again, then its metadata")
    if len(found := read_signatures(file)) != 1 or file.SubgraphsLength() != 1:
        raise InputError(f"{path} has {len(found)} signatures; MediaPipe supports one: write one length per file")
    ((inputs, outputs),) = found.values()
    if inputs.keys() != INPUT_NAMES.keys() or len(outputs) != 1 or not outputs.keys() <= OUTPUTS.keys():
        raise InputError(
            f"{path} has the inputs {', '.join(inputs)} and outputs {', '.join(outputs)}; MediaPipe requires the "
            f"inputs {', '.join(INPUT_NAMES)} and the output {' or '.join(OUTPUTS)}: run the file in LiteRT"
        )
    ((output, shape),) = outputs.items()
    return list(inputs), output, shape[-1]


def _check_labels(path: pathlib.Path, output: str, width: int, labels: Sequence[str] | None) -> list[str] | None:
    if OUTPUTS[output] == "TextEmbedder":
        if labels is not None:
            raise InputError(f"{path} has the output {output}, which has no labels: leave them out")
        return None
    labels = list(map(str, range(width))) if labels is None else list(labels)
    if len(labels) != width:
        raise InputError(f"{len(labels)} labels were given for {width} classes of {path}: give each class one")
    if repeated := [label for label in labels if labels.count(label) > 1]:
        raise InputError(f"the label {repeated[0]!r} was given for two classes; expected different labels: rename one")
    for label in labels:
        if not label or "\n" in label or "\r" in label:
            raise InputError(f"the label {label!r} is not one line of text, which MediaPipe requires: rename it")
    return labels


def _build_subgraph(inputs: list[str], output: str, labels: list[str] | None) -> dict:
    vocabulary = {_NAME: VOCABULARY_FILE, _DESCRIPTION: "one token per line", _FILE_TYPE: _VOCABULARY}
    tokenizer = {
        _OPTIONS_TYPE: _BERT_TOKENIZER_OPTIONS,
        _OPTIONS: {_VOCABULARY_FILES: [vocabulary]},
    }
    label_file = {_NAME: LABELS_FILE, _DESCRIPTION: "one class per line", _FILE_TYPE: _TENSOR_AXIS_LABELS}
    return {
        _INPUTS: [{_NAME: INPUT_NAMES[name], _DESCRIPTION: name} for name in inputs],
        _OUTPUTS: [{_NAME: output, **({} if labels is None else {_TENSOR_FILES: [label_file]})}],
        _INPUT_UNITS: [tokenizer],
    }


def _write_table(builder: flatbuffers.Builder, table: dict) -> int:
    """Write a table, `{field number: string, enumeration value, table or list of tables}`, and return its offset."""
    offsets = {field: _write_value(builder, value) for field, value in table.items() if not isinstance(value, int)}
    builder.StartObject(max(table) + 1)
    for field, value in table.items():
        if field in offsets:
            builder.PrependUOffsetTRelativeSlot(field, offsets[field], 0)
        else:
            builder.PrependUint8Slot(field, value, 0)
    return builder.EndObject()


def _write_value(builder: flatbuffers.Builder, value: str | dict | list[dict]) -> int:
    if isinstance(value, str):
        return builder.CreateString(value)
    if isinstance(value, dict):
        return _write_table(builder, value)
    offsets = [_write_table(builder, table) for table in value]
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):  # a builder writes backwards
        builder.PrependUOffsetTRelative(offset)
    return builder.EndVector()
