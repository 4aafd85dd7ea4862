"""Fine-tuning a classifier on labelled texts, through `model.fit`."""

import os
from collections import Counter
from collections.abc import Sequence

import keras
import tensorflow as tf

from bert_keras.checkpoints.load import load_tokenizer
from bert_keras.errors import InputError
from bert_keras.modeling import BertClassifier
from bert_keras.pipelines.batches import classification_batches
from bert_keras.pipelines.tokenizer import BertTokenizer
from bert_keras.training.fitting import NOTHING_KEPT, Keeping, Phase, fit_phases
from bert_keras.training.memory import keep_freed_memory
from bert_keras.training.optimizers import adamw
from bert_keras.training.precision import default_dtype_policy
from bert_keras.training.strategies import spread


def finetune_classifier(
    checkpoint: str | os.PathLike,
    train: tuple[Sequence[str], Sequence[str]],
    dev: tuple[Sequence[str], Sequence[str]],
    *,
    num_epochs: int = 3,
    batch_size: int = 32,
    learning_rate: float = 3e-5,
    max_sequence_length: int = 128,
    seed: int = 0,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    strategy: tf.distribute.Strategy | None = None,
    accumulation_steps: int = 1,
    gradient_checkpointing: bool = False,
    dtype_policy: str = "float32",
    keeping: Keeping = NOTHING_KEPT,
) -> tuple[BertClassifier, BertTokenizer, dict[str, float]]:
    """Trains a `BertClassifier` on a checkpoint and scores it on held-out texts.

    Args:
        checkpoint: any folder that `load` reads, with a vocabulary.
        train: texts and their label names.
        dev: held-out texts and their label names, each of them a label of `train`.
        num_epochs: passes over the training texts.
        batch_size: texts a step.
        learning_rate: the peak; 2e-5 to 5e-5 for BERT-Base, up to 1e-3 for tiny models.
        max_sequence_length: longer texts are cut, in pieces.
        seed: draws the new head, the dropout and the order of the texts.
        callbacks: handed to `model.fit`.
        strategy: any of `tf.distribute`; None: the one whose scope this is called in, or else one device. The batch
            size is that of all replicas together.
        accumulation_steps: into how many parts each replica cuts its batch, to save memory.
        gradient_checkpointing: compute the inside of each block twice instead of keeping it, to save memory.
        dtype_policy: "mixed_bfloat16" or "mixed_float16" computes in 16 bits and keeps the weights in 32.
        keeping: where the state of the training is kept, and whether to go on from there.

    Returns:
        The model with its `labels`, the tokenizer, and the scores: `accuracy`, `loss` and
        `majority_accuracy`, what always answering the commonest label of `train` would score on `dev`.

    Raises:
        InputError: no vocabulary, a single label, or a label in `dev` that `train` does not have.
    """
    labels = sorted(set(train[1]))
    _check_labels(labels, dev[1])
    tokenizer = load_tokenizer(checkpoint)
    if tokenizer is None:
        raise InputError(f"{checkpoint} has no vocabulary; expected vocab.txt beside the weights: put it there")
    steps_an_epoch = -(-len(train[0]) // batch_size)
    strategy = strategy or tf.distribute.get_strategy()
    keep_freed_memory()
    keras.utils.set_random_seed(seed)
    with strategy.scope(), default_dtype_policy(dtype_policy):
        model = BertClassifier.from_checkpoint(checkpoint, num_classes=len(labels), labels=labels)
        model.compile(
            adamw(learning_rate, steps_an_epoch * num_epochs),
            accumulation_steps=accumulation_steps,
            gradient_checkpointing=gradient_checkpointing,
        )
    length = min(max_sequence_length, model.encoder.config.max_sequence_length)

    def batches(texts: tuple[Sequence[str], Sequence[str]], **order):
        ids = [labels.index(name) for name in texts[1]]
        settings = {"batch_size": batch_size, "max_sequence_length": length, "seed": seed, "fill_batches": True}
        return spread(
            strategy,
            lambda share: classification_batches(texts[0], ids, tokenizer, share=share, **settings, **order),
        )

    phase = Phase(
        train=lambda first_batch: batches(train, shuffle=True, epochs=None, first_batch=first_batch),
        held_out=lambda: (batches(dev), -(-len(dev[0]) // batch_size)),
        num_steps=steps_an_epoch * num_epochs,
    )
    log = fit_phases(
        model,
        [phase],
        settings={
            "num_epochs": num_epochs,
            "batch_size": batch_size,
            "learning_rate": learning_rate,
            "max_sequence_length": length,
            "seed": seed,
            "dtype_policy": dtype_policy,
            "labels": labels,
        },
        data=[train, dev, tokenizer.vocabulary],
        strategy=strategy,
        keeping=keeping,
        callbacks=callbacks,
        listeners=(),
    )
    metrics = log.metrics()
    scores = {name: metrics[f"held_out_{name}"] for name in ("accuracy", "loss")}
    return model, tokenizer, {**scores, "majority_accuracy": _majority_accuracy(train[1], dev[1])}


def _check_labels(labels: Sequence[str], dev_labels: Sequence[str]) -> None:
    if len(labels) < 2:
        raise InputError(f"the training file has only the label {labels}; expected two or more to tell apart")
    if unknown := sorted(set(dev_labels) - set(labels)):
        raise InputError(f"the dev file has the labels {unknown}, the training file has {labels}: correct either file")


def _majority_accuracy(train_labels: Sequence[str], dev_labels: Sequence[str]) -> float:
    majority = Counter(train_labels).most_common(1)[0][0]
    return dev_labels.count(majority) / len(dev_labels)
