"""Pretraining on records: masked LM and next sentence, through `model.fit`."""

import math
from collections.abc import Sequence

import keras
import tensorflow as tf

from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.modeling import BertEncoder, BertPretrainer
from bert_keras.training.optimizers import adamw


def pretrain(
    batches: tf.data.Dataset,
    config: BertConfig,
    *,
    num_steps: int,
    learning_rate: float = 1e-3,
    seed: int = 0,
    callbacks: Sequence[keras.callbacks.Callback] = (),
) -> tuple[BertPretrainer, dict[str, float]]:
    """Trains a new `BertPretrainer`.

    Args:
        batches: endless batches of (features, labels), as `pretraining_batches` gives.
        config: the encoder's shape.
        num_steps: optimizer steps.
        learning_rate: the peak; BERT-Base took 1e-4, small models want more.
        seed: draws the first weights and the dropout.
        callbacks: handed to `model.fit`.

    Returns:
        The model, and its loss and metrics over the steps.

    Raises:
        InputError: the loss became infinite or not a number.
    """
    keras.utils.set_random_seed(seed)
    model = BertPretrainer(BertEncoder(config, name="encoder"))
    model.compile(adamw(learning_rate, num_steps))
    history = model.fit(
        batches, epochs=1, steps_per_epoch=num_steps, callbacks=list(callbacks), shuffle=False, verbose=0
    )
    metrics = {name: float(values[-1]) for name, values in history.history.items()}
    check_finite(metrics["loss"])
    return model, metrics


def check_finite(loss: float) -> None:
    """Raises `InputError` if a training's loss is not a finite number."""
    if not math.isfinite(loss):
        raise InputError(f"the loss became {loss}: nothing was saved; train again with a lower learning rate")
