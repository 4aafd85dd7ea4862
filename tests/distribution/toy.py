"""A small model with a distributed step, trained on one device and on two replicas.

python toy.py NAME...: prints what `report` returns for these optimizers, as JSON.
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
from bert_keras.training.optimizers.adamw_and_lamb import BertAdamW, Lamb
from tests.distribution import train_heads

BATCH_SIZE, NUM_STEPS = 6, 4
LIMITS = {"plain": {}, "global": {"global_clipnorm": 0.05}, "norm": {"clipnorm": 0.04}, "value": {"clipvalue": 0.02}}
OPTIMIZERS = {"sgd": keras.optimizers.SGD, "adamw": BertAdamW, "lamb": Lamb}
QUICK = ("sgd plain", "sgd norm", "scaled adamw global")  # what the quick suite compares
SCALES = {"sgd global": 2.0**125, "adamw global": 2.0**127}  # 2**127 overflows at first


class Toy(DistributedStep, keras.Model):
    """Two dense layers on 5 numbers."""

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


def data(scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Draw one batch per step; its halves are very different, and so are their gradients."""
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, (NUM_STEPS * BATCH_SIZE, 5))
    y = rng.normal(0, 1, (NUM_STEPS * BATCH_SIZE, 2)) * rng.choice([0.1, 10.0], (NUM_STEPS * BATCH_SIZE, 1))
    return x.astype("float32"), scale * y.astype("float32")


def batches(x, y) -> tf.data.Dataset:
    """Return a dataset in order, with auto-sharding off."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH_SIZE).with_options(options)


def train(optimizer, strategy=None, made=Toy, **options) -> dict:
    """Train a toy model; return its losses, weights and, with a scaled loss, the scale."""
    keras.utils.set_random_seed(3)
    with strategy.scope() if strategy else contextlib.nullcontext():
        model, losses = made(), Losses()
        optimizer = optimizer()
        model.compile(optimizer, "mse", jit_compile=False)
        for name, value in options.items():
            setattr(model, name, value)
    model.fit(batches(*data()), callbacks=[losses], shuffle=False, verbose=0)
    weights = [np.array(weight).tolist() for weight in model.trainable_weights]
    scale = float(np.array(optimizer.dynamic_scale)) if hasattr(optimizer, "dynamic_scale") else None
    return {"losses": losses.steps, "weights": weights, "scale": scale, "steps": int(np.array(optimizer.iterations))}


def makers() -> dict:
    """Return constructors of the compared optimizers, also with a loss scale that overflows at first."""
    found = {
        f"{kind} {limit}": lambda kind=kind, limit=limit: OPTIMIZERS[kind](0.1, **LIMITS[limit])
        for kind, limit in [("sgd", limit) for limit in LIMITS] + [("adamw", "global"), ("lamb", "norm")]
    }
    for name, scale in SCALES.items():
        found[f"scaled {name}"] = lambda name=name, scale=scale: keras.optimizers.LossScaleOptimizer(
            found[name](), initial_scale=scale
        )
    return found


def read_batches(strategy) -> list[int]:
    """Return the numbers of the batches that `fit` takes from a generator that cannot restart."""
    numbers = iter(range(NUM_STEPS))
    seen = []

    def generate():
        for number in numbers:
            yield np.full((BATCH_SIZE, 5), number, "float32"), np.zeros((BATCH_SIZE, 2), "float32")

    class Seeing(Toy):
        def call(self, x, training=None):
            if training:
                tf.py_function(lambda first: seen.append(int(first)), [x[0, 0]], [])
            return super().call(x, training)

    with strategy.scope():
        model = Seeing()
        model.compile("sgd", "mse", jit_compile=False)
    spec = (tf.TensorSpec((BATCH_SIZE, 5)), tf.TensorSpec((BATCH_SIZE, 2)))
    dataset = tf.data.Dataset.from_generator(generate, output_signature=spec)
    model.fit(strategy.experimental_distribute_dataset(dataset), epochs=1, verbose=0)
    return seen


def report(names: list[str]) -> dict:
    """Train with the optimizers on one device and on two replicas, count consumed batches, and train a head."""
    [cpu] = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    trained = {}
    for name in names:
        make = makers()[name]
        trained[name] = {"one device": train(make), "two replicas": train(make, strategy)}
        if "scaled" not in name:  # the sum of two parts overflows at another scale than their mean
            trained[name]["two parts"] = train(make, accumulation_steps=2)
    # a quarter of the time of a training goes into improving graphs that run 20 times
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    heads = {
        "whole": train_heads.trained("pretrainer", None),
        "divided": train_heads.trained("pretrainer", strategy, parts=2, checkpointing=True, unpad=True),
    }
    return {"trained": trained, "batches": read_batches(strategy), "pretrainer": heads}


if __name__ == "__main__":
    print(json.dumps(report(sys.argv[1:])), flush=True)
