"""Pretraining on records, through `model.fit`: what a `Pretraining` run says, done."""

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras
import tensorflow as tf

from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.loading import load_with_head
from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.errors import InputError
from bert_keras.modeling import BertEncoder, BertMaskedLM, BertPretrainer, ElectraPretrainer
from bert_keras.pipelines.batches.batch_share import BatchShare
from bert_keras.pipelines.batches.pretraining_batches import make_pretraining_batches
from bert_keras.pipelines.records import read_manifest
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.tasks.masked_lm_scores import FIXED_MASKS, drop_sentence_objective
from bert_keras.training.config.phases import PhasePlan
from bert_keras.training.config.recipes import Pretraining
from bert_keras.training.continued_pretraining import check_start_tokenizer, resolve_start
from bert_keras.training.dtype_policy import dtype_policy_scope
from bert_keras.training.fitting import NO_BACKUP, BackupOptions, Phase, fit_phases
from bert_keras.training.optimizers.adamw_and_lamb import make_optimizer
from bert_keras.training.optimizers.schedules import TimedLearningRate
from bert_keras.training.resuming import digest_weights
from bert_keras.training.strategies import distribute_batches

MODELS = {"bert": BertPretrainer, "mlm": BertMaskedLM, "electra": ElectraPretrainer}


@dataclasses.dataclass(frozen=True)
class Pretrained:
    """What a pretraining gave.

    Attributes:
        model: `BertPretrainer`, `BertMaskedLM` or `ElectraPretrainer`.
        tokenizer: the records' own.
        metrics: losses and accuracies, see `TrainingLog.metrics`; `held_out_...` are those on held-out records.
        log: one JSON object a line, see `TrainingLog`.
    """

    model: keras.Model
    tokenizer: BertTokenizer
    metrics: Mapping[str, float]
    log: str


def pretrain(
    run: Pretraining,
    folders: Sequence[str | os.PathLike],
    *,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    listeners: Sequence[Callable[[dict], None]] = (),
    strategy: tf.distribute.Strategy | None = None,
    backup: BackupOptions = NO_BACKUP,
) -> Pretrained:
    """Trains a model on records.

    Args:
        run: all settings.
        folders: a records folder for each of `run.records.max_sequence_lengths`.
        callbacks: handed to `model.fit`, once a phase or more often.
        listeners: called with each line of the log, see `TrainingLog`.
        strategy: any of `tf.distribute`; None: the one whose scope this is called in, or else one device. The batch
            size is that of all replicas together.
        backup: where the state of the training is kept, in case it is killed or told to stop (SIGTERM), and whether
            to go on from there.

    Raises:
        InputError: the records are not those that the run asks for, are damaged, or are too few; the checkpoint to
            start from has another tokenizer, or another model than the settings say; the batch cannot be divided among
            the replicas; the loss became infinite or not a number, the message says at which step; or the backup is of
            another run.
        InterruptedTrainingError: SIGTERM came, and the state was written.

    Example:
        >>> run = Pretraining.resolve(overrides={"model.preset": "tiny", "budget.steps": 1000})
        >>> # bk.save(pretrain(run, ["records"]).model, ...)
    """
    manifests = [read_manifest(folder) for folder in folders]
    run.check_records(manifests, [os.fspath(folder) for folder in folders])
    tokenizer = BertTokenizer.from_checkpoint(folders[0])
    if run.model.start_from is not None:
        check_start_tokenizer(run.model.start_from, folders)
        run = resolve_start(run, read_checkpoint(run.model.start_from)).run
    num_records = [manifest["splits"]["train"]["num_records"] for manifest in manifests]
    plans, stretches = run.plan(num_records), run.schedules(num_records)
    strategy = strategy or tf.distribute.get_strategy()
    if strategy.num_replicas_in_sync > 1 and run.speed.steps_per_execution > 1:
        raise InputError(
            "speed.steps_per_execution is for one device; expected 1 where several replicas train together"
        )
    keras.utils.set_random_seed(run.seed)
    with strategy.scope():
        model = build_model(run, tokenizer.vocabulary_size)
        model.compile(
            make_optimizer(run.optimizer, None if plans[0].num_steps is None else stretches),
            accumulation_steps=run.batches.accumulation_steps,
            gradient_checkpointing=run.speed.gradient_checkpointing,
            jit_compile=run.speed.jit_compile if run.speed.jit_compile != "auto" else True,
            steps_per_execution=run.speed.steps_per_execution,
        )
    phases = []
    for plan, clock in zip(plans, _clocks(run, plans, stretches), strict=True):
        batches = _Batches(run, plan, folders[plan.records], manifests[plan.records], tokenizer, strategy)
        phases.append(
            Phase(
                train=batches.train,
                held_out=batches.held_out,
                tokens_per_step=plan.batch_size * batches.tokens_per_sequence,
                num_steps=plan.num_steps,
                clock=clock,
                evaluate_every=run.evaluation.every_steps,
            )
        )
    data = {f"records folder {number}": manifest for number, manifest in enumerate(manifests, 1)}
    if run.model.start_from is not None:
        data["the model that it starts from"] = digest_weights(model.encoder)
    log = fit_phases(
        model,
        phases,
        settings=run.to_dict(),
        data=data,
        strategy=strategy,
        backup=backup,
        callbacks=callbacks,
        listeners=listeners,
    )
    return Pretrained(model, tokenizer, log.metrics(), log.to_json_lines())


def build_model(run: Pretraining, vocabulary_size: int) -> keras.Model:
    """Builds the model of a run, or loads the one that it starts from.

    Raises:
        InputError: the folder to start from holds another kind of model, or one of another size.
    """
    length = max(run.records.max_sequence_lengths)
    with dtype_policy_scope(run.model.dtype_policy):
        if run.model.start_from is not None:
            return _started(run, read_checkpoint(run.model.start_from), vocabulary_size)
        config = run.model.bert_config(vocabulary_size, length)
        if run.model.objective == "electra":
            encoder = BertEncoder(config, pooler=False, name="encoder")
            return ElectraPretrainer(encoder, run.model.generator_config(config))
        pooler = run.model.objective == "bert"
        return MODELS[run.model.objective](BertEncoder(config, pooler=pooler, name="encoder"))


def _started(run: Pretraining, checkpoint: Checkpoint, vocabulary_size: int) -> keras.Model:
    """Build the model of a run on the weights of a checkpoint; parts that it lacks are new."""
    start = resolve_start(run, checkpoint)
    if checkpoint.config.vocabulary_size < vocabulary_size:  # it may have rows without a token
        raise InputError(
            f"{checkpoint} has {checkpoint.config.vocabulary_size:,} tokens, the records {vocabulary_size:,}: make "
            f"records of its own vocabulary with  bert-keras make-records {checkpoint} OUT"
        )
    head = {}
    if "generator" in start.new:
        head["generator_config"] = start.run.model.generator_config(checkpoint.config)
    elif run.model.objective != "electra" and "head_act" in checkpoint.settings:
        head["head_act"] = checkpoint.settings["head_act"]
    return load_with_head(MODELS[run.model.objective], checkpoint, **head)


@dataclasses.dataclass(frozen=True)
class _Batches:
    """The batches of one phase."""

    run: Pretraining
    plan: PhasePlan
    folder: str | os.PathLike
    manifest: Mapping
    tokenizer: BertTokenizer
    strategy: tf.distribute.Strategy

    @property
    def tokens_per_sequence(self) -> float:
        """Real tokens of a training row, on the average."""
        counts = self.manifest["splits"]["train"]
        return counts["num_tokens"] / counts["num_records"]

    def train(self, first_batch: int):
        """The batches of training without end, from this one on."""
        masking = self.run.batches.masking
        return self._made(self.plan.batch_size, split="train", epochs=None, first_batch=first_batch, masking=masking)

    def held_out(self) -> tuple[object, int] | None:
        """The same batches at every evaluation; None where too little was held out to give each part a row."""
        num_parts = self.run.batches.accumulation_steps * self.strategy.num_replicas_in_sync
        num_records = self.manifest["splits"]["held_out"]["num_records"] // num_parts * num_parts
        if not num_records:
            return None
        size = min(self.plan.batch_size, num_records)
        batches = self._made(size, split="held_out", epochs=None, **FIXED_MASKS)
        return batches, min(self.run.evaluation.num_batches, num_records // size)

    def _made(self, batch_size: int, **arguments):
        settings = self.run.batches

        def of_share(share: BatchShare) -> tf.data.Dataset:
            batches = make_pretraining_batches(
                self.folder,
                self.tokenizer,
                batch_size=batch_size,
                seed=self.run.seed,
                mask_unit=settings.mask_unit,
                mask_rate=settings.mask_rate,
                replace_rates=settings.replace_rates,
                max_predictions=self.plan.max_predictions,
                max_sequence_length=self.plan.max_sequence_length,
                share=share,
                check_shards=False,  # `pretrain` has done so
                **arguments,
            )
            return batches if self.run.model.objective == "bert" else batches.map(drop_sentence_objective)

        return distribute_batches(self.strategy, of_share)


def _clocks(run: Pretraining, plans: list[PhasePlan], stretches) -> Iterator[TimedLearningRate | None]:
    """Yields for each phase what ends it by the clock; None where steps do."""
    if plans[0].seconds is None:
        yield from [None] * len(plans)
        return
    stretches = iter(stretches)
    done = 0.0
    for plan in plans:
        if plan is plans[0] or plan.rewarm:
            peak, seconds = next(stretches)
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
