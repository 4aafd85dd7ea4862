"""Forward pass and pretraining step beside the peers, interleaved in one process.

    python benchmarks/speed.py [--sizes tiny mini base] [--rounds 5]

Needs the `test` extra (transformers, torch). Prints medians in milliseconds; a busy machine changes
all of them, so compare within one run only. KerasHub's step has no next-sentence head and so does less work.
"""

import argparse
import os
import statistics
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import keras_hub
import numpy as np
import tensorflow as tf
import torch
import transformers

import bert_keras as bk
from bert_keras.config import PRESETS

FORWARDS = ((1, 128), (8, 128))  # batch, length
NUM_SLOTS = 20


def main() -> None:
    """Prints two tables: forward passes and training steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["tiny", "mini", "base"], choices=list(PRESETS))
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(os.cpu_count())
    for size in arguments.sizes:
        config = bk.BertConfig.from_preset(size)
        for batch, length in FORWARDS:
            show(f"forward {size} {batch} x {length}", measure(forwards(config, batch, length), arguments.rounds))
        batch = 8 if size in ("base", "large") else 32
        show(f"step {size} {batch} x 128", measure(steps(config, batch, 128), arguments.rounds))


def measure(runs: dict, num_rounds: int) -> dict[str, float]:
    """Runs every side once to warm up, then all in turn, and returns medians in seconds."""
    seconds = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(num_rounds):
        for name, run in runs.items():
            started = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in seconds.items()}


def show(what: str, medians: dict[str, float]) -> None:
    """Prints one row."""
    print(what.ljust(24), "  ".join(f"{name} {value * 1e3:,.1f} ms" for name, value in medians.items()), flush=True)


def forwards(config: bk.BertConfig, batch: int, length: int) -> dict:
    """Returns a forward pass of each side on the same ids."""
    ids = np.random.default_rng(0).integers(1000, 30000, (batch, length)).astype("int32")
    features = {"token_ids": ids, "segment_ids": np.zeros_like(ids), "padding_mask": np.ones_like(ids)}
    ours, theirs = bk.BertEncoder(config), keras_hub_backbone(config)
    twin = transformers.BertModel(torch_config(config)).eval()
    plain = tf.function(lambda: ours(features, training=False)["pooled_output"])
    compiled = tf.function(lambda: ours(features, training=False)["pooled_output"], jit_compile=True)
    hub = tf.function(lambda: theirs(features, training=False)["pooled_output"])

    def torch_forward():
        with torch.inference_mode():
            twin(input_ids=torch.from_numpy(ids).long(), attention_mask=torch.ones(batch, length))

    return {
        "ours": lambda: plain().numpy(),
        "ours-xla": lambda: compiled().numpy(),
        "keras-hub": lambda: hub().numpy(),
        "transformers": torch_forward,
    }


def steps(config: bk.BertConfig, batch: int, length: int) -> dict:
    """Returns a pretraining step of each side: AdamW, dropout on, 20 masked slots an example."""
    rng = np.random.default_rng(0)
    ids = rng.integers(1000, 30000, (batch, length)).astype("int32")
    positions = np.tile(np.arange(1, NUM_SLOTS + 1, dtype="int32"), (batch, 1))
    mask_ids, weights = ids[:, 1 : NUM_SLOTS + 1], np.ones((batch, NUM_SLOTS), "float32")
    next_sentence = rng.integers(0, 2, batch).astype("int32")
    features = {"token_ids": ids, "segment_ids": np.zeros_like(ids), "padding_mask": np.ones_like(ids)}
    features["mask_positions"] = positions
    labels = {"mask_ids": mask_ids, "mask_weights": weights, "next_sentence_labels": next_sentence}

    def ours(jit_compile: bool):
        model = bk.BertPretrainer(bk.BertEncoder(config))
        model.compile(keras.optimizers.AdamW(1e-4), jit_compile=jit_compile)
        return lambda: model.train_on_batch(features, labels)

    theirs = keras_hub.models.BertMaskedLM(keras_hub_backbone(config), preprocessor=None)
    theirs.compile(keras.optimizers.AdamW(1e-4), loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return {
        "ours": ours(False),
        "ours-xla": ours(True),
        "keras-hub": lambda: theirs.train_on_batch(features, mask_ids, weights),
        "transformers": torch_step(config, ids, next_sentence),
    }


def torch_step(config: bk.BertConfig, ids: np.ndarray, next_sentence: np.ndarray):
    """Returns a step of transformers' `BertForPreTraining` with 20 labels an example."""
    twin = transformers.BertForPreTraining(torch_config(config)).train()
    optimizer = torch.optim.AdamW(twin.parameters(), 1e-4, fused=True)
    tokens = torch.from_numpy(ids).long()
    labels = torch.full_like(tokens, -100)
    labels[:, 1 : NUM_SLOTS + 1] = tokens[:, 1 : NUM_SLOTS + 1]

    def step():
        optimizer.zero_grad()
        twin(
            input_ids=tokens, labels=labels, next_sentence_label=torch.from_numpy(next_sentence).long()
        ).loss.backward()
        optimizer.step()

    return step


def keras_hub_backbone(config: bk.BertConfig) -> keras_hub.models.BertBackbone:
    """Returns KerasHub's BERT of the same shape."""
    names = ("vocabulary_size", "num_layers", "num_heads", "hidden_dim", "intermediate_dim")
    return keras_hub.models.BertBackbone(**{name: getattr(config, name) for name in names})


def torch_config(config: bk.BertConfig) -> transformers.BertConfig:
    """Returns transformers' config of the same shape."""
    return transformers.BertConfig(
        vocab_size=config.vocabulary_size,
        num_hidden_layers=config.num_layers,
        hidden_size=config.hidden_dim,
        num_attention_heads=config.num_heads,
        intermediate_size=config.intermediate_dim,
    )


if __name__ == "__main__":
    main()
