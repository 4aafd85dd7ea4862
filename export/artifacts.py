"""A checkpoint folder to a folder of artifacts, each proven equal before it is published."""

import contextlib
import dataclasses
import functools
import logging
import os
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence

from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.loading import load, load_tokenizer
from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.errors import InputError, ParityError
from bert_keras.export.exporting import Checks, Export, Stages, Verdicts
from bert_keras.export.not_carried_over import list_left_out
from bert_keras.export.onnx import onnx_artifact
from bert_keras.export.onnx.onnx_artifact import export_onnx
from bert_keras.export.parity.reference import Reference
from bert_keras.export.saved_model import saved_model_artifact
from bert_keras.export.saved_model.saved_model_artifact import export_saved_model
from bert_keras.export.settings import ExportSettings
from bert_keras.export.targets import PARITY, check_export_target, read_verdicts
from bert_keras.export.tflite import tflite_artifact
from bert_keras.export.tflite.tflite_artifact import check_tflite_settings, export_tflite
from bert_keras.extras import check_tensorflow_backend
from bert_keras.files import write_json
from bert_keras.publishing import publish_file
from bert_keras.staging import lock_folder
from bert_keras.tasks.task_loading import TASK_CLASSES, restore_task
from bert_keras.tasks.text_classification import TextClassification

logger = logging.getLogger(__name__)

# name of a format: what writes it, and how many artifacts of it are checked with what settings
_WRITERS = {
    "saved_model": (export_saved_model, lambda _: saved_model_artifact.NUM_CHECKS),
    "tflite": (export_tflite, tflite_artifact.num_checks),
    "onnx": (export_onnx, lambda _: onnx_artifact.NUM_CHECKS),
}
FORMATS = tuple(_WRITERS)


def export_model(
    checkpoint: str | os.PathLike,
    out: str | os.PathLike,
    formats: Sequence[str] = ("saved_model",),
    *,
    overwrite: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
    **settings,
) -> dict:
    """Export a checkpoint as SavedModel, TFLite or ONNX, as `bert-keras export` does.

    Each artifact is reloaded in a fresh process and compared with the checkpoint; `parity.json` records the results.
    Artifacts are written to temporary names and renamed at the end, so that `out` is unchanged if one of them fails.

    Args:
        checkpoint: any folder that `load` accepts, with a vocabulary.
        out: the folder to write to: `saved_model/VERSION/` and `serving/`, `tflite/`, `onnx/`, and `parity.json`.
            Each SavedModel gets the next version number, because TensorFlow Serving loads the highest one.
        formats: any of "saved_model", "tflite" and "onnx".
        overwrite: whether to replace `tflite/` and `onnx/` in `out`.
        progress: called as `progress(num_done, num_stages, name)` at the start of each stage.
        **settings: fields of `ExportSettings` (`pairs`, `quantizations`, `tflite_length`, `thorough`, ...).

    Returns:
        The parity report of these artifacts: `checkpoint`, and `artifacts`, a dict from the path of each artifact in
        `out` to its result.

    Raises:
        InputError: a format or setting is invalid, the checkpoint cannot be read, or `out` cannot be written.
        ParityError: an artifact differs from the checkpoint. Nothing is published.

    Example:
        >>> # report = bk.export_model("checkpoint", "artifacts", formats=["saved_model", "onnx"])
        >>> # report["artifacts"]["saved_model/1"]["passed"]
    """
    check_tensorflow_backend("bk.export_model")
    if unknown := sorted(set(formats) - set(FORMATS)):
        raise InputError(f"there is no format {', '.join(unknown)} in this version; expected {', '.join(FORMATS)}")
    out, settings = pathlib.Path(out), _settings(checkpoint, settings)
    check_export_target(out, formats, overwrite=overwrite, inputs=[str(checkpoint)])
    writers = [_WRITERS[name] for name in dict.fromkeys(formats)]
    stages = Stages(progress, 1 + sum(1 + num_checks(settings) for _, num_checks in writers))
    stages.begin("loading the checkpoint")
    reference = read_reference(checkpoint, pairs=settings.pairs)
    if callable(settings.examples):
        settings = dataclasses.replace(settings, examples=settings.examples(reference.task))
    if "tflite" in formats:
        check_tflite_settings(reference, settings)
    checks = Checks(stages, functools.partial(_check_passed, checkpoint))
    with _without_empty_folders(out), lock_folder(out):
        with contextlib.ExitStack() as published, contextlib.closing(checks):
            export = Export(reference, out, settings, stages, checks, published, overwrite)
            for write, _ in writers:
                write(export)
            checks.finish()
        for name, verdict in checks.verdicts.items():
            if left := list_left_out(reference, name):
                verdict["not_carried_over"] = left
        add_verdicts(out / PARITY, str(checkpoint), checks.verdicts)
    stages.begin("published")
    logger.info("wrote %s", out)
    return {"checkpoint": str(checkpoint), "artifacts": checks.verdicts}


def read_reference(checkpoint: str | os.PathLike | Checkpoint, *, pairs: bool | None = None) -> Reference:
    """Loads the checkpoint that artifacts are made of, or compared with.

    Raises:
        InputError: it cannot be read, has no vocabulary, or cannot take pairs.
    """
    checkpoint = read_checkpoint(checkpoint)  # so that its files are read and hashed once
    model, tokenizer = load(checkpoint), load_tokenizer(checkpoint)
    if tokenizer is None:
        raise InputError(f"{checkpoint} has no vocabulary; an artifact carries its tokenizer: put vocab.txt there")
    task = restore_task(checkpoint, model, tokenizer) if type(model).__name__ in TASK_CLASSES else None
    if pairs is not None and isinstance(task, TextClassification):
        task = dataclasses.replace(task, has_pairs=pairs)
    elif pairs:
        raise InputError(f"{checkpoint} holds a {type(model).__name__}; pairs of texts are for a BertClassifier")
    return Reference(model, tokenizer, task)


def worst(verdict: dict) -> str:
    """Returns in words what is wrong with an artifact."""
    wrong = [f"{name}: {problem}" for name, problem in verdict.get("missing", {}).items()]
    measure = verdict["measure"]
    bad = {name: seen[measure] for name, seen in verdict["outputs"].items() if seen[measure] > verdict["tolerance"]}
    limit = f"(tolerance {verdict['tolerance']:.0e})"
    wrong += [f"{name} by {bad[name]:.1e} {limit}" for name in sorted(bad, key=bad.get, reverse=True)]
    labels = verdict["labels"].items()
    wrong += [f"{seen['differ']} of {seen['compared']} {name}" for name, seen in labels if seen["differ"]]
    return ", ".join(wrong[:4]) + (f" and {len(wrong) - 4} more" if len(wrong) > 4 else "")


def add_verdicts(path: pathlib.Path, checkpoint: str, verdicts: Verdicts) -> None:
    """Adds verdicts to those that a folder of artifacts has."""
    known = read_verdicts(path) if path.is_file() else {}
    with publish_file(path) as staging:
        write_json(staging, {"checkpoint": checkpoint, "artifacts": {**known, **verdicts}})


def _check_passed(checkpoint: str | os.PathLike, artifact: str, verdict: dict) -> None:
    if not verdict["passed"]:
        raise ParityError(f"{artifact} differs from {checkpoint}, and nothing was published: {worst(verdict)}")


def _settings(checkpoint: str | os.PathLike, given: dict) -> ExportSettings:
    """Returns the settings; a model without a name is called like its folder."""
    settings = ExportSettings(**given)
    if settings.model_name is None:
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", pathlib.Path(str(checkpoint)).resolve().name).strip("-_")
        settings = dataclasses.replace(settings, model_name=name or "bert")
    return settings


@contextlib.contextmanager
def _without_empty_folders(out: pathlib.Path) -> Iterator[None]:
    """Leaves no folder without a file in it that was not there before, as where the work fails."""
    before = {out, *out.glob("*")} if out.exists() else set()
    try:
        yield
    finally:
        made = {out, *out.glob("*")} - before
        for folder in sorted((path for path in made if path.is_dir()), reverse=True):  # those inside first
            with contextlib.suppress(OSError):  # it has something in it
                folder.rmdir()
