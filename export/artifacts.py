"""`bk.export_model`: write the artifacts of a checkpoint, and publish them if all pass the parity check."""

import contextlib
import dataclasses
import functools
import logging
import os
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence

from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.huggingface.weights_file import hash_weights
from bert_keras.checkpoints.kept_tokens import choose_tokens, trim_checkpoint
from bert_keras.checkpoints.loading import load, load_tokenizer
from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.checkpoints.task_loading import restore_task
from bert_keras.checks import format_names, quote
from bert_keras.errors import InputError, ParityError
from bert_keras.export.export_job import BackgroundChecks, ExportJob, Stages
from bert_keras.export.onnx import onnx_artifact
from bert_keras.export.parity.comparison import describe_differences
from bert_keras.export.parity.reference import Reference
from bert_keras.export.saved_model import saved_model_artifact
from bert_keras.export.settings import ExportSettings
from bert_keras.export.targets import PARITY, add_to_parity_report, check_export_target
from bert_keras.export.tflite import tflite_artifact
from bert_keras.export.vocabulary_trimming import build_trimming_report, check_equal_outputs
from bert_keras.extras import check_tensorflow_backend
from bert_keras.heads.known_heads import HEADS, get_head, list_model_names
from bert_keras.pipelines.corpus.text_sources import TextSource, find_sources, read_lines
from bert_keras.staging import lock_folder

logger = logging.getLogger(__name__)

# format: the function that writes it, and the number of stages after the first one: of artifacts that are checked, and
# of the search for an 8-bit ONNX file
_WRITERS = {
    "saved_model": (saved_model_artifact.export_saved_model, lambda settings: 1),
    "tflite": (
        tflite_artifact.export_tflite,
        lambda settings: len(set(settings.quantizations)) * (2 if settings.tflite_lengths else 1),
    ),
    "onnx": (onnx_artifact.export_onnx, lambda settings: 2 + settings.is_automatic),
}

_POOLING_OUTPUTS = {"saved_model": "the signature ids", "onnx": "the output sentence_embedding", "tflite": "the file"}


def export_model(
    checkpoint: str | os.PathLike,
    out: str | os.PathLike,
    formats: Sequence[str] = ("saved_model",),
    *,
    overwrite: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
    **settings: object,
) -> dict:
    """Export a checkpoint as SavedModel, TFLite or ONNX, as `bert-keras export` does.

    Each artifact is reloaded in a fresh process and compared with the checkpoint; `parity.json` records the results.
    Artifacts are written to temporary names and renamed at the end, so that `out` is unchanged if one of them fails.

    Args:
        checkpoint: any folder that `load` accepts, with a vocabulary.
        out: the folder to write to: `saved_model/VERSION/` and `serving/`, `tflite/`, `onnx/` and `deploy/`, and
            `parity.json`.
            Each SavedModel gets the next version number, because TensorFlow Serving loads the highest one.
        formats: any of "saved_model", "tflite" and "onnx".
        overwrite: whether to replace `tflite/`, `onnx/` and `deploy/` in `out`.
        progress: called as `progress(num_done, num_stages, name)` at the start of each stage.
        **settings: fields of `ExportSettings` (`pairs`, `quantizations`, `tflite_length`, `trim_vocabulary`, ...).

    Returns:
        The parity report of these artifacts: `checkpoint`, and `artifacts`, a dict from the path of each artifact in
        `out` to its result.

    Raises:
        InputError: a format or setting is invalid, the checkpoint cannot be read, or `out` cannot be written.
        ParityError: an artifact, or the model with a trimmed vocabulary, differs from the checkpoint. Nothing is
            published.

    Example:
        >>> report = bk.export_model("demo/classifier", "my/artifacts", formats=["saved_model"])
        >>> report["artifacts"]["saved_model/1"]["passed"]
        True
    """
    check_tensorflow_backend("bk.export_model")
    settings = ExportSettings(**settings)
    settings.check_formats(formats)
    settings = _name_model(settings, checkpoint)
    out = pathlib.Path(out)
    sources = None if settings.trim_vocabulary is None else find_sources(settings.trim_vocabulary)
    inputs = [str(checkpoint), *(source.path for source in sources or () if source.path)]
    check_export_target(out, formats, overwrite=overwrite, inputs=inputs)
    writers = [_WRITERS[name] for name in dict.fromkeys(formats)]
    stages = Stages(progress, 1 + bool(sources) + sum(1 + count_stages(settings) for _, count_stages in writers))
    stages.begin("loading the checkpoint")
    checkpoint = read_checkpoint(checkpoint)  # so that its files are read and hashed once
    reference = load_reference(checkpoint, pairs=settings.pairs)
    for name in ("examples", "calibration"):
        if callable(make_examples := getattr(settings, name)):
            settings = dataclasses.replace(settings, **{name: make_examples(reference.task)})
    check_can_be_scored(reference, settings)
    if "tflite" in formats:
        settings.check_lengths(reference.config.max_sequence_length)
    whole, trimming_report = None, None
    if sources is not None:
        stages.begin("trimming the vocabulary")
        trimmed, trimming_report = _trim_vocabulary(reference, checkpoint, sources, settings)
        whole, reference = (reference if settings.examples is not None else None), trimmed
    checks = BackgroundChecks(stages, functools.partial(_check_passed, checkpoint))
    with _without_empty_folders(out), lock_folder(out):
        with contextlib.ExitStack() as publishing, contextlib.closing(checks):
            job = ExportJob(reference, out, settings, stages, checks, publishing, overwrite, whole=whole)
            for write, _ in writers:
                write(job)
            checks.finish()
            weights = hash_weights(checkpoint.source)
            for name, report in checks.reports.items():
                report["weights_sha256"] = weights  # None: they are not safetensors
                if not_carried_over := list_not_carried_over(reference, name):
                    report["not_carried_over"] = not_carried_over
                if trimming_report is not None:
                    report["trimmed_vocabulary"] = trimming_report
            for complete in job.completions:
                complete(checks.reports)
        add_to_parity_report(out / PARITY, str(checkpoint), checks.reports)
    stages.begin("published")
    logger.info("wrote %s", out)
    return {"checkpoint": str(checkpoint), "artifacts": checks.reports}


def check_can_be_scored(reference: Reference, settings: ExportSettings) -> None:
    """Raise `InputError` if there are labelled examples and the model has no task to be scored in."""
    if settings.examples is not None and reference.task is None:
        raise InputError(
            f"a {type(reference.model).__name__} has no task to be scored in: leave the labelled examples (--eval) out"
        )


def load_reference(
    checkpoint: str | os.PathLike | Checkpoint, *, pairs: bool | None = None, vocabulary: Sequence[str] | None = None
) -> Reference:
    """Load the checkpoint that artifacts are made from or compared with.

    Args:
        checkpoint: any folder that `load` accepts.
        pairs: whether a classifier's texts are pairs; None: as it was trained.
        vocabulary: the tokens of its vocabulary to keep; None: all.

    Raises:
        InputError: the checkpoint cannot be read, has no vocabulary, or does not accept pairs.
    """
    checkpoint = read_checkpoint(checkpoint)  # so that its files are read and hashed once
    if vocabulary is not None:
        checkpoint = trim_checkpoint(checkpoint, vocabulary)
    model, tokenizer = load(checkpoint), load_tokenizer(checkpoint)
    if tokenizer is None:
        raise InputError(f"{checkpoint} has no vocabulary; an artifact contains its tokenizer: put vocab.txt there")
    head = get_head(type(model).__name__)
    task = restore_task(checkpoint, model, tokenizer) if head.is_finetuned else None
    if pairs is not None and head.takes_pairs:
        task = dataclasses.replace(task, has_pairs=pairs)
    elif pairs:
        names = list_model_names([head for head in HEADS if head.takes_pairs])
        raise InputError(f"{checkpoint} is a {head.model_name}; only a {names} accepts pairs of texts: leave pairs out")
    return Reference(model, tokenizer, task)


def _trim_vocabulary(
    whole: Reference, checkpoint: Checkpoint, sources: Sequence[TextSource], settings: ExportSettings
) -> tuple[Reference, dict]:
    """Load the checkpoint with the tokens that texts need, check it, and return it with its report."""
    kept = choose_tokens(whole.tokenizer, whole.task, read_lines(sources), sources)
    trimmed = load_reference(checkpoint, pairs=settings.pairs, vocabulary=kept.vocabulary)
    check_equal_outputs(whole, trimmed, kept.first_texts)
    return trimmed, build_trimming_report(whole, trimmed, kept.num_texts, settings.examples)


def _check_passed(checkpoint: str | os.PathLike, artifact: str, report: dict) -> None:
    if not report["passed"]:
        differences = describe_differences(report)
        raise ParityError(f"{artifact} differs from {checkpoint}, and nothing was published: {differences}")


def _name_model(settings: ExportSettings, checkpoint: str | os.PathLike) -> ExportSettings:
    """Return settings with a model name: the name of the checkpoint's folder by default."""
    if settings.model_name is not None:
        return settings
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", pathlib.Path(str(checkpoint)).resolve().name).strip("-_")
    return dataclasses.replace(settings, model_name=name or "bert")


@contextlib.contextmanager
def _without_empty_folders(out: pathlib.Path) -> Iterator[None]:
    """Remove the empty folders that the block created, for example because it failed."""
    before = {out, *out.glob("*")} if out.exists() else set()
    try:
        yield
    finally:
        created = {out, *out.glob("*")} - before
        for folder in sorted((path for path in created if path.is_dir()), reverse=True):  # subfolders first
            with contextlib.suppress(OSError):  # not empty
                folder.rmdir()


def list_not_carried_over(reference: Reference, artifact: str) -> list[str]:
    """Return a sentence for each part of the checkpoint's prompts that an artifact does not contain.

    Args:
        reference: the checkpoint.
        artifact: its path in the output folder, for example "tflite/model_float32.tflite".
    """
    task, kind = reference.task, artifact.split("/")[0]
    prompts = [] if task is None else [name for name, text in task.prompts.items() if text]
    if not prompts and (task is None or not task.prompt_text):
        return []
    others, sentences = [name for name in prompts if task.prompts[name] != task.prompt_text], []
    if kind == "tflite":
        fix = "the file accepts ids, so add the prompt to each text yourself"
        sentences.append(f"the prompts {format_names(prompts)}: {fix}")
    elif kind == "saved_model" and others:  # an ONNX folder lists them for sentence-transformers
        fix = "serving_default puts no prompt before a text, so add it yourself"
        if task.prompt_text:
            fix = f"serving_default puts {quote(task.prompt_text)} before each text; use ids for other prompts"
        sentences.append(f"the prompts {format_names(others)}: {fix}")
    if not task.include_prompt:
        output = _POOLING_OUTPUTS[kind]
        sentences.append(f"include_prompt: {output} pools the tokens of a prompt like those of the text")
    return sentences
