"""Train a small model with a distributed step on one device and on two replicas.

`python train_toy_models.py NAME...` prints the result of `report` for these optimizers as JSON.
"""

import contextlib
import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

from bert_keras.distribution import DistributedStep
from bert_keras.training.optimizers.update_rules import BertAdamW, BertMuon, Lamb
from tests.distribution import train_heads

BATCH_SIZE, NUM_STEPS = 6, 4
LIMITS = {"plain": {}, "global": {"global_clipnorm": 0.05}, "norm": {"clipnorm": 0.04}, "value": {"clipvalue": 0.02}}
OPTIMIZERS = {"sgd": keras.optimizers.SGD, "adamw": BertAdamW, "lamb": Lamb, "muon": BertMuon}
QUICK = ("sgd norm", "muon global", "scaled adamw global")  # compared by the quick suite
SCALES = {"sgd global": 2.0**125, "adamw global": 2.0**127}  # 2**127 overflows at first


class Toy(DistributedStep, keras.Model):
    """Two dense layers for inputs of size 5."""

    def __init__(self):
        super().__init__()
        self.hidden = keras.layers.Dense(4, activation="tanh")
        self.outputs = keras.layers.Dense(2)
        self.hidden.build((None, 5))
        self.outputs.build((None, 4))
        self.built = True

    def call(self, x, training=None):
        return self.outputs(self.hidden(x))


class Losses(keras.callbacks.Callback):
    """Record the loss of each step."""

    def __init__(self):
        super().__init__()
        self.steps = []

    def on_train_batch_end(self, batch, logs=None):
        self.steps.append(float(logs["loss"]))
        self.model.reset_metrics()


def make_data(scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Draw one batch per step, whose halves have very different targets and therefore gradients."""
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, (NUM_STEPS * BATCH_SIZE, 5))
    y = rng.normal(0, 1, (NUM_STEPS * BATCH_SIZE, 2)) * rng.choice([0.1, 10.0], (NUM_STEPS * BATCH_SIZE, 1))
    return x.astype("float32"), scale * y.astype("float32")


def make_batches(x, y) -> tf.data.Dataset:
    """Return the batches in order, auto-sharded by data."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH_SIZE).with_options(options)


def train(optimizer, strategy=None, model_class=Toy, **options) -> dict:
    """Train a toy model; return its losses, weights, number of updates and, with loss scaling, the scale."""
    keras.utils.set_random_seed(3)
    with strategy.scope() if strategy else contextlib.nullcontext():
        model, losses = model_class(), Losses()
        optimizer = optimizer()
        model.compile(optimizer, "mse", jit_compile=False)
        for name, value in options.items():
            setattr(model, name, value)
    model.fit(make_batches(*make_data()), callbacks=[losses], shuffle=False, verbose=0)
    weights = [np.array(weight).tolist() for weight in model.trainable_weights]
    scale = float(np.array(optimizer.dynamic_scale)) if hasattr(optimizer, "dynamic_scale") else None
    return {"losses": losses.steps, "weights": weights, "scale": scale, "steps": int(np.array(optimizer.iterations))}


def make_optimizers() -> dict:
    """Return functions that create the compared optimizers, including loss scales that overflow at first."""
    constructors = {
        f"{kind} {limit}": lambda kind=kind, limit=limit: OPTIMIZERS[kind](0.1, **LIMITS[limit])
        for kind, limit in [("sgd", limit) for limit in LIMITS]
        + [("adamw", "global"), ("lamb", "norm"), ("muon", "global")]
    }
    for name, scale in SCALES.items():
        constructors[f"scaled {name}"] = lambda name=name, scale=scale: keras.optimizers.LossScaleOptimizer(
            constructors[name](), initial_scale=scale
        )
    return constructors


def list_consumed_batches(strategy) -> list[int]:
    """Return the batch numbers that `fit` consumes from a generator that cannot restart."""
    numbers = iter(range(NUM_STEPS))
    consumed = []

    def generate():
        for number in numbers:
            yield np.full((BATCH_SIZE, 5), number, "float32"), np.zeros((BATCH_SIZE, 2), "float32")

    class RecordingToy(Toy):
        def call(self, x, training=None):
            if training:
                tf.py_function(lambda first: consumed.append(int(first)), [x[0, 0]], [])
            return super().call(x, training)

    with strategy.scope():
        model = RecordingToy()
        model.compile("sgd", "mse", jit_compile=False)
    spec = (tf.TensorSpec((BATCH_SIZE, 5)), tf.TensorSpec((BATCH_SIZE, 2)))
    dataset = tf.data.Dataset.from_generator(generate, output_signature=spec)
    model.fit(strategy.experimental_distribute_dataset(dataset), epochs=1, verbose=0)
    return consumed


def report(names: list[str]) -> dict:
    """Train with each optimizer on one device and on two replicas, list consumed batches, and train a head."""
    [cpu] = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    # saves a quarter of the time: optimizing graphs does not pay for 20 steps
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    trained = {}
    for name in names:
        make = make_optimizers()[name]
        trained[name] = {"one device": train(make), "two replicas": train(make, strategy)}
        if "scaled" not in name:  # the sum over two micro-batches overflows at a different scale than their mean
            trained[name]["two micro-batches"] = train(make, accumulation_steps=2)
    heads = {
        "whole": train_heads.train_head("pretrainer", None),
        "divided": train_heads.train_head("pretrainer", strategy, micro_batches=2, checkpointing=True, unpad=True),
    }
    return {"trained": trained, "batches": list_consumed_batches(strategy), "pretrainer": heads}


if __name__ == "__main__":
    print(json.dumps(report(sys.argv[1:])), flush=True)
