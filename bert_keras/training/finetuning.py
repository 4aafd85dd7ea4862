"""`run_finetuning`: train all weights or adapters for a task with `model.fit`; the best epoch is kept."""

import dataclasses
import hashlib
import math
import os
import re
from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from bert_keras.checkpoints.adapters.adapter_files import Adapter, check_rank, select_layers
from bert_keras.checkpoints.adapters.lora_layers import LoraModel
from bert_keras.checkpoints.checkpoint import Checkpoint, check_has_vocabulary
from bert_keras.checkpoints.loading import load_tokenizer
from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.engines.keras_engine import KerasEngine
from bert_keras.engines.sequence_runner import SequenceRunner
from bert_keras.errors import InputError
from bert_keras.heads.task import EncodedSequences, LabelledSequences, Task
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.training.backups import NO_BACKUP, BackupOptions
from bert_keras.training.callbacks import EpochScores
from bert_keras.training.config.finetuning_settings import FineTuning
from bert_keras.training.finetuned_folder import FineTuned
from bert_keras.training.fitting import Phase, digest_weights, fit_phases
from bert_keras.training.optimizers.schedules import adamw
from bert_keras.training.strategies import distribute_batches, dtype_policy_scope, make_all_reduce_any

# The default of transformers' Trainer. With pretraining's 1e-6, weights with small gradients would hardly move in the
# first hundreds of steps, where the second moment is still small; few fine-tunings are much longer than that.
_EPSILON = 1e-8
_MIN_COMPILED = 1.5e9  # weights times steps; compiling the update takes 3 s and saves 2 ns per weight and step


class LabelTraining:
    """Method of a fine-tuning: train a model with the task's head on labels.

    A subclass can train the model as a part of another one, and on more than labels.

    Attributes:
        adapter: the LoRA adapter, after `merge`, if one is trained.
    """

    adapter: Adapter | None = None

    def build_model(self, task: Task, checkpoint: Checkpoint, settings: FineTuning) -> keras.Model:
        """Build the model that is trained; called in the scope of the strategy and of the dtype policy."""
        model = task.head.load("model").from_checkpoint(checkpoint, **task.head_arguments())
        if settings.frozen_blocks is not None:
            freeze(model, settings.frozen_blocks)
        return model

    def get_result(self, model: keras.Model) -> keras.Model:
        """Return the part of the trained model that is scored after each epoch."""
        return model

    def merge(self, model: keras.Model) -> keras.Model:
        """Return the model to keep, after the training."""
        return self.get_result(model)

    def add_labels(self, task: Task, sequences: EncodedSequences, examples: Sequence) -> LabelledSequences:
        """Add to encoded training examples what the model learns."""
        return task.add_labels(sequences, examples)

    def loss(self, task: Task) -> object:
        """Return the loss for `compile`."""
        return task.loss()

    def identify(self) -> dict[str, object]:
        """Return plain values that identify what is learned besides labels, keyed by a name for messages."""
        return {}


class AdapterTraining(LabelTraining):
    """Train LoRA adapters and the head on labels; the model to keep has the adapters merged."""

    def __init__(self):
        self._lora: LoraModel | None = None
        self._frozen_blocks: int | None = None

    def build_model(self, task: Task, checkpoint: Checkpoint, settings: FineTuning) -> keras.Model:
        """Build the model, add adapters to it, and freeze the rest of its encoder."""
        check_rank(settings.lora_rank, checkpoint)
        model = super().build_model(task, checkpoint, settings)
        layers = select_layers(type(model).__name__, checkpoint, settings.frozen_blocks or 0)
        self._lora = LoraModel(model, layers, settings.lora_rank, settings.lora_alpha)
        self._frozen_blocks = settings.frozen_blocks
        return model

    def merge(self, model: keras.Model) -> keras.Model:
        """Keep a copy of the adapter, and build a model with the adapter merged and the same frozen blocks."""
        self.adapter = self._lora.read_adapter()
        merged = self._lora.merge()
        if self._frozen_blocks is not None:
            freeze(merged, self._frozen_blocks)
        return merged


def freeze(model: keras.Model, num_blocks: int) -> None:
    """Freeze the embeddings and the first `num_blocks` blocks: `fit` does not change their weights.

    Raises:
        InputError: the model has fewer blocks.
    """
    encoder = model.encoder
    if num_blocks > len(encoder.blocks):
        raise InputError(
            f"{num_blocks} blocks cannot be frozen, because the model has {len(encoder.blocks)}; expected at most that "
            "many: freeze fewer"
        )
    for layer in (encoder.embeddings, encoder.embedding_projection, *encoder.blocks[:num_blocks]):
        if layer is not None:
            layer.trainable = False


def compute_rate_factors(model: keras.Model, layer_decay: float, head_rate_factor: float = 1.0) -> list[float] | None:
    """Compute the factor of each trainable variable's learning rate; None if all are 1.

    The factor is `layer_decay` to the power of the depth: 0 for the head and the pooler, 2 for the last block, one more
    for each block below it, and one more for the embeddings, as in ELECTRA's fine-tuning code (`_get_layer_lrs`). That
    of the head, which is every variable outside the encoder, is `head_rate_factor`.
    """
    if layer_decay == head_rate_factor == 1:
        return None
    num_blocks = len(model.encoder.blocks)
    encoder = {id(variable) for variable in model.encoder.variables}
    return [
        layer_decay ** _get_depth(variable.path, num_blocks) * (1 if id(variable) in encoder else head_rate_factor)
        for variable in model.trainable_variables
    ]


def _get_depth(path: str, num_blocks: int) -> int:
    if block := re.search(r"(?:^|/)block_(\d+)/", path):
        return num_blocks + 1 - int(block[1])
    return num_blocks + 2 if re.search(r"(?:^|/)(embeddings|embedding_projection)/", path) else 0


def run_finetuning(
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
    method: LabelTraining | None = None,
) -> FineTuned:
    """Train a checkpoint with a task head, and score it on held-out examples after each epoch.

    Args:
        task: what to learn, see `bert_keras.heads`.
        checkpoint: any folder that `load` reads, with a vocabulary, or what `read_checkpoint` returned.
        train: training examples of the task.
        dev: held-out examples of the task.
        settings: the training settings. Default: `FineTuning()`.
        callbacks: passed to `model.fit`.
        listeners: called with each line of the log, see `TrainingLog`.
        strategy: any `tf.distribute` strategy. Default: the one whose scope is active, or else one device. The batch
            size is the global batch size over all replicas.
        backup: where to write backups, and whether to resume.
        method: what is trained, and on what. Default: all weights, or adapters with `lora_rank`, on the labels.

    Returns:
        The trained model with its task, scores and log.

    Raises:
        InputError: there is no vocabulary, there are no examples, settings do not fit together, the loss became
            infinite or NaN, or the backup is of another fine-tuning.
        InterruptedTrainingError: SIGTERM arrived, and the state was written.

    Example:
        >>> from bert_keras.heads.classify.task import TextClassification, TextExample
        >>> task = TextClassification(labels=("bad", "good"))
        >>> examples = [TextExample("a fine film", label="good"), TextExample("a waste of time", label="bad")]
        >>> 0 <= run_finetuning(task, "demo/pretrained", examples, examples).scores["accuracy"] <= 1
        True
    """
    settings = settings or FineTuning()
    method = method or (LabelTraining() if settings.lora_rank is None else AdapterTraining())
    strategy = strategy or tf.distribute.get_strategy()
    _check_arguments(task, settings, method, train, dev, strategy.num_replicas_in_sync)
    checkpoint = read_checkpoint(checkpoint)
    check_has_vocabulary(checkpoint)
    tokenizer = load_tokenizer(checkpoint)
    keras.utils.set_random_seed(settings.seed)
    with strategy.scope(), dtype_policy_scope(settings.dtype_policy):
        model = method.build_model(task, checkpoint, settings)
    task = task.with_length(min(task.max_sequence_length, model.encoder.config.max_sequence_length))
    sequences = method.add_labels(task, task.encode(tokenizer, train), train)
    steps_per_epoch = sequences.num_batches(settings.batch_size)
    num_steps = steps_per_epoch * settings.num_epochs
    unpad = not isinstance(strategy, tf.distribute.TPUStrategy)  # a TPU needs fixed shapes
    with strategy.scope():
        _compile(model, method.loss(task), settings, num_steps, unpad=unpad)
    held_out = task.encode(tokenizer, dev)
    run = SequenceRunner(KerasEngine(method.get_result(model)), is_token_level=task.is_token_level)

    def score() -> dict[str, float]:
        calibrated, answers = _answer(run, task, held_out, dev)
        return calibrated.score(answers, dev)

    all_reduce_any = make_all_reduce_any(strategy)
    epochs = EpochScores(score, task.main_score, patience=settings.patience, all_reduce_any=all_reduce_any)

    def make_batches(first_batch: int) -> object:
        order = {"shuffle": True, "sort_by_length": not unpad, "seed": settings.seed, "first_batch": first_batch}
        options = {"epochs": None, "fill_batches": task.fills_batches, **order}
        return distribute_batches(
            strategy, lambda share: sequences.batches(settings.batch_size, share=share, **options)
        )

    log = fit_phases(
        model,
        [Phase(make_batches, lambda: None, num_steps, evaluate_every=steps_per_epoch)],
        settings={**dataclasses.asdict(settings), "task": task.settings(), "model": model.encoder.config.to_dict()},
        data={
            **identify_data(train, dev, tokenizer),
            "the checkpoint": digest_weights(model.encoder),
            **method.identify(),
        },
        strategy=strategy,
        backup=backup,
        callbacks=callbacks,
        listeners=listeners,
        scorer=epochs,
    )
    if not epochs.epochs:  # resumed with fewer steps than were done, before the end of the first epoch
        epochs.set_model(model)
        epochs.on_epoch_end(0)
    if settings.keep_best:
        epochs.restore_best(model)
    scored = method.get_result(model)
    with strategy.scope():
        result = method.merge(model)
        if result is not scored:
            _compile(result, task.loss(), settings, num_steps, unpad=unpad)
            run = SequenceRunner(KerasEngine(result), is_token_level=task.is_token_level)
    calibrated, answers = _answer(run, task, held_out, dev)
    return FineTuned(
        result,
        tokenizer,
        calibrated,
        calibrated.score(answers, dev),
        answers,
        epochs.epochs,
        epochs.best if settings.keep_best else len(epochs.epochs) - 1,
        log.to_json_lines(),
        settings=settings,
        adapter=method.adapter,
    )


def _answer(
    run: SequenceRunner, task: Task, sequences: EncodedSequences, examples: Sequence
) -> tuple[Task, list[dict]]:
    """Answer held-out examples with a model's current weights; return the calibrated task and its answers."""
    answers = task.decode(sequences, run(sequences), examples)
    task = task.calibrate(answers, examples)
    return task, task.apply_calibration(answers)


def _compile(model: keras.Model, loss: object, settings: FineTuning, num_steps: int, *, unpad: bool) -> None:
    options = {"warmup_ratio": settings.warmup_ratio, "weight_decay": settings.weight_decay}
    optimizer = adamw(settings.learning_rate, num_steps, epsilon=_EPSILON, **options)
    optimizer.rate_factors = compute_rate_factors(model, settings.layer_decay, settings.head_rate_factor)
    num_trained = sum(math.prod(variable.shape) for variable in model.trainable_variables)
    optimizer.jit_update = num_steps * num_trained > _MIN_COMPILED
    model.compile(
        optimizer,
        loss,
        accumulation_steps=settings.accumulation_steps,
        gradient_checkpointing=settings.gradient_checkpointing,
        jit_compile=False,  # XLA would compile the step again for each length of a batch
        unpad=unpad,
    )


def _check_arguments(
    task: Task, settings: FineTuning, method: LabelTraining, train: Sequence, dev: Sequence, num_replicas: int
) -> None:
    """Raise `InputError` if arguments do not fit together, or the batch size cannot be divided among the replicas."""
    if settings.lora_rank is not None and not isinstance(method, AdapterTraining):
        raise InputError(
            f"lora_rank is {settings.lora_rank} and method is a {type(method).__name__}, which trains no adapters; "
            "expected an AdapterTraining: leave method out, or leave lora_rank out"
        )
    for name, examples in (("train", train), ("dev", dev)):
        if not len(examples):
            raise InputError(f"{name} is empty; expected one or more examples: check how it is read")
    num_micro_batches = num_replicas * settings.accumulation_steps
    if not task.fills_batches and (num_compared := min(settings.batch_size, len(train))) < 2:
        raise InputError(
            f"the objective of the task {task.name!r} compares the examples of a batch, and a batch has "
            f"{num_compared}; expected two or more: raise batch_size, or add examples"
        )
    if num_micro_batches > 1 and not task.fills_batches:
        raise InputError(
            f"the objective of the task {task.name!r} compares all examples of a batch, which {num_replicas} replicas "
            f"with {settings.accumulation_steps} micro-batches would divide; expected one replica and one micro-batch: "
            "train on one device with accumulation_steps 1; gradient_checkpointing also saves memory"
        )
    if settings.batch_size % num_micro_batches:
        raise InputError(
            f"batch_size {settings.batch_size} cannot be divided among {num_replicas} replicas with "
            f"{settings.accumulation_steps} micro-batches: make it a multiple of {num_micro_batches}"
        )


def identify_data(train: Sequence, dev: Sequence, tokenizer: BertTokenizer) -> dict[str, object]:
    """Return plain values that identify the data of a fine-tuning, keyed by a name for messages."""
    return {
        "the training examples": digest_examples(train),
        "the held-out examples": digest_examples(dev),
        "the vocabulary": tokenizer.vocabulary,
        "the tokenizer's rules": dataclasses.asdict(tokenizer.rules),
    }


def digest_examples(examples: Sequence) -> str:
    """Return a digest of examples with their labels."""
    digest = hashlib.sha256()
    for example in examples:
        digest.update(repr(example).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
