"""`bk.pretrain` trains on records and writes a checkpoint folder; `run_pretraining` only trains, with `model.fit`."""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from bert_keras.architectures.known_architectures import get_architecture
from bert_keras.checkpoints import save
from bert_keras.checkpoints.huggingface.model_card import build_model_card
from bert_keras.checkpoints.loading import load_with_head
from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.engines.masked_lm_scores import FIXED_MASKS, drop_sentence_objective
from bert_keras.errors import InputError
from bert_keras.extras import check_tensorflow_backend
from bert_keras.files import read_json
from bert_keras.pipelines.batches.epochs import BatchShare
from bert_keras.pipelines.batches.pretraining_batches import make_pretraining_batches
from bert_keras.pipelines.readers.option_spelling import Spell, spell_argument
from bert_keras.pipelines.records.manifest import MANIFEST, read_manifest
from bert_keras.pipelines.records.record import count_tokens
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.publishing import check_writable_folder
from bert_keras.training.backups import NO_BACKUP, BackupOptions, check_no_backup, train_to_folder
from bert_keras.training.config.recipes import PhasePlan, Pretraining, join_schedules
from bert_keras.training.config.sources import infer_settings
from bert_keras.training.continued_pretraining import Start, check_start_tokenizer, resolve_start
from bert_keras.training.fitting import Phase, digest_weights, fit_phases
from bert_keras.training.optimizers.schedules import TimedLearningRate, make_optimizer
from bert_keras.training.strategies import distribute_batches, dtype_policy_scope, is_chief, should_compile
from bert_keras.training.tracking.tracked_training import check_verbose, format_filled_masks, track_training


@dataclasses.dataclass(frozen=True)
class Pretrained:
    """The result of a pretraining run.

    Attributes:
        model: `BertPretrainer`, `BertMaskedLM` or `ElectraPretrainer`.
        tokenizer: the tokenizer of the records.
        metrics: losses and accuracies, see `TrainingLog.metrics`; `held_out_...` are those on held-out records.
        log: the training log as JSON Lines, see `TrainingLog`.
        run: all settings of the run, including the sizes that `start_from` determined.
        start: what the run used of `start_from`; None for new weights.
    """

    model: keras.Model
    tokenizer: BertTokenizer
    metrics: Mapping[str, float]
    log: str
    run: Pretraining
    start: Start | None = None


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
        callbacks, listeners, tensorboard, verbose, strategy, spell: as in `finetune`.

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
                log.write_scores(trained.metrics)
                split = "held_out" if manifests[0]["splits"]["held_out"]["num_records"] else "train"
                masks = format_filled_masks(trained.model, trained.tokenizer, folders[0], split=split, seed=run.seed)
                log.write_text(f"filled masks, {split.replace('_', '-')} sequences", masks)
        return trained

    def write(trained: Pretrained, folder: str | os.PathLike) -> None:
        num_records = sum(manifest["splits"]["train"]["num_records"] for manifest in manifests)
        start = f", continued from {trained.start}," if trained.start else ""
        recipe = f" with the recipe `{trained.run.recipe}`" if trained.run.recipe else ""
        history = (
            "## How it was trained\n\n"
            f"Pretrained{start}{recipe} on {num_records:,} sequences: {describe_metrics(trained.metrics)}. All "
            "settings are in `pretraining.toml`, and the losses during training in `training_log.jsonl`."
        )
        card = build_model_card(trained.model, trained.tokenizer, history=history, start=trained.run.model.start_from)
        notes = {"pretraining.toml": trained.run.to_toml(), "training_log.jsonl": trained.log}
        options = {"notes": notes, "card": card, "overwrite": overwrite, "written_by": "pretrain"}
        save(trained.model, trained.tokenizer, folder, **options)

    if out is not None:
        inputs = [path for path in (*folders, config, run.model.start_from) if path is not None]
        check_writable_folder(out, "pretrain", overwrite=overwrite, inputs=inputs)
        check_no_backup(out, resume=resume, overwrite=overwrite, spell=spell)
    backup = BackupOptions(every_steps=backup_every, resume=resume, allow_changes=allow_changes, spell=spell)
    return train_to_folder(out, train, write, backup, overwrite=overwrite, is_chief=is_chief(strategy))


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


def run_pretraining(
    run: Pretraining,
    folders: Sequence[str | os.PathLike],
    *,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    listeners: Sequence[Callable[[dict], None]] = (),
    strategy: tf.distribute.Strategy | None = None,
    backup: BackupOptions = NO_BACKUP,
) -> Pretrained:
    """Train a model on records.

    Args:
        run: all settings.
        folders: one records folder for each length in `run.records.max_sequence_lengths`.
        callbacks: passed to every call of `model.fit`; there is at least one per phase.
        listeners: called with each line of the log, see `TrainingLog`.
        strategy: any `tf.distribute` strategy. Default: the one whose scope is active, or else one device. The batch
            size is the global batch size over all replicas.
        backup: where to write backups, for a training that is killed or stopped by SIGTERM, and whether to resume.

    Returns:
        The trained model with its tokenizer, metrics and log.

    Raises:
        InputError: the records do not match the run, are damaged or too few; the checkpoint to start from has another
            tokenizer or contradicts the settings; the batch size is no multiple of the replicas; the loss became
            infinite or NaN; or the backup is of another run.
        InterruptedTrainingError: SIGTERM arrived, and the state was written.

    Example:
        >>> overrides = {"model.preset": "tiny", "budget.steps": 3, "speed.jit_compile": False}
        >>> run = Pretraining.resolve(overrides=overrides, defaults={"records.max_sequence_lengths": [64]})
        >>> trained = run_pretraining(run, ["demo/records"])
        >>> trained.metrics["loss"] > 0
        True
    """
    manifests = [read_manifest(folder) for folder in folders]
    run.check_records(manifests, [os.fspath(folder) for folder in folders])
    tokenizer = BertTokenizer.from_checkpoint(folders[0])
    start = None
    if run.model.start_from is not None:
        check_start_tokenizer(run.model.start_from, folders)
        start = resolve_start(run, read_checkpoint(run.model.start_from))
        run = start.run
    plans = run.plan([manifest["splits"]["train"]["num_records"] for manifest in manifests])
    strategy = strategy or tf.distribute.get_strategy()
    if strategy.num_replicas_in_sync > 1 and run.speed.steps_per_execution > 1:
        raise InputError(
            f"speed.steps_per_execution is {run.speed.steps_per_execution}; expected 1 for a training on several "
            "replicas: remove the setting"
        )
    keras.utils.set_random_seed(run.seed)
    with strategy.scope():
        model = build_model(run, tokenizer.vocabulary_size)
        if run.model.output_bias == "token_frequency":
            set_output_bias(model, folders[0], tokenizer)
        schedules = None if plans[0].num_steps is None else join_schedules(plans)
        compile_for_pretraining(model, run, make_optimizer(run.optimizer, schedules))
    # the manifests as stored, because a new name of a key in `read_manifest` does not change the records
    stored = [read_json(pathlib.Path(folder) / MANIFEST) for folder in folders]
    data = {f"records folder {number}": manifest for number, manifest in enumerate(stored, 1)}
    if start is not None:
        data["the model to start from"] = digest_weights(model.encoder)
    settings = run.to_dict()
    settings["model"] = {**settings["model"], "model_type": model.encoder.config.model_type}  # also if it follows
    log = fit_phases(
        model,
        [
            _make_phase(run, plan, folders[plan.records], manifests[plan.records], tokenizer, strategy, clock)
            for plan, clock in zip(plans, _make_clocks(run, plans), strict=True)
        ],
        settings=settings,
        data=data,
        strategy=strategy,
        backup=backup,
        callbacks=callbacks,
        listeners=listeners,
    )
    return Pretrained(model, tokenizer, log.metrics(), log.to_json_lines(), run, start)


def compile_for_pretraining(model: keras.Model, run: Pretraining, optimizer: keras.optimizers.Optimizer) -> None:
    """Compile a model with the batches and the speed settings of a run."""
    model.compile(
        optimizer,
        accumulation_steps=run.batches.accumulation_steps,
        gradient_checkpointing=run.speed.gradient_checkpointing,
        jit_compile=should_compile(run.speed.jit_compile, run.model.dtype_policy),
        steps_per_execution=run.speed.steps_per_execution,
        dropout=run.model.pretraining_dropout,
    )


def build_model(run: Pretraining, vocabulary_size: int) -> keras.Model:
    """Build the model of a run, or load the one that it starts from; parts that this one lacks get new weights.

    Raises:
        InputError: the checkpoint to start from has another kind of model, or another size.
    """
    objective, model_class, head = run.model.head.objective, run.model.head.load("model"), {}
    with dtype_policy_scope(run.model.dtype_policy):
        if run.model.start_from is None:
            config = run.model.bert_config(vocabulary_size, max(run.records.max_sequence_lengths))
            encoder = get_architecture(config.model_type).load_encoder()(
                config, pooler=objective.reads_pairs, name="encoder"
            )
            if objective.has_generator:
                head["generator_config"] = run.model.generator_config(config)
            return model_class(encoder, **head)
        checkpoint = read_checkpoint(run.model.start_from)
        start = resolve_start(run, checkpoint)
        if checkpoint.config.vocabulary_size < vocabulary_size:  # it may be larger: an embedding without a token
            raise InputError(
                f"{checkpoint} has {checkpoint.config.vocabulary_size:,} tokens, and the records {vocabulary_size:,}: "
                f"make records with its vocabulary:  bert-keras make-records {checkpoint} OUT"
            )
        if "generator" in start.new:
            head["generator_config"] = start.run.model.generator_config(checkpoint.config)
        elif not objective.has_generator and "head_act" in checkpoint.settings:
            head["head_act"] = checkpoint.settings["head_act"]
        return load_with_head(model_class, checkpoint, **head)


def set_output_bias(model: keras.Model, folder: str | os.PathLike, tokenizer: BertTokenizer) -> None:
    """Set the bias of the masked-LM head to the logarithm of each token's frequency in the training records."""
    counts = count_tokens(folder, tokenizer.vocabulary_size).astype("float64")
    counts[list(tokenizer.special_ids)] = 0  # never masked
    counts += 0.5  # a token that does not occur is unlikely, not impossible
    generator = getattr(model, "generator", model)  # ELECTRA's has the masked-LM head
    generator.mlm_head.bias.assign(np.log(counts / counts.sum()).astype("float32"))


def _make_phase(
    run: Pretraining,
    plan: PhasePlan,
    folder: str | os.PathLike,
    manifest: Mapping,
    tokenizer: BertTokenizer,
    strategy: tf.distribute.Strategy,
    clock: TimedLearningRate | None,
) -> Phase:
    settings, splits = run.batches, manifest["splits"]

    def make_batches(batch_size: int, **arguments: object) -> object:
        def make_share(share: BatchShare) -> tf.data.Dataset:
            batches = make_pretraining_batches(
                folder,
                tokenizer,
                batch_size=batch_size,
                epochs=None,
                seed=run.seed,
                mask_unit=settings.mask_unit,
                mask_rate=settings.mask_rate,
                replace_rates=settings.replace_rates,
                max_predictions=plan.max_predictions,
                max_sequence_length=plan.max_sequence_length,
                share=share,
                check_shards=False,  # `run_pretraining` has checked them
                **arguments,
            )
            return batches if run.model.head.objective.reads_pairs else batches.map(drop_sentence_objective)

        return distribute_batches(strategy, make_share)

    def make_held_out_batches() -> tuple[object, int] | None:
        """Create the same batches for every evaluation, or None if there are fewer sequences than micro-batches."""
        num_micro_batches = settings.accumulation_steps * strategy.num_replicas_in_sync
        # a multiple of them, because a batch is divided evenly among them
        num_records = splits["held_out"]["num_records"] // num_micro_batches * num_micro_batches
        if not num_records:
            return None
        size = min(plan.batch_size, num_records)
        return make_batches(size, split="held_out", **FIXED_MASKS), min(run.evaluation.num_batches, num_records // size)

    return Phase(
        train=lambda first_batch: make_batches(
            plan.batch_size, split="train", first_batch=first_batch, masking=settings.masking
        ),
        held_out=make_held_out_batches,
        tokens_per_step=plan.batch_size * (splits["train"]["num_tokens"] / splits["train"]["num_records"]),
        num_steps=plan.num_steps,
        clock=clock,
        evaluate_every=run.evaluation.every_steps,
    )


def _make_clocks(run: Pretraining, plans: Sequence[PhasePlan]) -> Iterator[TimedLearningRate | None]:
    """Yield the callback that ends each phase by time, or None for a phase that ends after a number of steps."""
    if plans[0].seconds is None:
        yield from [None] * len(plans)
        return
    schedules = iter(join_schedules(plans))
    done = 0.0
    for plan in plans:
        if plan is plans[0] or plan.rewarm:
            peak, seconds = next(schedules)
            done = 0.0
        yield TimedLearningRate(
            run.optimizer.schedule,
            peak,
            seconds,
            run.optimizer.warmup_ratio,
            power=run.optimizer.power,
            seconds_done=done,
            stop_seconds=done + plan.seconds,
        )
        done += plan.seconds
