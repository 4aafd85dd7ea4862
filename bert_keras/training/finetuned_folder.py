"""What `bk.finetune` writes next to the weights in its output folder: settings, scores, log, picture and model card."""

import os
from collections.abc import Mapping, Sequence

from bert_keras.checkpoints import save
from bert_keras.checkpoints.adapters.adapter_files import ADAPTER_FOLDER, build_adapter_files
from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.huggingface.model_card import MeasuredScores, build_model_card
from bert_keras.errors import MissingExtraError
from bert_keras.files import format_json
from bert_keras.metrics.confusion_figure import render_confusion_matrix
from bert_keras.tasks.examples.training_data import TrainingData
from bert_keras.training.config.finetuning_settings import FineTuning
from bert_keras.training.config.settings_files import FINETUNING_FILE, FINETUNING_KEYS, resolve_settings, to_toml
from bert_keras.training.finetuning import FineTuned
from bert_keras.training.search.searched_finetuning import describe_winner, write_csv


def save_finetuned(
    tuned: FineTuned,
    folder: str | os.PathLike,
    *,
    start: Checkpoint,
    card_facts: Mapping[str, object] | None,
    overwrite: bool,
) -> None:
    """Write a fine-tuned model, which was made from the checkpoint `start`, as a checkpoint folder; see `finetune`."""
    facts = list_card_facts(tuned.settings, tuned.data) if card_facts is None else dict(card_facts)
    notes: dict[str, str | bytes] = {}
    if tuned.trials:
        facts |= describe_winner(tuned.trials, tuned.settings, tuned.task.main_score)
        notes["search.csv"] = write_csv(tuned.trials, tuned.task.main_score)
    if tuned.adapter is not None:
        files = build_adapter_files(tuned.adapter, str(start))
        notes |= {f"{ADAPTER_FOLDER}/{name}": content for name, content in files.items()}
    write_trained(
        tuned,
        folder,
        start=start,
        facts=facts,
        title="How it was fine-tuned",
        settings_file=FINETUNING_FILE,
        keys=FINETUNING_KEYS,
        metrics=collect_metrics(tuned),
        notes=notes,
        overwrite=overwrite,
        written_by="finetune",
    )


def write_trained(
    tuned: FineTuned,
    folder: str | os.PathLike,
    *,
    start: Checkpoint,
    facts: Mapping[str, object],
    title: str,
    settings_file: str,
    keys: Sequence[str],
    metrics: Mapping[str, object],
    notes: Mapping[str, str | bytes] | None = None,
    remarks: Sequence[str] = (),
    is_measured: bool = True,
    overwrite: bool,
    written_by: str,
) -> None:
    """Write a trained model of a task as a checkpoint folder with a model card.

    Args:
        tuned: the model and how it was trained.
        folder: the folder.
        start: the checkpoint that it was made from.
        facts: how it was trained; `dev` describes the held-out examples.
        title: the title of `facts` in the model card.
        settings_file: name of the file of settings.
        keys: keys of the file of settings.
        metrics: contents of `metrics.json`.
        notes: contents of further files, keyed by name.
        remarks: paragraphs of the model card after the scores.
        is_measured: whether the scores compare with labels, so that the card's metadata lists them.
        overwrite: replace `folder` if `written_by` wrote it.
        written_by: the command.
    """
    notes = {
        settings_file: to_toml(resolve_settings(tuned.data.reading, tuned.data.task, tuned.settings, keys)),
        "metrics.json": format_json(metrics, indent=2) + "\n",
        "training_log.jsonl": tuned.log,
        **_draw_confusion_matrix(tuned),
        **(notes or {}),
    }
    history = [f"## {title}", "", *(f"- {name}: {value}" for name, value in facts.items() if name != "labels"), ""]
    history += [f"## Scores on the held-out examples ({describe_epoch(tuned)})", ""]
    history += [f"- {name}: {value:.4g}" for name, value in tuned.scores.items()]
    for remark in remarks:
        history += ["", remark]
    measured = None
    if is_measured:
        measured = MeasuredScores(tuned.scores, f"held-out examples: {facts.get('dev', len(tuned.data.dev))}")
    card = build_model_card(
        tuned.model,
        tuned.tokenizer,
        history="\n".join(history),
        measured=measured,
        start=start,
        has_pairs=getattr(tuned.task, "has_pairs", False),
    )
    save(
        tuned.model,
        tuned.tokenizer,
        folder,
        notes=notes,
        card=card,
        task=tuned.task.settings(),
        overwrite=overwrite,
        written_by=written_by,
    )


def _draw_confusion_matrix(tuned: FineTuned) -> dict[str, bytes]:
    """Return `confusion_matrix.png`, if the task has one and matplotlib is installed."""
    if not tuned.task.has_confusion_matrix:
        return {}
    try:
        matrix = tuned.task.compute_confusion_matrix(tuned.answers, tuned.data.dev)
        return {"confusion_matrix.png": render_confusion_matrix(matrix, tuned.task.labels)}
    except MissingExtraError:
        return {}


def collect_metrics(tuned: FineTuned) -> dict[str, object]:
    """Return the contents of `metrics.json`: the scores of all epochs, what was held out, how many were skipped."""
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
    """Return which epoch the weights are from: "epoch 2 of 3"."""
    return f"epoch {tuned.best + 1} of {len(tuned.epochs)}"


def list_card_facts(settings: FineTuning, data: TrainingData) -> dict[str, object]:
    """Return the data and the main settings of a training, for the model card."""
    held_out = "" if data.held_out is None else f", {data.held_out.describe()}"
    adapter = {} if settings.lora_rank is None else {"LoRA": f"rank {settings.lora_rank}, alpha {settings.lora_alpha}"}
    head = {} if settings.head_rate_factor == 1 else {"head rate factor": f"{settings.head_rate_factor:g}"}
    return {
        "task": data.task.name,
        "train": f"{len(data.train):,} examples",
        "dev": f"{len(data.dev):,} examples{held_out}",
        "epochs": settings.num_epochs,
        "batch size": settings.batch_size,
        "learning rate": f"{settings.learning_rate:g}",
        **head,
        **adapter,
        "seed": settings.seed,
    }
