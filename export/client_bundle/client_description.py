"""`model.json`: all that a program without this package needs to answer texts with a TFLite or an ONNX file.

The schema is in `docs/reference/formats.md`. The clients in `examples/` read it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from bert_keras.files import format_json
from bert_keras.heads.task import Task
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS

if TYPE_CHECKING:
    from bert_keras.pipelines.text.tokenizer import BertTokenizer

MODEL_FILE = "model.json"
FORMAT = 1  # increased if a program that reads the current format would give wrong answers
_LINE_WIDTH = 120
_RULES = ("lowercase", "strip_accents", "tokenize_chinese_chars", "max_input_chars_per_word", "text_rules")
_RULES += ("unicode_version",)


class ModelFile(NamedTuple):
    """A model file that a program can choose.

    Attributes:
        path: its path, relative to `model.json`.
        quantization: "float32", "float16", "dynamic_int8", "dynamic_int4" (TFLite) or "int8" (ONNX).
        bytes: its size.
        signatures: the sequence length of each signature, keyed by its name; None: any length.
    """

    path: str
    quantization: str
    bytes: int
    signatures: Mapping[str, int | None]


class Tensor(NamedTuple):
    """An input or an output of a model file.

    Attributes:
        name: its name in the signature.
        index: its position among the inputs or the outputs of the graph.
        dtype: "int32", "int64" or "float32".
        shape: its shape; None: any size.
    """

    name: str
    index: int
    dtype: str
    shape: Sequence[int | None]


def build_client_description(
    name: str,
    runtime: str,
    *,
    files: Sequence[ModelFile],
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    tokenizer: BertTokenizer,
    task: Task | None,
    probes: Sequence[Mapping],
) -> dict:
    """Return the content of `model.json`.

    Args:
        name: the model's name.
        runtime: "tflite" or "onnx".
        files: the model files, in any order.
        inputs: their inputs.
        outputs: their outputs.
        tokenizer: the model's tokenizer.
        task: the task, with the length of the files; None: programs get the outputs only.
        probes: the result of `make_probes`.
    """
    return {
        "format": FORMAT,
        "name": name,
        "runtime": runtime,
        "files": [one._asdict() for one in sort_files(files, task)],
        "inputs": [one._asdict() for one in inputs],
        "outputs": [one._asdict() for one in outputs],
        "tokenizer": {
            "vocabulary": "vocab.txt",
            **{name: getattr(tokenizer.rules, name) for name in _RULES},
            "additional_special_tokens": list(tokenizer.special_tokens[len(SPECIAL_TOKENS) :]),
            "added_tokens": list(tokenizer.added_tokens),
            **{name: getattr(tokenizer, name) for name in ("pad_id", "unk_id", "cls_id", "sep_id", "mask_id")},
        },
        "task": None if task is None else task.describe_for_clients(),
        "probes": list(probes),
    }


def sort_files(files: Sequence[ModelFile], task: Task | None) -> list[ModelFile]:
    """Return the files, the smallest first; files that are too short for the task's sequences come last."""
    needed = 0 if task is None else task.max_sequence_length

    def is_short(file: ModelFile) -> bool:
        return all(length is not None and length < needed for length in file.signatures.values())

    return sorted(files, key=lambda file: (is_short(file), file.bytes))


def format_description(value: object, indent: str = "") -> str:
    """Format JSON for people: a value that fits in a line, or a list of numbers, is one line."""
    line = format_json(value)
    is_flat = not isinstance(value, dict | list | tuple) or not any(isinstance(one, dict | list) for one in value)
    if len(indent) + len(line) <= _LINE_WIDTH or (is_flat and not isinstance(value, dict)) or not value:
        return line
    inner = indent + "  "
    if isinstance(value, dict):
        parts = [
            f"{json.dumps(key, ensure_ascii=False)}: {format_description(one, inner)}" for key, one in value.items()
        ]
    else:
        parts = [format_description(one, inner) for one in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}{closing}"
