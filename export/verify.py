"""`verify`: the verdict on artifacts that were published before."""

import dataclasses
import os
import pathlib

from bert_keras.export.artifacts import read_reference
from bert_keras.export.onnx.onnx_artifact import start_onnx_check
from bert_keras.export.parity.parity_check import Check, start_saved_model_check
from bert_keras.export.parity.probe_inputs import DEFAULT, THOROUGH, ProbeSet
from bert_keras.export.parity.reference import Reference
from bert_keras.export.saved_model.op_audit import read_meta_graph
from bert_keras.export.saved_model.text_model import DEFAULT as SERVING_DEFAULT
from bert_keras.export.targets import find_artifacts
from bert_keras.export.tflite.tflite_artifact import start_tflite_file_check
from bert_keras.extras import check_tensorflow_backend
from bert_keras.tasks.text_classification import TextClassification


def verify(artifact: str | os.PathLike, checkpoint: str | os.PathLike, *, thorough: bool = False) -> dict[str, dict]:
    """Compares artifacts with the checkpoint that they were made of, as `export_model` did.

    Args:
        artifact: the folder of a version of a SavedModel, or a folder with artifacts in it.
        checkpoint: the folder that they were made of.
        thorough: whether to compare on 200 sequences and 100 texts instead of 24 and 16.

    Returns:
        The verdict on each, by its path.

    Raises:
        InputError: there is no artifact, or the checkpoint cannot be read.
        ParityError: an artifact does not run.
    """
    check_tensorflow_backend("verify")
    found = find_artifacts(pathlib.Path(artifact))
    reference = read_reference(checkpoint)
    probes = THOROUGH if thorough else DEFAULT
    return {str(path): _check(path, reference, probes).verdict() for path in found}


def _check(path: pathlib.Path, reference: Reference, probes: ProbeSet) -> Check:
    if path.suffix == ".tflite":
        return start_tflite_file_check(reference, path, probes)
    if path.suffix == ".onnx":
        return start_onnx_check(reference, path, probes)
    task = reference.task
    if isinstance(task, TextClassification):
        pairs = "second_text" in read_meta_graph(path).signature_def[SERVING_DEFAULT].inputs
        reference = reference.with_task(dataclasses.replace(task, has_pairs=pairs))
    return start_saved_model_check(reference, path, probes)
