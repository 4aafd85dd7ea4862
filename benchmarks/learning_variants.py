"""Train variants of the recipe fast, of the schedule and of BERT's architecture, for the same processor time.

    taskset -c 0 python benchmarks/learning_variants.py RECORDS --variant pre_norm --out variants.jsonl

RECORDS, the scores and the clock are those of benchmarks/learning.py. The models cannot be saved: the variants of the
architecture are not BERT. Variants:

    recipe            the recipe fast as it is
    wsd               constant rate after the warm-up; falls to 0 in the last fifth (Hu et al. 2024, arXiv 2404.06395)
    growing_batches   batches of 8, 16 and 32, each for a third of the time
    growing_lengths   sequences of 64 tokens in half of the time, then 128; --short-records has the former
    sinusoidal_start  the learned position table starts at sinusoids (Vaswani et al. 2017) of deviation 0.02
    larger_sinusoids  the same with three times this deviation
    local_attention   the same, and equal query and key kernels of deviation 1 / sqrt(D), so that tokens first attend to
                      their neighbours (as Trockman & Kolter 2023, 2305.09828)
    pre_norm          norm before attention and feed-forward, and after the last block (Xiong et al. 2020, 2002.04745)
    no_biases         dense layers of the blocks without biases, norms of the blocks without shifts
    geglu             feed-forward of 2/3 the width with a GELU gate (Shazeer 2020, 2002.05202), as many weights
    rope              rotary positions (Su et al. 2021, 2104.09864) instead of learned ones
    modern            the four changes of the architecture together, as in ModernBERT (Warner et al. 2024, 2412.13663)
"""

import argparse
import dataclasses
import itertools
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import learning
import numpy as np
from keras import ops

import bert_keras as bk
from bert_keras.architectures import encoder as encoder_module
from bert_keras.architectures.layers import (
    BertEmbeddings,
    ConfiguredLayer,
    compute_sinusoidal_positions,
    gelu,
    make_initializer,
)
from bert_keras.training import TimedLearningRate, make_optimizer
from bert_keras.training.pretraining import compile_for_pretraining, set_output_bias
from bert_keras.training.strategies import keep_freed_memory

ARCHITECTURES = {name: {name} for name in ("pre_norm", "no_biases", "geglu", "rope")}
ARCHITECTURES["modern"] = set(ARCHITECTURES)
SINUSOIDS = {"sinusoidal_start": 0.02, "larger_sinusoids": 0.06, "local_attention": 0.06}  # standard deviations
VARIANTS = ("recipe", "wsd", "growing_batches", "growing_lengths", *SINUSOIDS, *ARCHITECTURES)
_DECAY_SHARE = 0.2  # of the time


def main() -> None:
    """Train one variant and append its curve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=pathlib.Path)
    parser.add_argument("--variant", choices=VARIANTS, default="recipe")
    parser.add_argument("--short-records", type=pathlib.Path, help="the same text in sequences of 64 tokens")
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--minutes", type=float, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--score-every", type=float, default=2, help="minutes")
    parser.add_argument("--clock", choices=learning.CLOCKS, default="cpu")
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    if (arguments.variant == "growing_lengths") != bool(arguments.short_records):
        parser.error("--variant growing_lengths needs --short-records, and no other variant does")
    settings = {"side": arguments.variant, "recipe": "fast", "size": "mini", "set": []}
    arguments = argparse.Namespace(**vars(arguments), **settings)
    keras.utils.set_random_seed(arguments.seed)
    curve = learning.Curve(arguments, learning.PausableClock(learning.CLOCKS[arguments.clock]))
    keep_freed_memory()
    run = learning.resolve(arguments, {})
    tokenizer = bk.BertTokenizer.from_checkpoint(arguments.records)
    model = build(run.model.bert_config(tokenizer.vocabulary_size, 128), ARCHITECTURES.get(arguments.variant, set()))
    set_output_bias(model, arguments.records, tokenizer)
    if arguments.variant in SINUSOIDS:
        table = model.encoder.embeddings.position.embeddings
        table.assign(compute_sinusoidal_positions(*table.shape) * SINUSOIDS[arguments.variant] * 2**0.5)
    if arguments.variant == "local_attention":
        rng = np.random.default_rng(arguments.seed)
        for block in model.encoder.blocks:
            query, key = block.attention.query.kernel, block.attention.key.kernel
            query.assign(rng.normal(0, query.shape[0] ** -0.5, query.shape))
            key.assign(query)
    compile_for_pretraining(model, run, make_optimizer(run.optimizer, None))
    timer_class = StableThenFalling if arguments.variant == "wsd" else TimedLearningRate
    phases = list_phases(arguments)
    learning.fit(model, run, arguments, curve, lambda *batch: batch, phases=phases, timer_class=timer_class)


def list_phases(arguments: argparse.Namespace) -> list[tuple[float, pathlib.Path, int]] | None:
    """Return the phases of a variant, see `learning.fit`."""
    long, short = arguments.records, arguments.short_records
    return {
        "growing_batches": [(1 / 3, long, 8), (2 / 3, long, 16), (1.0, long, 32)],
        "growing_lengths": [(0.5, short, 32), (1.0, long, 16)],
    }.get(arguments.variant)


class StableThenFalling(TimedLearningRate):
    """Warm-up, stable rate, linear decay in the last fifth (WSD)."""

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        """Set the learning rate."""
        progress = min(self.elapsed_seconds / self.seconds, 1.0)
        fraction = min(progress / self.warmup_ratio, 1.0, (1.0 - progress) / _DECAY_SHARE)
        self.model.optimizer.learning_rate = self.peak_learning_rate * fraction


def build(config: bk.BertConfig, changes: set[str]) -> keras.Model:
    """Build a masked LM whose architecture has some changes."""
    if not changes:
        return bk.BertMaskedLM(bk.BertEncoder(config, pooler=False, name="encoder"))
    numbers = itertools.count(1)
    original = encoder_module.TransformerBlock
    encoder_module.TransformerBlock = lambda config, **kwargs: VariantBlock(
        config, changes, is_last=next(numbers) == config.num_layers, **kwargs
    )
    try:
        embeddings = EmbeddingsWithoutPositions(config, name="embeddings") if "rope" in changes else None
        return bk.BertMaskedLM(bk.BertEncoder(config, pooler=False, embeddings=embeddings, name="encoder"))
    finally:
        encoder_module.TransformerBlock = original


class EmbeddingsWithoutPositions(BertEmbeddings):
    """Token and segment embeddings alone."""

    def __init__(self, config: bk.BertConfig, **kwargs: object):
        super().__init__(dataclasses.replace(config, position_type="sinusoidal"), **kwargs)  # without a table

    def embed_positions(self, positions: keras.KerasTensor) -> keras.KerasTensor:
        """Return zeros."""
        return ops.zeros((1, 1), self.compute_dtype)


class VariantBlock(ConfiguredLayer):
    """A transformer block without dropout, with some changes; without any, it is `TransformerBlock`."""

    def __init__(self, config: bk.BertConfig, changes: set[str], *, is_last: bool, **kwargs: object):
        super().__init__(config, **kwargs)
        self.changes = frozenset(changes)
        width, inner = config.hidden_dim, config.intermediate_dim
        self.has_gate = "geglu" in changes
        if self.has_gate:
            inner = round(inner * 2 / 3 / 16) * 16
        self.query, self.key, self.value, self.projection = (
            self.dense(width, name) for name in ("query", "key", "value", "projection")
        )
        self.intermediate = self.dense(2 * inner if self.has_gate else inner, "intermediate")
        self.feed_forward = self.dense(width, "feed_forward")
        self.attention_norm, self.feed_forward_norm = self.norm("attention_norm"), self.norm("feed_forward_norm")
        self.final_norm = self.norm("final_norm") if is_last and "pre_norm" in changes else None
        for layer in (self.query, self.key, self.value, self.projection, self.intermediate):
            layer.build((None, width))
        self.feed_forward.build((None, inner))
        for layer in filter(None, (self.attention_norm, self.feed_forward_norm, self.final_norm)):
            layer.build((None, width))

    def dense(self, units: int, name: str) -> keras.layers.Dense:
        """Return a dense layer, with a bias or without."""
        initializer = make_initializer(self.config)
        return keras.layers.Dense(
            units, use_bias="no_biases" not in self.changes, kernel_initializer=initializer, name=name
        )

    def norm(self, name: str) -> keras.layers.LayerNormalization:
        """Return a layer norm, with a shift or without."""
        return keras.layers.LayerNormalization(
            epsilon=self.config.layer_norm_epsilon, center="no_biases" not in self.changes, name=name
        )

    def call(self, x, layout, query_positions=None, training=None):
        """Compute the block, see `TransformerBlock`; without attention scores."""
        rows = None if query_positions is None else layout.row_indices(query_positions)
        queries = x if rows is None else ops.take(x, rows, axis=0)
        if "pre_norm" in self.changes:
            x = queries + self.attend(self.attention_norm(x), layout, rows, query_positions)
            x = x + self.transform(self.feed_forward_norm(x))
            return x if self.final_norm is None else self.final_norm(x), None
        x = self.attention_norm(queries + self.attend(x, layout, rows, query_positions))
        return self.feed_forward_norm(x + self.transform(x)), None

    def attend(self, x, layout, rows, query_positions):
        """Return the projected context of the queries in `rows`, or of all: `(B*R, D)`."""
        queries = x if rows is None else ops.take(x, rows, axis=0)
        key, value = self.split_heads(self.key(x), layout), self.split_heads(self.value(x), layout)
        query = self.split_heads(self.query(queries), layout)
        if "rope" in self.changes:
            positions = ops.arange(ops.shape(key)[2])[None]
            key = rotate(key, positions)
            query = rotate(query, positions if query_positions is None else query_positions)
        scores = ops.matmul(query * self.config.head_dim**-0.5, ops.transpose(key, (0, 1, 3, 2)))
        context = ops.matmul(ops.softmax(scores + layout.attention_bias, axis=-1), value)
        context = ops.reshape(ops.transpose(context, (0, 2, 1, 3)), (-1, self.config.hidden_dim))
        return self.projection(context)

    def split_heads(self, x, layout):
        """Return flat vectors as `(B, N, R, H)`."""
        batch = ops.shape(layout.attention_bias)[0]
        x = ops.reshape(x, (batch, -1, self.config.num_heads, self.config.head_dim))
        return ops.transpose(x, (0, 2, 1, 3))

    def transform(self, x):
        """Return the output of the feed-forward network."""
        hidden = self.intermediate(x)
        if self.has_gate:
            gate, hidden = ops.split(hidden, 2, axis=-1)
            return self.feed_forward(gelu(gate) * hidden)
        return self.feed_forward(gelu(hidden))


def rotate(x, positions):
    """Rotate the halves of each head `(B, N, R, H)` by angles that grow with the positions `(B, R)` or `(1, R)`."""
    half = x.shape[-1] // 2
    frequencies = 10_000.0 ** (-np.arange(half, dtype="float32") / half)
    angles = ops.cast(positions, "float32")[:, None, :, None] * frequencies
    first, second = ops.split(x, 2, axis=-1)
    cosine, sine = ops.cos(angles), ops.sin(angles)
    return ops.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)


if __name__ == "__main__":
    main()
