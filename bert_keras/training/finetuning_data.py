"""`bk.finetune`: examples from files or memory in, a fine-tuned model out, and a folder if one is named."""

import dataclasses
import os
from collections.abc import Mapping, Sequence

import keras
import tensorflow as tf

from bert_keras.checkpoints import save
from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.huggingface.model_card import build_model_card
from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.errors import MissingExtraError
from bert_keras.extras import check_tensorflow_backend
from bert_keras.files import format_json
from bert_keras.metrics.confusion_figure import render_confusion_matrix
from bert_keras.pipelines.readers.option_spelling import spell_argument
from bert_keras.publishing import check_writable_folder, write_or_keep
from bert_keras.tasks.examples.file_options import FileOptions
from bert_keras.tasks.examples.held_out import check_dev_share
from bert_keras.tasks.examples.option_checks import DEV_SHARE, check_keyword_arguments, check_options_of_task
from bert_keras.tasks.examples.training_data import (
    TASK_SETTINGS,
    TrainingData,
    check_task_name,
    read_training_data_for_checkpoint,
)
from bert_keras.training.config.finetuning_settings import FineTuning
from bert_keras.training.finetuning import FineTuned, run_finetuning


def finetune(
    checkpoint: str | os.PathLike | Checkpoint,
    out: str | os.PathLike | None = None,
    *,
    train: object,
    dev: object | None = None,
    task: str = "classify",
    dev_share: float = DEV_SHARE,
    on_error: str = "stop",
    overwrite: bool = False,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    strategy: tf.distribute.Strategy | None = None,
    **settings,
) -> FineTuned:
    """Fine-tune a checkpoint on labelled examples, as `bert-keras finetune` does.

    Args:
        checkpoint: any folder that `load` reads, with a vocabulary.
        out: the folder to write the model to, with its scores and its card; None: nothing is written.
        train: the examples to learn from: a path; or a list of dicts such as `{"text": ..., "label": ...}`, a list of
            (text, label) pairs, or a data frame.
        dev: held-out examples, likewise; None: a share of `train` is held out.
        task: "classify", "tag", "answer" or "embed".
        dev_share: how much of `train` is held out where there is no `dev`; each class in proportion, by `seed`.
        on_error: at bad examples "stop", with the number of them and the first ones, or "skip" them.
        overwrite: replace `out`, if `finetune` wrote it.
        callbacks: handed to `model.fit`.
        strategy: any of `tf.distribute`; None: one device.
        **settings: fields of `FineTuning` (`num_epochs`, `learning_rate`, `batch_size`, `seed`, ...), of `FileOptions`
            (`text_column`, `label_column`, `delimiter`, ...) and of the task (`problem`, `max_sequence_length`, ...).

    Returns:
        The model with the weights of its best epoch, `scores`, `epochs`, and `data`: the examples, how they were held
        out, how many were skipped, and warnings about them.

    Raises:
        InputError: data, settings or folders cannot be used. If `out` cannot be written after the training, the model
            is written next to it or to the system's temporary folder, and the message says where.

    Example:
        >>> reviews = [{"text": "a fine film", "label": "good"}, {"text": "a waste of time", "label": "bad"}] * 10
        >>> # tuned = bk.finetune("checkpoint", "out", train=reviews, num_epochs=4)
        >>> # tuned.scores["accuracy"], len(tuned.data.dev)
    """
    check_tensorflow_backend("bk.finetune")
    how, options, given = _divided(settings, task)
    check_dev_share(dev_share)
    paths = [path for path in (checkpoint, train, dev) if isinstance(path, str | os.PathLike)]
    if out is not None:
        check_writable_folder(out, "finetune", overwrite=overwrite, inputs=paths)
    checkpoint = read_checkpoint(checkpoint)
    data = read_training_data_for_checkpoint(
        checkpoint,
        task,
        train,
        dev,
        options,
        dev_share=dev_share,
        seed=how.seed,
        on_error=on_error,
        spell=spell_argument,
        **given,
    )
    tuned = run_finetuning(data.task, checkpoint, data.train, data.dev, how, callbacks=callbacks, strategy=strategy)
    tuned = dataclasses.replace(tuned, data=data)
    if out is not None:
        parts = folder_parts(tuned, _shown(how, data), pictures=pictures(tuned))
        write_or_keep(
            out,
            lambda folder: save(tuned.model, tuned.tokenizer, folder, overwrite=overwrite, **parts),
            if_lost=lambda: "no other folder takes the trained model, which is lost: make room before you train again",
        )
    return tuned


def folder_parts(tuned: FineTuned, shown: Mapping[str, object], *, pictures: Mapping[str, bytes]) -> dict[str, object]:
    """Return what `save` takes beside the model of a fine-tuning.

    Args:
        tuned: what the fine-tuning gave, with its data.
        shown: what the model card says of the training.
        pictures: files to lay beside.
    """
    metrics = {"metrics.json": format_json(collect_metrics(tuned), indent=2) + "\n", "training_log.jsonl": tuned.log}
    return {
        "notes": {**metrics, **pictures},
        "card": build_model_card(tuned.model, tuned.tokenizer, history=_history(tuned, shown)),
        "task": tuned.task.settings(),
        "written_by": "finetune",
    }


def pictures(tuned: FineTuned) -> dict[str, bytes]:
    """Return `confusion_matrix.png`, where the task has one and matplotlib is installed."""
    if not tuned.task.has_confusion_matrix:
        return {}
    try:
        matrix = tuned.task.compute_confusion_matrix(tuned.answers, tuned.data.dev)
        return {"confusion_matrix.png": render_confusion_matrix(matrix, tuned.task.labels)}
    except MissingExtraError:
        return {}


def collect_metrics(tuned: FineTuned) -> dict[str, object]:
    """Return the scores of all epochs, what was held out and how many examples were skipped, in plain values."""
    data = tuned.data
    held_out = {} if data.held_out is None else {"held_out": {**data.held_out.settings(), "examples": len(data.dev)}}
    return {
        **tuned.scores,
        "epoch": tuned.best + 1,
        "epochs": list(tuned.epochs),
        **held_out,
        "skipped": data.bad.num_bad,
    }


def describe_epoch(tuned: FineTuned) -> str:
    """Return which epoch was kept, in words."""
    return f"epoch {tuned.best + 1} of {len(tuned.epochs)}"


def _divided(settings: Mapping[str, object], task: str) -> tuple[FineTuning, FileOptions, dict[str, object]]:
    """Return how to train, how to read, and the settings of the task.

    Raises:
        InputError: a setting is unknown, is for another task, or out of range.
    """
    names = {kind: [field.name for field in dataclasses.fields(kind)] for kind in (FineTuning, FileOptions)}
    check_keyword_arguments(settings, (*names[FineTuning], *names[FileOptions], *TASK_SETTINGS, "prompt"), "finetune")
    check_task_name(task)
    check_options_of_task(settings, task, problem=settings.get("problem"))
    how, options = (
        kind(**{name: value for name, value in settings.items() if name in names[kind]})
        for kind in (FineTuning, FileOptions)
    )
    return how, options, {name: value for name, value in settings.items() if name in (*TASK_SETTINGS, "prompt")}


def _shown(how: FineTuning, data: TrainingData) -> dict[str, object]:
    held_out = "" if data.held_out is None else f", {data.held_out.describe()}"
    return {
        "task": data.task.name,
        "train": f"{len(data.train):,} examples",
        "dev": f"{len(data.dev):,} examples{held_out}",
        "epochs": how.num_epochs,
        "batch size": how.batch_size,
        "learning rate": f"{how.learning_rate:g}",
        "seed": how.seed,
    }


def _history(tuned: FineTuned, shown: Mapping[str, object]) -> str:
    """Return what the model card says of the training: data and settings, then scores."""
    lines = ["## How it was fine-tuned", ""]
    lines += [f"- {name}: {value}" for name, value in shown.items() if name != "labels"]
    lines += ["", f"## Scores on the held-out examples ({describe_epoch(tuned)})", ""]
    lines += [f"- {name}: {value:.4g}" for name, value in tuned.scores.items()]
    return "\n".join([*lines, "", "## How to load it"])
