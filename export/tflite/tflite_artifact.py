"""TFLite files as artifacts: compared in LiteRT, fit for MediaPipe where it can run them, the smallest that will do."""

import contextlib
import dataclasses
import functools
import pathlib
from collections.abc import Callable, Sequence

import numpy as np

from bert_keras.errors import InputError
from bert_keras.export.exporting import Export
from bert_keras.export.parity.parity_check import TOLERANCE, Check, start_ids_check, without_hidden
from bert_keras.export.parity.probe_inputs import DEFAULT, ProbeSet
from bert_keras.export.parity.reference import Reference
from bert_keras.export.quantization_search import checkpoint_score, climb, file_score
from bert_keras.export.settings import ExportSettings
from bert_keras.export.targets import WRITTEN_BY
from bert_keras.export.tflite.mediapipe_metadata import LABELS_FILE, VOCABULARY_FILE, add_metadata
from bert_keras.export.tflite.tflite_file import constant_types, read_file, signatures
from bert_keras.export.tflite.tflite_runner import logits_of
from bert_keras.export.tflite.to_tflite import SIGNATURE, TfliteSource, tflite_source, write_tflite_source
from bert_keras.modeling import BertClassifier, BertEmbedder
from bert_keras.pipelines.text.vocabulary import encode_vocabulary
from bert_keras.publishing import publish_folder
from bert_keras.tasks.base import softmax

LENGTH = 128
# The mean difference of an output in its standard deviations, on random ids
RELATIVE_TOLERANCES = {"float16": 0.005, "dynamic_int8": 0.15}  # MiniLM: 0.0008 and 0.059


def num_checks(settings: ExportSettings) -> int:
    """Returns how many files are checked."""
    return len(set(settings.quantizations)) * (2 if settings.tflite_lengths else 1)


def export_tflite(export: Export) -> None:
    """Writes `tflite/`: a file for each quantization, one of several lengths if asked for, `vocab.txt`, `labels.txt`.

    Raises:
        InputError: there are files and they may not be replaced, or a setting does not fit the model.
        ParityError: a file lacks weights or needs foreign operators.
    """
    settings, reference = export.settings, export.reference
    folder = export.published.enter_context(
        publish_folder(export.out / "tflite", WRITTEN_BY, overwrite=export.overwrite)
    )
    length = tflite_length(reference, settings.tflite_length)
    export.stages.begin("writing TFLite files")
    _write_names(reference, folder)
    with contextlib.ExitStack() as graphs:
        source = graphs.enter_context(tflite_source(reference.model, {SIGNATURE: length}))
        write = functools.partial(_write, reference, source, folder, length, name=settings.model_name)
        quantizations, scores = _chosen(export, write, folder, length)
        for quantization in quantizations:
            path = _path(folder, quantization) if settings.is_automatic else write(quantization)
            complete = functools.partial(_with_scores, reference, path, length, settings.examples, scores)
            _begin_check(export, path, {SIGNATURE: length}, quantization, complete)
        if settings.tflite_lengths:
            sizes = {f"length_{size}": size for size in settings.tflite_lengths}
            source = graphs.enter_context(tflite_source(reference.model, sizes))
        for quantization in quantizations if settings.tflite_lengths else ():
            path = _path(folder, quantization, "_lengths")
            write_tflite_source(source, path, quantization)
            _begin_check(export, path, sizes, quantization)


def _chosen(export: Export, write: Callable[[str], pathlib.Path], folder: pathlib.Path, length: int):
    """Returns which quantizations to keep, and the scores that are told of their files, by name.

    Where the smallest file that will do is asked for, it is there then.
    """
    settings, reference = export.settings, export.reference
    if settings.examples is None:
        return list(dict.fromkeys(settings.quantizations)), None
    scores = {"score": reference.task.main_score, "checkpoint": checkpoint_score(reference, settings.examples)}
    if not settings.is_automatic:
        return list(dict.fromkeys(settings.quantizations)), scores
    rungs = climb(
        write,
        lambda path: file_score(reference, path, length, settings.examples),
        scores["checkpoint"],
        settings.tolerance,
    )
    for rung in rungs[:-1]:
        _path(folder, rung.quantization).unlink()
    tried = {"file": rungs[-1].score, "tried": [dataclasses.asdict(rung) for rung in rungs]}
    return [rungs[-1].quantization], {**scores, **tried}


def _begin_check(export: Export, path: pathlib.Path, lengths: dict[str, int], quantization: str, then=dict) -> None:
    start = functools.partial(start_tflite_check, export.reference, path, lengths, quantization, export.settings.probes)
    export.checks.begin(f"tflite/{path.name}", start, then)


def check_tflite_settings(reference: Reference, settings: ExportSettings) -> None:
    """Raises `InputError` if a model does not read a length, or has no task to be scored in."""
    settings.check_lengths(reference.config.max_sequence_length)
    if settings.examples is not None and reference.task is None:
        raise InputError(f"a {type(reference.model).__name__} has no task to be scored in: leave --eval out")


def tflite_length(reference: Reference, wanted: int | None) -> int:
    """Returns the length of a file's rows: as wanted, or the task's, 128 at most."""
    return wanted or min(LENGTH, reference.text_length)


def start_tflite_file_check(reference: Reference, path: pathlib.Path, probes: ProbeSet = DEFAULT) -> Check:
    """Starts the check of a file that says by itself which signatures and which kind of weights it has.

    Raises:
        InputError: it is no TFLite file, or none of a model like the checkpoint's.
    """
    file = read_file(path.read_bytes(), str(path))
    lengths = {name: signature.inputs["input_ids"][1] for name, signature in signatures(file).items()}
    if not lengths:
        raise InputError(f"{path} has no signature; expected a file that export wrote: export it again")
    types = constant_types(file)
    quantization = "dynamic_int8" if "INT8" in types else "float16" if "FLOAT16" in types else "float32"
    return start_tflite_check(reference, path, lengths, quantization, probes)


def start_tflite_check(
    reference: Reference, path: pathlib.Path, lengths: dict[str, int], quantization: str, probes: ProbeSet = DEFAULT
) -> Check:
    """Starts the check of a file; see `start_ids_check`."""
    return start_ids_check(
        reference,
        "tflite",
        path,
        probes,
        lengths=lengths,
        tolerance=RELATIVE_TOLERANCES.get(quantization, TOLERANCE),
        relative=quantization != "float32",
        as_outputs=lambda outputs: _expected(reference.model, outputs),
        as_answers=lambda answer: _with_logits(reference.model, answer),
    )


def _expected(model, outputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns what a file should give where its model gives `outputs`, and the logits where they can be told."""
    if not isinstance(model, BertClassifier):
        return without_hidden(model)(outputs)
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


def _write(
    reference: Reference, source: TfliteSource, folder: pathlib.Path, length: int, quantization: str, *, name: str
) -> pathlib.Path:
    """Writes a file of one length, for MediaPipe if that can run its model."""
    path = _path(folder, quantization)
    write_tflite_source(source, path, quantization)
    if for_mediapipe(reference):
        labels = reference.task.labels if isinstance(reference.model, BertClassifier) else None
        description = f"{reference.task.name}, texts of up to {length} tokens, {quantization}"
        add_metadata(path, reference.tokenizer, name=name, description=description, labels=labels)
    return path


def for_mediapipe(reference: Reference) -> bool:
    """Whether MediaPipe runs such a model: classes of single texts, or vectors, with [PAD] in the first place."""
    model, task = reference.model, reference.task
    is_classifier = isinstance(model, BertClassifier) and model.problem != "regression" and not task.has_pairs
    return (is_classifier or isinstance(model, BertEmbedder)) and reference.tokenizer.pad_id == 0


def _write_names(reference: Reference, folder: pathlib.Path) -> None:
    (folder / VOCABULARY_FILE).write_bytes(encode_vocabulary(reference.tokenizer.vocabulary))
    if labels := getattr(reference.task, "labels", ()):
        (folder / LABELS_FILE).write_text("".join(f"{label}\n" for label in labels), encoding="utf-8")


def _with_scores(
    reference: Reference, path: pathlib.Path, length: int, examples: Sequence | None, scores: dict | None, verdict: dict
) -> dict:
    """Returns a verdict with the points of the checkpoint, of the file, and of the file with a phone's tokenizer."""
    if scores is None:
        return verdict
    if "file" not in scores:
        scores = {**scores, "file": file_score(reference, path, length, examples)}
    if for_mediapipe(reference):
        phone = reference.tokenizer.for_mediapipe()
        scores = {**scores, "with_mediapipe_tokenizer": file_score(reference, path, length, examples, phone)}
    return {**verdict, "scores": scores}
