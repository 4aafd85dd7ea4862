"""Measure the effect of omitting a part of BERT: cosines between sentence vectors with and without it.

    python benchmarks/ablation.py CHECKPOINT TEXTS.txt

CHECKPOINT is a BERT folder with a vocabulary; sentence vectors are the mean of its token vectors. TEXTS has one text
per line; lines 1 and 2, 3 and 4, ... are also used as pairs. Prints the table of docs/reference/formulas.md.
"""

import argparse
import dataclasses
import os
import pathlib
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

import bert_keras as bk

_BATCH_SIZE = 32


def without_biases(path: str, value: np.ndarray) -> np.ndarray:
    """Remove the biases of dense layers."""
    return np.zeros_like(value) if path.endswith("bias") else value


def without_projection(path: str, value: np.ndarray) -> np.ndarray:
    """Replace the output projection with the identity, so that the heads are only concatenated."""
    if "projection/" not in path:
        return value
    return np.eye(len(value), dtype=value.dtype) if path.endswith("kernel") else np.zeros_like(value)


def without_segments(path: str, value: np.ndarray) -> np.ndarray:
    """Remove the segment embeddings."""
    return np.zeros_like(value) if "/segment/" in path else value


def without_all(path: str, value: np.ndarray) -> np.ndarray:
    """Remove all three."""
    for change in (without_biases, without_projection, without_segments):
        value = change(path, value)
    return value


VARIANTS: dict[str, tuple[Callable, str | None]] = {
    "biases of the dense layers": (without_biases, None),
    "output projection": (without_projection, None),
    "segment embeddings": (without_segments, None),
    "GELU (ReLU instead)": (lambda _, value: value, "relu"),
    "all four": (without_all, "relu"),
    "erf (tanh form instead)": (lambda _, value: value, "gelu_tanh"),
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("texts", type=pathlib.Path)
    arguments = parser.parse_args()
    model, tokenizer = bk.load(arguments.checkpoint), bk.load_tokenizer(arguments.checkpoint)
    encoder = getattr(model, "encoder", model)
    lines = [line for line in arguments.texts.read_text(encoding="utf-8").splitlines() if line.strip()]
    firsts, seconds = lines[::2], lines[1::2]
    inputs = [(firsts, None), (firsts[: len(seconds)], seconds)]
    whole = [embed(encoder, tokenizer, *texts) for texts in inputs]
    print("| left out | mean, texts | minimum | mean, pairs | minimum |\n|---|---|---|---|---|")
    for name, (change, hidden_act) in VARIANTS.items():
        variant = modify_encoder(encoder, change, hidden_act)
        cells = [name]
        for texts, expected in zip(inputs, whole, strict=True):
            cosines = (embed(variant, tokenizer, *texts) * expected).sum(axis=1)
            cells += [f"{cosines.mean():.6f}", f"{cosines.min():.6f}"]
        print(f"| {' | '.join(cells)} |", flush=True)


def modify_encoder(encoder: bk.BertEncoder, change: Callable, hidden_act: str | None) -> bk.BertEncoder:
    """Return a copy with weights modified by `change(path, value)` and another activation."""
    config = dataclasses.replace(encoder.config, hidden_act=hidden_act or encoder.config.hidden_act)
    copy = bk.BertEncoder(config, pooler=encoder.pooler is not None)
    for weight, value in zip(copy.weights, encoder.get_weights(), strict=True):
        weight.assign(change(weight.path, value))
    return copy


def embed(encoder: bk.BertEncoder, tokenizer, texts: list[str], seconds: list[str] | None) -> np.ndarray:
    """Return the normalized vectors `(num_texts, D)`."""
    embedder, batches = bk.BertEmbedder(encoder), []
    for start in range(0, len(texts), _BATCH_SIZE):
        part = slice(start, start + _BATCH_SIZE)
        batch_texts = (texts[part],) if seconds is None else (texts[part], seconds[part])
        features = bk.pack(tokenizer, *batch_texts, max_sequence_length=128)
        batches.append(keras.ops.convert_to_numpy(embedder(features, training=False)["embedding"]))
    return np.concatenate(batches)


if __name__ == "__main__":
    main()
