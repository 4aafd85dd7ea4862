"""TFLite files as artifacts: compared in LiteRT, fit for MediaPipe where it can run them, the smallest that will do."""

import dataclasses
import pathlib
from collections.abc import Sequence

import numpy as np

from bert_keras.checkpoints import BertClassifier, BertEmbedder
from bert_keras.errors import InputError
from bert_keras.export.exporting import Export, ExportSettings, Verdicts
from bert_keras.export.ladder import Rung, checkpoint_score, climb, file_score
from bert_keras.export.mediapipe_metadata import LABELS_FILE, VOCABULARY_FILE, add_metadata
from bert_keras.export.reference import Reference
from bert_keras.export.tflite_file import constant_types, read_file, signatures
from bert_keras.export.tflite_rows import logits_of
from bert_keras.export.to_tflite import SIGNATURE, write_multi_length_tflite, write_tflite
from bert_keras.export.verdict import TOLERANCE, check_ids_artifact
from bert_keras.files import publish_folder
from bert_keras.pipelines.vocabulary import vocabulary_bytes
from bert_keras.tasks.base import softmax

NUM_STAGES = 2
LENGTH = 128
# The mean difference of an output in its standard deviations, on random ids
RELATIVE_TOLERANCES = {"float16": 0.005, "dynamic_int8": 0.15}  # MiniLM: 0.0008 and 0.059


def export_tflite(export: Export) -> Verdicts:
    """Writes `tflite/`: a file for each quantization, one of several lengths if asked for, `vocab.txt`, `labels.txt`.

    Raises:
        InputError: there are files and they may not be replaced, or a setting does not fit the model.
        VerdictError: a file lacks weights or needs foreign operators.
    """
    settings, reference = export.settings, export.reference
    folder = export.published.enter_context(publish_folder(export.out / "tflite", overwrite=export.overwrite))
    length = tflite_length(reference, settings.tflite_length)
    export.stages.begin("writing TFLite files")
    best = None if settings.examples is None else checkpoint_score(reference, settings.examples)
    rungs: list[Rung] = []
    if settings.is_automatic:
        rungs = climb(
            lambda quantization: _write(reference, folder, length, quantization, settings.model_name),
            lambda path: file_score(reference, path, length, settings.examples),
            best,
            settings.tolerance,
        )
        for rung in rungs[:-1]:
            _path(folder, rung.quantization).unlink()
        quantizations = [rungs[-1].quantization]
    else:
        quantizations = list(dict.fromkeys(settings.quantizations))
        for quantization in quantizations:
            _write(reference, folder, length, quantization, settings.model_name)
    lengths = settings.tflite_lengths
    for quantization in quantizations if lengths else ():
        write_multi_length_tflite(
            reference.model, _path(folder, quantization, "_lengths"), lengths=lengths, quantization=quantization
        )
    _write_names(reference, folder)
    export.stages.begin("checking them in LiteRT")
    verdicts = {}
    for quantization in quantizations:
        path = _path(folder, quantization)
        verdicts[path.name] = check_tflite_file(reference, path, {SIGNATURE: length}, quantization)
        if settings.examples is not None:
            verdicts[path.name]["scores"] = _scores(reference, path, length, settings.examples, best, rungs)
        if lengths:
            path = _path(folder, quantization, "_lengths")
            signatures = {f"length_{size}": size for size in lengths}
            verdicts[path.name] = check_tflite_file(reference, path, signatures, quantization)
    return {f"tflite/{name}": verdict for name, verdict in verdicts.items()}


def check_tflite_settings(reference: Reference, settings: ExportSettings) -> None:
    """Raises `InputError` if a model does not read a length, or has no task to be scored in."""
    for wanted in (settings.tflite_length, *settings.tflite_lengths):
        tflite_length(reference, wanted)
    if settings.examples is not None and reference.task is None:
        raise InputError(f"a {type(reference.model).__name__} has no task to be scored in: leave --eval out")


def tflite_length(reference: Reference, wanted: int | None) -> int:
    """Returns the length of a file's rows: as wanted, or the task's, 128 at most.

    Raises:
        InputError: the model does not read as much.
    """
    longest = reference.config.max_sequence_length
    if wanted is not None and not 3 <= wanted <= longest:
        raise InputError(f"the length of TFLite files is {wanted}; expected 3 to {longest}, what the model reads")
    return wanted or min(LENGTH, reference.text_length)


def verify_tflite_file(reference: Reference, path: pathlib.Path) -> dict:
    """Returns the verdict on a file that says by itself which signatures and which kind of weights it has.

    Raises:
        InputError: it is no TFLite file, or none of a model like the checkpoint's.
    """
    file = read_file(path.read_bytes(), str(path))
    lengths = {name: signature.inputs["input_ids"][1] for name, signature in signatures(file).items()}
    if not lengths:
        raise InputError(f"{path} has no signature; expected a file that export wrote: export it again")
    types = constant_types(file)
    quantization = "dynamic_int8" if "INT8" in types else "float16" if "FLOAT16" in types else "float32"
    return check_tflite_file(reference, path, lengths, quantization)


def check_tflite_file(reference: Reference, path: pathlib.Path, lengths: dict[str, int], quantization: str) -> dict:
    """Returns the verdict on a file; see `check_ids_artifact`."""
    relative = quantization != "float32"
    return check_ids_artifact(
        reference,
        "tflite",
        path,
        lengths=lengths,
        tolerance=RELATIVE_TOLERANCES.get(quantization, TOLERANCE),
        relative=relative,
        as_outputs=lambda outputs: _expected(reference.model, outputs),
        as_answers=lambda answer: _with_logits(reference.model, answer),
    )


def _expected(model, outputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns what a file should give where its model gives `outputs`, and the logits where they can be told."""
    if not isinstance(model, BertClassifier):
        return outputs
    logits = outputs["logits"]
    if model.problem == "regression":
        return {"scores": logits}
    if model.problem == "multi_label":
        return {"probabilities": 1 / (1 + np.exp(-logits))}
    return {"probabilities": softmax(logits), "logits": logits - logits.mean()}


def _with_logits(model, answer: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    if isinstance(model, BertClassifier) and model.problem == "single_label" and "probabilities" in answer:
        return {**answer, **logits_of(model, answer)}
    return answer


def _path(folder: pathlib.Path, quantization: str, suffix: str = "") -> pathlib.Path:
    return folder / f"model_{quantization}{suffix}.tflite"


def _write(reference: Reference, folder: pathlib.Path, length: int, quantization: str, name: str) -> pathlib.Path:
    """Writes a file of one length, for MediaPipe if that can run its model."""
    path = _path(folder, quantization)
    write_tflite(reference.model, path, length=length, quantization=quantization)
    if for_mediapipe(reference):
        labels = reference.task.labels if isinstance(reference.model, BertClassifier) else None
        description = f"{reference.task.name}, texts of up to {length} pieces, {quantization}"
        add_metadata(path, reference.tokenizer, name=name, description=description, labels=labels)
    return path


def for_mediapipe(reference: Reference) -> bool:
    """Whether MediaPipe runs such a model: classes of single texts, or vectors, with [PAD] in the first place."""
    model, task = reference.model, reference.task
    is_classifier = isinstance(model, BertClassifier) and model.problem != "regression" and not task.of_pairs
    return (is_classifier or isinstance(model, BertEmbedder)) and reference.tokenizer.pad_id == 0


def _write_names(reference: Reference, folder: pathlib.Path) -> None:
    (folder / VOCABULARY_FILE).write_bytes(vocabulary_bytes(reference.tokenizer.vocabulary))
    if labels := getattr(reference.task, "labels", ()):
        (folder / LABELS_FILE).write_text("".join(f"{label}\n" for label in labels), encoding="utf-8")


def _scores(
    reference: Reference, path: pathlib.Path, length: int, examples: Sequence, best: float, rungs: list[Rung]
) -> dict:
    """Returns the points of the checkpoint, of the file, and of the file with the tokenizer of a phone."""
    scores = {
        "score": reference.task.main_score,
        "checkpoint": best,
        "file": rungs[-1].score if rungs else file_score(reference, path, length, examples),
    }
    if for_mediapipe(reference):
        scores["with_mediapipe_tokenizer"] = file_score(
            reference, path, length, examples, reference.tokenizer.for_mediapipe()
        )
    return {**scores, **({"tried": [dataclasses.asdict(rung) for rung in rungs]} if rungs else {})}
