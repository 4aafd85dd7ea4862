"""Train a tiny model of every head and print its logs, scores and weights as JSON.

python train_heads.py [--devices 4] [--micro-batches 2] [--steps 20] [--checkpointing] [--jit] [--jit-update]
    [--unpad] [--policy mixed_float16]
"""

import argparse
import contextlib
import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

import bert_keras as bk
from bert_keras.training import adamw

BATCH_SIZE, LENGTH, NUM_MASKED, VOCABULARY = 8, 11, 4, 61
CONFIG = bk.BertConfig(
    vocabulary_size=VOCABULARY,
    num_layers=1,
    num_heads=2,
    hidden_dim=12,
    intermediate_dim=20,
    max_sequence_length=16,
    hidden_dropout_rate=0.2,
    attention_dropout_rate=0.2,
)
GENERATOR = bk.BertConfig(**{**CONFIG.to_dict(), "hidden_dim": 8, "intermediate_dim": 12, "embedding_dim": 12})
HEADS = {
    "pretrainer": lambda: bk.BertPretrainer(bk.BertEncoder(CONFIG)),
    "electra": lambda: bk.ElectraPretrainer(bk.BertEncoder(CONFIG, pooler=False), GENERATOR),
    "classifier": lambda: bk.BertClassifier(bk.BertEncoder(CONFIG), 3),
    "multi_label": lambda: bk.BertClassifier(bk.BertEncoder(CONFIG), 3, problem="multi_label"),
    "token_classifier": lambda: bk.BertTokenClassifier(bk.BertEncoder(CONFIG, pooler=False), 3),
    "question_answerer": lambda: bk.BertQuestionAnswerer(bk.BertEncoder(CONFIG, pooler=False)),
}


def make_data(head: str, num_steps: int) -> tuple:
    """Draw sequences of very different lengths, so that the weights of their labels differ too."""
    rng = np.random.default_rng(3)
    num_sequences = BATCH_SIZE * num_steps
    lengths = rng.integers(3, LENGTH + 1, (num_sequences, 1))
    positions = np.arange(LENGTH)[None, :]
    padding_mask = (positions < lengths).astype("int32")
    x = {
        "token_ids": rng.integers(5, VOCABULARY, padding_mask.shape).astype("int32") * padding_mask,
        "padding_mask": padding_mask,
        "segment_ids": (positions >= lengths // 2).astype("int32") * padding_mask,
    }
    if head in ("pretrainer", "electra"):
        used = np.arange(NUM_MASKED) < rng.integers(0, np.minimum(NUM_MASKED, lengths - 1) + 1)
        draws = rng.random((num_sequences, LENGTH - 1)) + (positions[:, 1:] >= lengths)  # sorts padding to the end
        masked_positions = np.argsort(draws, axis=1)[:, :NUM_MASKED] + 1  # without duplicates
        x["mask_positions"] = (masked_positions * used).astype("int32")
        ids = rng.integers(5, VOCABULARY, used.shape).astype("int32")
        y = {"mask_ids": ids, "mask_weights": used.astype("float32")}
        return x, y | ({"next_sentence_labels": rng.integers(0, 2, num_sequences)} if head == "pretrainer" else {})
    if head == "token_classifier":
        return x, np.where(padding_mask == 1, rng.integers(0, 3, padding_mask.shape), -100).astype("int32")
    if head == "question_answerer":
        return x, {name: rng.integers(0, lengths[:, 0]) for name in ("start_positions", "end_positions")}
    if head == "multi_label":
        return x, rng.integers(0, 2, (num_sequences, 3)).astype("float32")
    return x, rng.integers(0, 3, num_sequences), rng.random(num_sequences).astype("float32")


class Logs(keras.callbacks.Callback):
    """Record the logs of each step, reset after every step."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def on_train_batch_end(self, batch, logs=None):
        self.lines.append({name: float(value) for name, value in logs.items()})
        self.model.reset_metrics()


def main() -> None:
    """Train every head."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=0, help="number of logical devices of the MirroredStrategy")
    parser.add_argument("--micro-batches", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--checkpointing", action="store_true", help="recompute the blocks in the backward pass")
    parser.add_argument("--jit", action="store_true")
    parser.add_argument("--jit-update", action="store_true")
    parser.add_argument("--unpad", action="store_true")
    parser.add_argument("--policy", default="float32")
    parser.add_argument("--heads", nargs="+", default=list(HEADS))
    arguments = parser.parse_args()
    strategy = None
    if arguments.devices:
        [cpu] = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * arguments.devices)
        strategy = tf.distribute.MirroredStrategy([f"CPU:{index}" for index in range(arguments.devices)])
    keras.config.set_dtype_policy(arguments.policy)
    options = {name: getattr(arguments, name) for name in ("steps", "jit", "jit_update", "micro_batches")}
    options |= {"checkpointing": arguments.checkpointing, "unpad": arguments.unpad}
    print(json.dumps({head: train_head(head, strategy, **options) for head in arguments.heads}), flush=True)


def train_head(
    head: str,
    strategy: tf.distribute.Strategy | None,
    *,
    steps: int = 20,
    micro_batches: int = 1,
    checkpointing: bool = False,
    unpad: bool = False,
    jit: bool = False,
    jit_update: bool = False,
) -> dict:
    """Train a head; return the logs of each step, the scores and a sample of the weights."""
    keras.utils.set_random_seed(5)
    with strategy.scope() if strategy else contextlib.nullcontext():
        model = HEADS[head]()
        optimizer = adamw(1e-2, steps, clip_norm=0.5)  # low enough to clip at every step
        optimizer.jit_update = jit_update
        model.compile(
            optimizer,
            jit_compile=jit,
            accumulation_steps=micro_batches,
            gradient_checkpointing=checkpointing,
            unpad=unpad,
        )
    data = tf.data.Dataset.from_tensor_slices(make_data(head, steps)).batch(BATCH_SIZE, drop_remainder=True)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    data, logs = data.with_options(options), Logs()
    model.fit(data, callbacks=[logs], shuffle=False, verbose=0)
    scores = model.evaluate(data.take(3), verbose=0, return_dict=True)
    weights = np.concatenate([weight.numpy().ravel() for weight in model.trainable_weights])
    return {"steps": logs.lines, "scores": scores, "weights": weights[:: len(weights) // 200].tolist()}


if __name__ == "__main__":
    main()
