"""`verify`: the verdict on artifacts that were published before."""

import dataclasses
import os
import pathlib

from bert_keras.export.artifacts import read_reference
from bert_keras.export.onnx_artifact import check_onnx_file
from bert_keras.export.op_audit import read_meta_graph
from bert_keras.export.reference import Reference
from bert_keras.export.saved_model import DEFAULT
from bert_keras.export.targets import find_artifacts
from bert_keras.export.tflite_artifact import verify_tflite_file
from bert_keras.export.verdict import check_saved_model
from bert_keras.tasks.text_classification import TextClassification


def verify(artifact: str | os.PathLike, checkpoint: str | os.PathLike) -> dict[str, dict]:
    """Compares artifacts with the checkpoint that they were made of, as `export_checkpoint` did.

    Args:
        artifact: the folder of a version of a SavedModel, or a folder with artifacts in it.
        checkpoint: the folder that they were made of.

    Returns:
        The verdict on each, by its path.

    Raises:
        InputError: there is no artifact, or the checkpoint cannot be read.
        VerdictError: an artifact does not run.
    """
    found = find_artifacts(pathlib.Path(artifact))
    reference = read_reference(checkpoint)
    return {str(path): _verdict(path, reference) for path in found}


def _verdict(path: pathlib.Path, reference: Reference) -> dict:
    if path.suffix == ".tflite":
        return verify_tflite_file(reference, path)
    if path.suffix == ".onnx":
        return check_onnx_file(reference, path)
    task = reference.task
    if isinstance(task, TextClassification):
        pairs = "second_text" in read_meta_graph(path).signature_def[DEFAULT].inputs
        reference = Reference(reference.model, reference.tokenizer, dataclasses.replace(task, of_pairs=pairs))
    return check_saved_model(reference, path)
