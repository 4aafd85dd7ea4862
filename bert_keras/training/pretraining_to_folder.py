"""`bk.pretrain`: pretrain on records and write a checkpoint folder."""

import os
from collections.abc import Callable, Mapping, Sequence

import keras
import tensorflow as tf

from bert_keras.checkpoints import save
from bert_keras.checkpoints.huggingface.model_card import build_model_card
from bert_keras.errors import InputError
from bert_keras.extras import check_tensorflow_backend
from bert_keras.pipelines.readers.option_spelling import Spell, spell_argument
from bert_keras.pipelines.records.manifest import read_manifest
from bert_keras.publishing import check_writable_folder
from bert_keras.training.backups import BackupOptions, check_no_backup, train_to_folder
from bert_keras.training.config.recipes import Pretraining
from bert_keras.training.config.sources import infer_settings
from bert_keras.training.pretraining import Pretrained, run_pretraining
from bert_keras.training.strategies import is_chief
from bert_keras.training.tracking.tensorboard_log import TensorBoardLog
from bert_keras.training.tracking.text_examples import format_filled_masks
from bert_keras.training.tracking.tracked_training import check_verbose, track_training


def pretrain(
    records: str | os.PathLike | Sequence[str | os.PathLike],
    out: str | os.PathLike | None = None,
    *,
    settings: Mapping[str, object] | Pretraining | None = None,
    recipe: str | None = None,
    config: str | os.PathLike | None = None,
    overwrite: bool = False,
    backup_every: int = 0,
    resume: bool = False,
    allow_changes: bool = False,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    listeners: Sequence[Callable[[dict], None]] = (),
    tensorboard: str | os.PathLike | None = None,
    verbose: bool | str = "auto",
    strategy: tf.distribute.Strategy | None = None,
    spell: Spell = spell_argument,
) -> Pretrained:
    """Pretrain a BERT or ELECTRA on records, as `bert-keras pretrain` does.

    Settings override the config file, the file overrides the recipe, and the recipe overrides the defaults. Settings
    that none of them has are those of the records.

    Args:
        records: a folder of `make_records`, or one folder for each sequence length of the run.
        out: checkpoint folder to write, with a model card, `pretraining.toml` and `training_log.jsonl`; None = the
            model is only returned.
        settings: settings by dotted key, such as `{"model.preset": "mini", "budget.steps": 5000}`; or a complete
            `Pretraining`, without `recipe` and `config`.
        recipe: "bert", "roberta", "electra-small", "24h", "cramming" or "fast".
        config: a TOML file of settings.
        overwrite: replace `out` if `pretrain` wrote it, and remove the backups of its training unless `resume` is set.
        backup_every: steps between backups, which are written next to `out`; 0 = only when SIGTERM arrives.
        resume: resume from the newest backup, if there is one.
        allow_changes: resume although settings or records differ from those of the backup.
        callbacks: passed to `model.fit`.
        listeners: functions that are called with each line of the training log, a dict.
        tensorboard: folder for TensorBoard: curves of training and held-out data, settings, and examples.
        verbose: True = show the progress on standard error; False = do not; "auto" = show a moving bar in notebooks
            and terminals, and nothing in logs.
        strategy: any `tf.distribute` strategy. Default: one device.
        spell: how error messages name an option; the command line passes `spell_flag`.

    Returns:
        The trained `model` with its `tokenizer`, `metrics` and `log`.

    Raises:
        InputError: settings, records or folders cannot be used, or the loss became infinite or NaN. If `out` cannot be
            written after the training, the model is written next to it or to the system's temporary folder, and the
            message says where.
        InterruptedTrainingError: SIGTERM arrived, and the state was written.

    Example:
        >>> settings = {"model.preset": "tiny", "budget.steps": 3, "speed.jit_compile": False}
        >>> trained = bk.pretrain("demo/records", "my/pretrained", settings=settings)
        >>> trained.metrics["loss"] > 0, type(bk.load("my/pretrained")).__name__
        (True, 'BertPretrainer')
    """
    check_tensorflow_backend("bk.pretrain")
    check_verbose(verbose)
    folders = [records] if isinstance(records, str | os.PathLike) else list(records)
    # `run_pretraining` checks the shards
    manifests = [read_manifest(folder, checked_splits=()) for folder in folders]
    if isinstance(settings, Pretraining):
        if recipe is not None or config is not None:
            raise InputError("settings is a complete Pretraining; expected no recipe and no config: remove them")
        run = settings
    else:
        run = Pretraining.resolve(config, recipe, settings, infer_settings(manifests))
    strategy = strategy or tf.distribute.get_strategy()

    def train(backup: BackupOptions) -> Pretrained:
        shown = {"tensorboard": tensorboard, "verbose": verbose, "is_chief": is_chief(strategy)}
        plans = run.plan([manifest["splits"]["train"]["num_records"] for manifest in manifests])
        if plans[0].seconds is None:
            shown["num_steps"] = sum(plan.num_steps for plan in plans)
        else:
            shown["num_seconds"] = sum(plan.seconds for plan in plans)
        with track_training(callbacks, listeners, **shown) as (all_callbacks, all_listeners, log):
            if log is not None:
                log.write_settings(run.to_dict())
            options = {"callbacks": all_callbacks, "listeners": all_listeners}
            trained = run_pretraining(run, folders, **options, strategy=strategy, backup=backup)
            if log is not None:
                _write_result(log, trained, folders[0], manifests[0])
        return trained

    def write(trained: Pretrained, folder: str | os.PathLike) -> None:
        num_records = sum(manifest["splits"]["train"]["num_records"] for manifest in manifests)
        _save(trained, num_records, folder, overwrite=overwrite)

    if out is not None:
        inputs = [path for path in (*folders, config, run.model.start_from) if path is not None]
        check_writable_folder(out, "pretrain", overwrite=overwrite, inputs=inputs)
        check_no_backup(out, resume=resume, overwrite=overwrite, spell=spell)
    backup = BackupOptions(every_steps=backup_every, resume=resume, allow_changes=allow_changes, spell=spell)
    return train_to_folder(out, train, write, backup, overwrite=overwrite, is_chief=is_chief(strategy))


def _write_result(log: TensorBoardLog, trained: Pretrained, records: str | os.PathLike, manifest: Mapping) -> None:
    """Write final metrics and filled masks for TensorBoard."""
    log.write_scores(trained.metrics)
    split = "held_out" if manifest["splits"]["held_out"]["num_records"] else "train"
    text = format_filled_masks(trained.model, trained.tokenizer, records, split=split, seed=trained.run.seed)
    log.write_text(f"filled masks, {split.replace('_', '-')} sequences", text)


def describe_metrics(metrics: Mapping[str, float]) -> str:
    """Describe the final metrics in one line: those on held-out records, if there are any."""
    prefix = "held_out_" if "held_out_loss" in metrics else ""
    names = {
        "mlm_accuracy": "masked-LM accuracy",
        "next_sentence_accuracy": "next-sentence accuracy",
        "replaced_accuracy": "replaced-token accuracy",
    }
    parts = [f"loss {metrics[prefix + 'loss']:.3f}"]
    parts += [f"{text} {metrics[prefix + name]:.1%}" for name, text in names.items() if prefix + name in metrics]
    return ", ".join(parts) + (" on held-out records" if prefix else " (mean of the last steps)")


def _save(trained: Pretrained, num_records: int, folder: str | os.PathLike, *, overwrite: bool) -> None:
    start = f", continued from {trained.start}," if trained.start else ""
    recipe = f" with the recipe `{trained.run.recipe}`" if trained.run.recipe else ""
    history = (
        "## How it was trained\n\n"
        f"Pretrained{start}{recipe} on {num_records:,} sequences: {describe_metrics(trained.metrics)}. All settings "
        "are in `pretraining.toml`, and the losses during training in `training_log.jsonl`."
    )
    save(
        trained.model,
        trained.tokenizer,
        folder,
        notes={"pretraining.toml": trained.run.to_toml(), "training_log.jsonl": trained.log},
        card=build_model_card(trained.model, trained.tokenizer, history=history, start=trained.run.model.start_from),
        overwrite=overwrite,
        written_by="pretrain",
    )
