"""Fine-tuning on a task, through `model.fit`: scored after each epoch, the best one kept."""

import dataclasses
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence

import keras
import tensorflow as tf

from bert_keras import modeling
from bert_keras.checkpoints.checkpoint import Checkpoint, check_has_vocabulary
from bert_keras.checkpoints.loading import load_tokenizer
from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.errors import InputError
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.tasks.base import Task
from bert_keras.tasks.examples.training_data import TrainingData
from bert_keras.tasks.inference import SequenceRunner
from bert_keras.training.config.finetuning_settings import FineTuning
from bert_keras.training.dtype_policy import dtype_policy_scope
from bert_keras.training.epoch_scores import EpochScores
from bert_keras.training.fitting import NO_BACKUP, BackupOptions, Phase, fit_phases
from bert_keras.training.optimizers.adamw_and_lamb import adamw
from bert_keras.training.optimizers.layer_decay import freeze, rate_factors
from bert_keras.training.resuming import digest_weights
from bert_keras.training.strategies import distribute_batches, make_all_reduce_any

# As transformers' Trainer. Pretraining's 1e-6 stands beside a root that is small in the first hundreds of steps, and
# holds back weights with small gradients; a fine-tuning has few steps more.
_EPSILON = 1e-8
_COMPILED_FROM = 1.5e9  # weights times steps: compiling takes 3 s, and saves 2 ns a weight and step


@dataclasses.dataclass(frozen=True, eq=False)
class FineTuned:
    """What a fine-tuning gave.

    Attributes:
        model: the model, with the weights of the best epoch if that was asked for.
        tokenizer: the checkpoint's own.
        task: the task as it is to be stored, with a threshold that was found on the held-out examples.
        scores: of this model on the held-out examples.
        answers: to the held-out examples.
        epochs: the scores of each epoch.
        best: the number of the best epoch, from 0.
        log: one JSON object a line, see `TrainingLog`.
        data: the examples with how they were read, where the fine-tuning read them.
    """

    model: keras.Model
    tokenizer: BertTokenizer
    task: Task
    scores: Mapping[str, float]
    answers: Sequence[Mapping]
    epochs: Sequence[Mapping[str, float]]
    best: int
    log: str
    data: TrainingData | None = None


def finetune(
    task: Task,
    checkpoint: str | os.PathLike | Checkpoint,
    train: Sequence,
    dev: Sequence,
    settings: FineTuning | None = None,
    *,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    listeners: Sequence[Callable[[dict], None]] = (),
    strategy: tf.distribute.Strategy | None = None,
    backup: BackupOptions = NO_BACKUP,
) -> FineTuned:
    """Trains a model with a head on a checkpoint, and scores it on held-out examples after each epoch.

    Args:
        task: what is to be learned, see `bert_keras.tasks`.
        checkpoint: any folder that `load` reads, with a vocabulary, or what `read_checkpoint` returned.
        train: examples of the task.
        dev: held-out examples.
        settings: how; None: BERT's recipe.
        callbacks: handed to `model.fit`.
        listeners: called with each line of the log, see `TrainingLog`.
        strategy: any of `tf.distribute`; None: the one whose scope this is called in, or else one device. The batch
            size is that of all replicas together.
        backup: where the state of the training is kept, and whether to go on from there.

    Raises:
        InputError: no vocabulary, no examples, settings that do not fit together, a loss that became infinite or not a
            number, or a backup of another fine-tuning.
        InterruptedTrainingError: SIGTERM came, and the state was written.

    Example:
        >>> task = TextClassification(labels=("bad", "good"))
        >>> examples = [TextExample("a fine film", label="good"), TextExample("a waste of time", label="bad")]
        >>> # finetune(task, "checkpoint", examples, examples).scores["accuracy"]
    """
    settings = settings or FineTuning()
    strategy = strategy or tf.distribute.get_strategy()
    _check_examples(train=train, dev=dev)
    _check_division(task, settings, strategy.num_replicas_in_sync, len(train))
    checkpoint = read_checkpoint(checkpoint)
    check_has_vocabulary(checkpoint)
    tokenizer = load_tokenizer(checkpoint)
    keras.utils.set_random_seed(settings.seed)
    with strategy.scope(), dtype_policy_scope(settings.dtype_policy):
        model = _model_of(task, checkpoint, settings)
    task = task.with_length(min(task.max_sequence_length, model.encoder.config.max_sequence_length))
    train_rows = task.add_labels(task.encode(tokenizer, train), train)
    steps_per_epoch = train_rows.num_batches(settings.batch_size)
    num_steps = steps_per_epoch * settings.num_epochs
    unpads = not isinstance(strategy, tf.distribute.TPUStrategy)  # whose shapes must be known before
    with strategy.scope():
        _compile(model, task, settings, num_steps, unpad=unpads)
    scorer = _Scorer(task, model, task.encode(tokenizer, dev), dev)
    epochs = EpochScores(
        scorer.scores, task.main_score, patience=settings.patience, all_reduce_any=make_all_reduce_any(strategy)
    )

    def batches(first_batch: int):
        order = {"shuffle": True, "sort_by_length": not unpads, "seed": settings.seed}
        order |= {"epochs": None, "first_batch": first_batch}
        return distribute_batches(
            strategy,
            lambda share: train_rows.batches(
                settings.batch_size, share=share, fill_batches=task.fills_batches, **order
            ),
        )

    log = fit_phases(
        model,
        [Phase(batches, lambda: None, num_steps, evaluate_every=steps_per_epoch)],
        settings={**dataclasses.asdict(settings), "task": task.settings(), "model": model.encoder.config.to_dict()},
        data={**_data(train, dev, tokenizer), "the checkpoint": digest_weights(model.encoder)},
        strategy=strategy,
        backup=backup,
        callbacks=callbacks,
        listeners=listeners,
        scorer=epochs,
    )
    if not epochs.epochs:  # it went on with fewer steps than were done, before the first epoch had ended
        epochs.set_model(model)
        epochs.on_epoch_end(0)
    if settings.keep_best:
        epochs.restore_best(model)
    answers = scorer.answers()
    task = task.calibrate(answers, dev)
    answers = task.apply_calibration(answers)
    best = epochs.best if settings.keep_best else len(epochs.epochs) - 1
    return FineTuned(
        model, tokenizer, task, task.score(answers, dev), answers, epochs.epochs, best, log.to_json_lines()
    )


class _Scorer:
    """Answers and scores the held-out examples with the model as it is."""

    def __init__(self, task: Task, model: keras.Model, rows, examples: Sequence):
        self._task = task
        self._rows = rows
        self._examples = examples
        self._run = SequenceRunner(model, is_token_level=task.is_token_level)

    def answers(self) -> list[dict]:
        return self._task.decode(self._rows, self._run(self._rows), self._examples)

    def scores(self) -> dict[str, float]:
        answers = self.answers()
        task = self._task.calibrate(answers, self._examples)
        return task.score(task.apply_calibration(answers), self._examples)


def _model_of(task: Task, checkpoint: Checkpoint, settings: FineTuning) -> keras.Model:
    """Returns a checkpoint's encoder with the task's head, frozen as far as was asked."""
    model = getattr(modeling, task.model_class).from_checkpoint(checkpoint, **task.head_arguments())
    if settings.frozen_blocks is not None:
        freeze(model, settings.frozen_blocks)
    return model


def _compile(model: keras.Model, task: Task, settings: FineTuning, num_steps: int, *, unpad: bool) -> None:
    rates = {"warmup_ratio": settings.warmup_ratio, "weight_decay": settings.weight_decay}
    optimizer = adamw(settings.learning_rate, num_steps, epsilon=_EPSILON, **rates)
    optimizer.rate_factors = rate_factors(model, settings.layer_decay)
    optimizer.jit_update = num_steps * model.count_params() > _COMPILED_FROM
    model.compile(
        optimizer,
        task.loss(),
        accumulation_steps=settings.accumulation_steps,
        gradient_checkpointing=settings.gradient_checkpointing,
        jit_compile=False,  # each length of a batch would be compiled anew
        unpad=unpad,
    )


def _check_examples(**examples: Sequence) -> None:
    for name, given in examples.items():
        if not len(given):
            raise InputError(f"{name} has no examples; expected one or more of the task: look where they are read")


def _check_division(task: Task, settings: FineTuning, num_replicas: int, num_examples: int) -> None:
    """Raises `InputError` if a step cannot be divided as it should be, or has nothing to compare."""
    parts = num_replicas * settings.accumulation_steps
    if not task.fills_batches and (num_compared := min(settings.batch_size, num_examples)) < 2:
        raise InputError(
            f"the task {task.name!r} as it is learned here tells the examples of a batch apart, and a batch has "
            f"{num_compared}; expected two or more: raise batch_size, or add examples"
        )
    if parts > 1 and not task.fills_batches:
        raise InputError(
            f"the task {task.name!r} as it is learned here compares all examples of a batch, which was to be divided "
            f"among {num_replicas} replicas of {settings.accumulation_steps} parts; expected one of each: train on one "
            "device with accumulation_steps 1, gradient_checkpointing saves memory too"
        )
    if settings.batch_size % parts:
        raise InputError(
            f"batch_size {settings.batch_size} cannot be divided among {num_replicas} replicas of "
            f"{settings.accumulation_steps} parts: make it a multiple of {parts}"
        )


def _data(train: Sequence, dev: Sequence, tokenizer: BertTokenizer) -> dict[str, object]:
    """Returns what tells the data of a fine-tuning from others."""
    return {
        "the training examples": _fingerprint(train),
        "the held-out examples": _fingerprint(dev),
        "the vocabulary": tokenizer.vocabulary,
        "the tokenizer's rules": dataclasses.asdict(tokenizer.rules),
    }


def _fingerprint(examples: Sequence) -> str:
    """Returns what tells examples from others."""
    digest = hashlib.sha256()
    for example in examples:
        digest.update(repr(example).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
