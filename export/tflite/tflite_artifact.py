"""Export TFLite files: one per quantization, or the smallest one that scores well enough, and start their checks."""

import contextlib
import dataclasses
import functools
import pathlib
from collections.abc import Callable

from bert_keras.errors import InputError
from bert_keras.export.client_bundle.bundle_files import make_probes, write_tflite_bundle
from bert_keras.export.client_bundle.client_description import ModelFile
from bert_keras.export.export_job import ExportJob
from bert_keras.export.parity.parity_check import TOLERANCE, ParityCheck, start_check
from bert_keras.export.parity.probe_inputs import DEFAULT_PROBES, ProbeSet
from bert_keras.export.parity.reference import Reference
from bert_keras.export.quantization_search import score_file, search_quantization
from bert_keras.export.targets import WRITTEN_BY
from bert_keras.export.tflite.mediapipe_metadata import LABELS_FILE, OUTPUTS, VOCABULARY_FILE, add_metadata
from bert_keras.export.tflite.output_conversion import get_output_conversion
from bert_keras.export.tflite.tflite_file import list_constant_types, parse_tflite, read_signatures
from bert_keras.export.tflite.to_tflite import (
    SIGNATURE,
    trace_tflite_source,
    write_tflite_from_source,
)
from bert_keras.pipelines.text.vocabulary import encode_vocabulary
from bert_keras.publishing import publish_folder

DEFAULT_LENGTH = 128
# The mean difference of an output, in standard deviations, on random ids
RELATIVE_TOLERANCES = {"float16": 0.005, "dynamic_int8": 0.15, "dynamic_int4": 0.6}  # MiniLM: 0.0008, 0.059 and 0.34


def export_tflite(job: ExportJob) -> None:
    """Write `tflite/`: a file per quantization, optionally another one with several lengths, and the vocabulary.

    When all artifacts have passed their checks, the files for app teams are added; see `write_tflite_bundle`.

    Raises:
        InputError: the folder exists and may not be replaced, or a setting does not fit the model.
        ParityError: a file lacks weights or needs operators that are not builtin.
    """
    settings, reference = job.settings, job.reference
    folder = job.publishing.enter_context(publish_folder(job.out / "tflite", WRITTEN_BY, overwrite=job.overwrite))
    length = choose_length(reference, settings.tflite_length)
    job.stages.begin("writing TFLite files")
    (folder / VOCABULARY_FILE).write_bytes(encode_vocabulary(reference.tokenizer.vocabulary))
    if labels := getattr(reference.task, "labels", ()):
        (folder / LABELS_FILE).write_text("".join(f"{label}\n" for label in labels), encoding="utf-8")
    in_mediapipe = runs_in_mediapipe(reference)
    task = reference.task and reference.task.with_length(min(length, reference.task.max_sequence_length))
    probes = make_probes(reference, task, length)
    files = []
    with contextlib.ExitStack() as sources:
        source = sources.enter_context(trace_tflite_source(reference.model, {SIGNATURE: length}))

        def write(quantization: str) -> pathlib.Path:
            """Write a file with one signature, and metadata for MediaPipe if it can run the model."""
            path = _build_path(folder, quantization)
            write_tflite_from_source(source, path, quantization)
            if in_mediapipe:
                description = f"{reference.task.name}, texts of up to {length} tokens, {quantization}"
                labels, name = getattr(reference.task, "labels", None), settings.model_name
                add_metadata(path, reference.tokenizer, name=name, description=description, labels=labels)
            return path

        quantizations, scores = _choose_quantizations(job, write, folder, length)
        for quantization in quantizations:
            path = _build_path(folder, quantization) if settings.is_automatic else write(quantization)
            complete = functools.partial(_add_scores, job, path, length, scores)
            files.append(_begin_check(job, path, {SIGNATURE: length}, quantization, complete))
        if settings.tflite_lengths:
            lengths = {f"length_{length}": length for length in settings.tflite_lengths}
            with_lengths = sources.enter_context(trace_tflite_source(reference.model, lengths))
            for quantization in quantizations:
                path = _build_path(folder, quantization, "_lengths")
                write_tflite_from_source(with_lengths, path, quantization)
                files.append(_begin_check(job, path, lengths, quantization))
    job.completions.append(
        lambda reports: write_tflite_bundle(
            job, folder, files, task=task, probes=probes, reports=reports, in_mediapipe=in_mediapipe
        )
    )


def choose_length(reference: Reference, length: int | None) -> int:
    """Return the length of a file's sequences: `length`, or by default the task's maximum, at most 128."""
    return length or min(DEFAULT_LENGTH, reference.text_length)


def start_tflite_file_check(reference: Reference, path: pathlib.Path, probes: ProbeSet = DEFAULT_PROBES) -> ParityCheck:
    """Start the parity check of a file; its signatures and its quantization are read from the file.

    Raises:
        InputError: the file is not a TFLite file, or has no signature.
    """
    file = parse_tflite(path.read_bytes(), str(path))
    lengths = {name: signature.inputs["input_ids"][1] for name, signature in read_signatures(file).items()}
    if not lengths:
        raise InputError(f"{path} has no signature: choose a file that export wrote")
    types = list_constant_types(file)
    names = {"INT4": "dynamic_int4", "INT8": "dynamic_int8", "FLOAT16": "float16"}  # a file with INT4 has INT8 too
    quantization = next((name for kind, name in names.items() if kind in types), "float32")
    return start_tflite_check(reference, path, lengths, quantization, probes)


def start_tflite_check(
    reference: Reference,
    path: pathlib.Path,
    lengths: dict[str, int],
    quantization: str,
    probes: ProbeSet = DEFAULT_PROBES,
) -> ParityCheck:
    """Start the parity check of a file; see `start_check`."""
    conversion = get_output_conversion(reference.model)
    return start_check(
        reference,
        "tflite",
        path,
        probes,
        lengths=lengths,
        tolerance=RELATIVE_TOLERANCES.get(quantization, TOLERANCE),
        relative=quantization != "float32",
        select_outputs=lambda outputs: conversion.expect(reference.drop_hidden_states(outputs)),
        convert_answers=conversion.complete,
    )


def runs_in_mediapipe(reference: Reference) -> bool:
    """Return whether MediaPipe can run the model: a classifier of single texts or an embedder, where [PAD] has id 0."""
    outputs, task = get_output_conversion(reference.model).names, reference.task
    has_output = len(outputs) == 1 and outputs[0] in OUTPUTS
    return has_output and task is not None and len(task.input_names) == 1 and reference.tokenizer.pad_id == 0


def _choose_quantizations(
    job: ExportJob, write: Callable[[str], pathlib.Path], folder: pathlib.Path, length: int
) -> tuple[list[str], dict | None]:
    """Return the quantizations to export, and the scores to report if there are labelled examples.

    For the quantization "auto" the file of the result has been written, and those of other candidates deleted.
    """
    settings, reference = job.settings, job.reference
    quantizations = list(dict.fromkeys(settings.quantizations))
    if settings.examples is None:
        return quantizations, None
    scores = {"score": reference.task.main_score, "checkpoint": job.checkpoint_score}
    if not settings.is_automatic:
        return quantizations, scores
    candidates = search_quantization(
        write,
        lambda path: score_file(reference, path, length, settings.examples),
        scores["checkpoint"],
        settings.points_tolerance,
    )
    for candidate in candidates[:-1]:
        _build_path(folder, candidate.quantization).unlink()
    best = candidates[-1]
    scores |= {"file": best.score, "tried": [dataclasses.asdict(candidate) for candidate in candidates]}
    return [best.quantization], scores


def _begin_check(
    job: ExportJob,
    path: pathlib.Path,
    lengths: dict[str, int],
    quantization: str,
    complete_report: Callable[[dict], dict] = dict,
) -> ModelFile:
    """Start the parity check of a file, and return its description for programs."""
    start = functools.partial(start_tflite_check, job.reference, path, lengths, quantization, job.settings.probes)
    job.checks.begin(f"tflite/{path.name}", start, complete_report)
    return ModelFile(path.name, quantization, path.stat().st_size, lengths)


def _build_path(folder: pathlib.Path, quantization: str, suffix: str = "") -> pathlib.Path:
    return folder / f"model_{quantization}{suffix}.tflite"


def _add_scores(job: ExportJob, path: pathlib.Path, length: int, scores: dict | None, report: dict) -> dict:
    """Add the scores of the checkpoint, the file, and the file with a phone's tokenizer to a report."""
    if scores is None:
        return report
    reference, examples = job.reference, job.settings.examples
    if "file" not in scores:
        scores = {**scores, "file": score_file(reference, path, length, examples)}
    if runs_in_mediapipe(reference):
        phone = reference.tokenizer.for_mediapipe()
        scores = {**scores, "with_mediapipe_tokenizer": score_file(reference, path, length, examples, phone)}
    return {**report, "scores": scores}
