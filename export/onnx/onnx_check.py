"""The parity check of an ONNX file in onnxruntime."""

import functools
import pathlib

from bert_keras.errors import InputError, MissingExtraError
from bert_keras.export.parity.parity_check import TOLERANCE, ParityCheck, start_ids_check
from bert_keras.export.parity.probe_inputs import DEFAULT_PROBES, ProbeSet
from bert_keras.export.parity.reference import Reference
from bert_keras.export.parity.tokenizer_differences import count_tokenizer_differences
from bert_keras.tasks.engines.artifact_files import find_model_folder

# The mean difference of an output, in standard deviations, on random ids
INT8_TOLERANCE = 0.3  # MiniLM: 0.157


def start_onnx_check(
    reference: Reference, path: pathlib.Path, probes: ProbeSet = DEFAULT_PROBES, *, is_quantized: bool | None = None
) -> ParityCheck:
    """Start the parity check of a file; see `start_ids_check`.

    Args:
        reference: the checkpoint.
        path: the file.
        probes: the inputs to compare on.
        is_quantized: whether the weights have 8 bits; None: read it from the file.

    Raises:
        InputError: the file is not an ONNX file.
        MissingExtraError: onnx is not installed.
    """
    relative = _has_int8_weights(path) if is_quantized is None else is_quantized
    tolerance = INT8_TOLERANCE if relative else TOLERANCE
    add_differences = functools.partial(_add_tokenizer_differences, reference, path, probes)
    return start_ids_check(
        reference, "onnx", path, probes, tolerance=tolerance, relative=relative, complete_report=add_differences
    )


def _add_tokenizer_differences(reference: Reference, path: pathlib.Path, probes: ProbeSet, report: dict) -> dict:
    """Add the number of texts whose ids differ in engines without TensorFlow, if the file is in a model folder."""
    folder = find_model_folder(path)
    texts = probes.texts(reference.tokenizer, reference.text_length)
    differences = None if folder is None else count_tokenizer_differences(reference.tokenizer, folder, texts)
    return report if differences is None else {**report, "tokenizer_json": differences}


def _has_int8_weights(path: pathlib.Path) -> bool:
    try:
        import onnx
        from google.protobuf.message import DecodeError
    except ImportError:
        raise MissingExtraError(f"reading {path}", "onnx", "onnx") from None
    try:
        graph = onnx.load(path, load_external_data=False).graph
    except DecodeError:
        raise InputError(f"{path} is not a complete ONNX file: export it again") from None
    return any(array.data_type == onnx.TensorProto.INT8 for array in graph.initializer)
