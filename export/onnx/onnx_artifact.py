"""The ONNX folder as an artifact: both files compared in onnxruntime, beside all that other tools open it by."""

import functools
import pathlib

from bert_keras.errors import InputError, MissingExtraError
from bert_keras.export.exporting import Export
from bert_keras.export.onnx.onnx_folder import FLOAT32, INT8, write_onnx_folder
from bert_keras.export.onnx.onnx_int8 import write_int8_onnx
from bert_keras.export.parity.parity_check import TOLERANCE, Check, start_ids_check
from bert_keras.export.parity.probe_inputs import DEFAULT, ProbeSet
from bert_keras.export.parity.reference import Reference
from bert_keras.export.targets import WRITTEN_BY
from bert_keras.publishing import publish_folder

NUM_CHECKS = 2
# The mean difference of an output in its standard deviations, on random ids
INT8_TOLERANCE = 0.3  # MiniLM: 0.157


def export_onnx(export: Export) -> None:
    """Writes `onnx/`, a Hugging Face folder with `onnx/model.onnx` and `onnx/model_quantized.onnx`, and checks both.

    Raises:
        InputError: there is a folder and it may not be replaced.
        ParityError: an operation has no ONNX.
    """
    reference, probes = export.reference, export.settings.probes
    folder = export.published.enter_context(publish_folder(export.out / "onnx", WRITTEN_BY, overwrite=export.overwrite))
    export.stages.begin("writing ONNX")
    settings = reference.task.settings() if reference.task else None
    write_onnx_folder(reference.model, reference.tokenizer, folder, int8=False, task=settings)
    start = functools.partial(start_onnx_check, reference, folder / FLOAT32, probes, has_8_bits=False)
    export.checks.begin(f"onnx/{FLOAT32}", start)
    write_int8_onnx(folder / FLOAT32, folder / INT8)
    start = functools.partial(start_onnx_check, reference, folder / INT8, probes, has_8_bits=True)
    export.checks.begin(f"onnx/{INT8}", start)


def start_onnx_check(
    reference: Reference, path: pathlib.Path, probes: ProbeSet = DEFAULT, *, has_8_bits: bool | None = None
) -> Check:
    """Starts the check of a file; see `start_ids_check`. `has_8_bits`: None: as the file says.

    Raises:
        InputError: it is no ONNX file.
        MissingExtraError: onnx is not installed.
    """
    relative = _has_8_bits(path) if has_8_bits is None else has_8_bits
    tolerance = INT8_TOLERANCE if relative else TOLERANCE
    return start_ids_check(reference, "onnx", path, probes, tolerance=tolerance, relative=relative)


def _has_8_bits(path: pathlib.Path) -> bool:
    try:
        import onnx
        from google.protobuf.message import DecodeError
    except ImportError:
        raise MissingExtraError(f"looking into {path}", "onnx", "onnx") from None
    try:
        graph = onnx.load(path, load_external_data=False).graph
    except DecodeError:
        raise InputError(f"{path} is no whole ONNX file: export it again") from None
    return any(array.data_type == onnx.TensorProto.INT8 for array in graph.initializer)
