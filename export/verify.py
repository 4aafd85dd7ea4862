"""`verify`: compare artifacts that were exported earlier with their checkpoint."""

import dataclasses
import functools
import os
import pathlib

from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.engines.artifact_files import DESCRIPTION, find_model_folder
from bert_keras.errors import InputError
from bert_keras.export.artifacts import load_reference
from bert_keras.export.onnx.onnx_artifact import start_onnx_check
from bert_keras.export.parity.parity_check import ParityCheck, start_saved_model_check
from bert_keras.export.parity.probe_inputs import DEFAULT_PROBES, THOROUGH_PROBES, ProbeSet
from bert_keras.export.parity.reference import Reference
from bert_keras.export.saved_model.op_audit import read_meta_graph
from bert_keras.export.saved_model.to_saved_model import SERVING_DEFAULT
from bert_keras.export.targets import find_artifacts
from bert_keras.export.tflite.tflite_artifact import start_tflite_file_check
from bert_keras.export.vocabulary_trimming import is_trimmed_vocabulary
from bert_keras.extras import check_tensorflow_backend
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.pipelines.text.tokenizer_folder import TokenizerFolder


def verify(artifact: str | os.PathLike, checkpoint: str | os.PathLike, *, thorough: bool = False) -> dict[str, dict]:
    """Compare artifacts with the checkpoint that they were exported from, as `bert-keras verify` does.

    An artifact with a trimmed vocabulary is compared with the checkpoint after the same tokens were removed.

    Args:
        artifact: a version of a SavedModel, a `.tflite` or `.onnx` file, or a folder that contains artifacts.
        checkpoint: the checkpoint's folder.
        thorough: whether to compare on 200 sequences and 100 texts instead of 24 and 16.

    Returns:
        The parity report of each artifact, keyed by its path.

    Raises:
        InputError: there is no artifact, or the checkpoint cannot be read.
        ParityError: an artifact does not run.

    Example:
        >>> all(report["passed"] for report in verify("demo/artifacts", "demo/classifier").values())
        True
    """
    check_tensorflow_backend("verify")
    paths = find_artifacts(pathlib.Path(artifact))
    checkpoint = read_checkpoint(checkpoint)
    whole = load_reference(checkpoint)
    find_reference = functools.cache(
        lambda vocabulary: whole if vocabulary is None else load_reference(checkpoint, vocabulary=vocabulary)
    )
    probes = THOROUGH_PROBES if thorough else DEFAULT_PROBES
    reports = {}
    for path in paths:
        reference = find_reference(_read_trimmed_vocabulary(path, whole.tokenizer))
        reports[str(path)] = _start_check(path, reference, probes).report()
    return reports


def _read_trimmed_vocabulary(path: pathlib.Path, tokenizer: BertTokenizer) -> tuple[str, ...] | None:
    """Return an artifact's vocabulary if the export trimmed it, so that it is a part of the checkpoint's; else None."""
    if path.suffix == ".tflite":
        folder = path.parent
    else:
        folder = path / DESCRIPTION if path.is_dir() else find_model_folder(path)
    try:
        vocabulary = TokenizerFolder(folder).vocabulary if folder else ()
    except InputError:  # an artifact can be compared without its vocabulary
        return None
    return tuple(vocabulary) if is_trimmed_vocabulary(vocabulary, tokenizer) else None


def _start_check(path: pathlib.Path, reference: Reference, probes: ProbeSet) -> ParityCheck:
    if path.suffix == ".tflite":
        return start_tflite_file_check(reference, path, probes)
    if path.suffix == ".onnx":
        return start_onnx_check(reference, path, probes)
    if reference.head.takes_pairs:
        accepts_pairs = "second_text" in read_meta_graph(path).signature_def[SERVING_DEFAULT].inputs
        reference = reference.with_task(dataclasses.replace(reference.task, has_pairs=accepts_pairs))
    return start_saved_model_check(reference, path, probes)
