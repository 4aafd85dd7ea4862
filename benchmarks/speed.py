"""Compare the speed of the forward pass and the pretraining step with other libraries, in one process.

    python benchmarks/speed.py [--sizes tiny mini base] [--rounds 5]

Requires the `test` extra (transformers, torch). Prints medians in milliseconds over alternating runs. Other work on the
machine affects every number, so only compare numbers of one run. KerasHub's step computes less, because it has no
next-sentence head.
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

FORWARDS = ((1, 128), (8, 128))  # (batch size, length)
NUM_MASKED = 20


def main() -> None:
    """Print the times of forward passes and training steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["tiny", "mini", "base"], choices=list(PRESETS))
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(os.cpu_count())
    for size in arguments.sizes:
        config = bk.BertConfig.from_preset(size)
        for batch, length in FORWARDS:
            passes = make_forward_passes(config, batch, length)
            print_line(f"forward {size} {batch} x {length}", measure(passes, arguments.rounds))
        batch = 8 if size in ("base", "large") else 32
        print_line(f"step {size} {batch} x 128", measure(make_training_steps(config, batch, 128), arguments.rounds))


def measure(runs: dict, num_rounds: int) -> dict[str, float]:
    """Run every side once to warm up, then alternately; return the median seconds of each."""
    seconds = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(num_rounds):
        for name, run in runs.items():
            started = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in seconds.items()}


def print_line(title: str, medians: dict[str, float]) -> None:
    """Print a line of results."""
    print(title.ljust(24), "  ".join(f"{name} {value * 1e3:,.1f} ms" for name, value in medians.items()), flush=True)


def make_forward_passes(config: bk.BertConfig, batch: int, length: int) -> dict:
    """Return the forward pass of each library on the same ids."""
    ids = np.random.default_rng(0).integers(1000, 30000, (batch, length)).astype("int32")
    features = {"token_ids": ids, "segment_ids": np.zeros_like(ids), "padding_mask": np.ones_like(ids)}
    ours, theirs = bk.BertEncoder(config), keras_hub_backbone(config)
    model = transformers.BertModel(torch_config(config)).eval()
    plain = tf.function(lambda: ours(features, training=False)["pooled_output"])
    compiled = tf.function(lambda: ours(features, training=False)["pooled_output"], jit_compile=True)
    hub = tf.function(lambda: theirs(features, training=False)["pooled_output"])

    def torch_forward():
        with torch.inference_mode():
            model(input_ids=torch.from_numpy(ids).long(), attention_mask=torch.ones(batch, length))

    return {
        "ours": lambda: plain().numpy(),
        "ours-xla": lambda: compiled().numpy(),
        "keras-hub": lambda: hub().numpy(),
        "transformers": torch_forward,
    }


def make_training_steps(config: bk.BertConfig, batch: int, length: int) -> dict:
    """Return the pretraining step of each library: AdamW, dropout, 20 masked positions per sequence."""
    rng = np.random.default_rng(0)
    ids = rng.integers(1000, 30000, (batch, length)).astype("int32")
    positions = np.tile(np.arange(1, NUM_MASKED + 1, dtype="int32"), (batch, 1))
    mask_ids, weights = ids[:, 1 : NUM_MASKED + 1], np.ones((batch, NUM_MASKED), "float32")
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
    """Return a step of transformers' `BertForPreTraining` with 20 labels per sequence."""
    model = transformers.BertForPreTraining(torch_config(config)).train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    tokens = torch.from_numpy(ids).long()
    labels = torch.full_like(tokens, -100)
    labels[:, 1 : NUM_MASKED + 1] = tokens[:, 1 : NUM_MASKED + 1]

    def step():
        optimizer.zero_grad()
        model(
            input_ids=tokens, labels=labels, next_sentence_label=torch.from_numpy(next_sentence).long()
        ).loss.backward()
        optimizer.step()

    return step


def keras_hub_backbone(config: bk.BertConfig) -> keras_hub.models.BertBackbone:
    """Return KerasHub's BERT with the same sizes."""
    names = ("vocabulary_size", "num_layers", "num_heads", "hidden_dim", "intermediate_dim")
    return keras_hub.models.BertBackbone(**{name: getattr(config, name) for name in names})


def torch_config(config: bk.BertConfig) -> transformers.BertConfig:
    """Return transformers' config with the same sizes."""
    return transformers.BertConfig(
        vocab_size=config.vocabulary_size,
        num_hidden_layers=config.num_layers,
        hidden_size=config.hidden_dim,
        num_attention_heads=config.num_heads,
        intermediate_size=config.intermediate_dim,
    )


if __name__ == "__main__":
    main()
