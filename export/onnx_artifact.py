"""The ONNX folder as an artifact: both files compared in onnxruntime, beside all that other tools open it by."""

import pathlib

from bert_keras.checkpoints import BertEmbedder
from bert_keras.errors import InputError, MissingExtraError
from bert_keras.export.exporting import Export, Verdicts
from bert_keras.export.onnx_folder import FLOAT32, INT8, write_onnx_folder
from bert_keras.export.reference import Reference
from bert_keras.export.verdict import TOLERANCE, check_ids_artifact
from bert_keras.files import publish_folder

NUM_STAGES = 2
# The mean difference of an output in its standard deviations, on random ids
INT8_TOLERANCE = 0.3  # MiniLM: 0.157


def export_onnx(export: Export) -> Verdicts:
    """Writes `onnx/`, a Hugging Face folder with `onnx/model.onnx` and `onnx/model_quantized.onnx`, and compares both.

    Raises:
        InputError: there is a folder and it may not be replaced.
        VerdictError: an operation has no ONNX.
    """
    reference = export.reference
    folder = export.published.enter_context(publish_folder(export.out / "onnx", overwrite=export.overwrite))
    export.stages.begin("writing ONNX")
    settings = reference.task.settings() if reference.task else None
    write_onnx_folder(reference.model, reference.tokenizer, folder, task=settings)
    export.stages.begin("checking it in onnxruntime")
    return {f"onnx/{name}": check_onnx_file(reference, folder / name) for name in (FLOAT32, INT8)}


def check_onnx_file(reference: Reference, path: pathlib.Path) -> dict:
    """Returns the verdict on a file; see `check_ids_artifact`.

    Raises:
        InputError: it is no ONNX file.
        MissingExtraError: onnx is not installed.
    """
    with_hidden = isinstance(reference.model, BertEmbedder)  # what sentence-transformers pools is in the file, too
    reference = Reference(reference.model, reference.tokenizer, reference.task, with_hidden=with_hidden)
    relative = _has_8_bits(path)
    return check_ids_artifact(
        reference, "onnx", path, tolerance=INT8_TOLERANCE if relative else TOLERANCE, relative=relative
    )


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
