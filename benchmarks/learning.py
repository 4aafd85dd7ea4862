"""Compare how much a model learns in a given time with KerasHub: same records, masks, optimizer and clock.

    python benchmarks/learning.py RECORDS --side ours --minutes 30 [--size mini] [--clock wall]
    python benchmarks/learning.py RECORDS --side keras-hub --minutes 30

RECORDS is a folder of `make-records --objective none`. Both sides train a masked LM on the same batches, with AdamW,
6 % warm-up and linear decay to the end of the time, and are scored on the same held-out records with the same masks.
The only difference is the model: `BertMaskedLM` of this project, compiled as by `bert-keras pretrain`, and KerasHub's
`BertMaskedLM` with its defaults. Prints one JSON line.

`--clock cpu` measures the process's CPU time divided by the number of cores instead of wall-clock time, so that two
sides can run at the same time on a busy machine and get the same share.
"""

import argparse
import json
import os
import pathlib
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import tensorflow as tf

import bert_keras as bk
from bert_keras.pipelines.batches.pretraining_batches import make_pretraining_batches
from bert_keras.training.freed_memory import keep_freed_memory
from bert_keras.training.optimizers.named_optimizers import adamw
from bert_keras.training.optimizers.schedules import TimedLearningRate

CLOCKS = {"wall": time.monotonic, "cpu": lambda: time.process_time() / os.cpu_count()}
_WITHOUT_END = 10**9


def main() -> None:
    """Train and score one side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=pathlib.Path)
    parser.add_argument("--side", choices=["ours", "keras-hub"], required=True)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--size", default="mini")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    arguments = parser.parse_args()

    keras.utils.set_random_seed(0)
    tokenizer = bk.BertTokenizer.from_checkpoint(arguments.records)
    train = make_pretraining_batches(arguments.records, tokenizer, batch_size=arguments.batch_size, epochs=None)
    held_out = make_pretraining_batches(
        arguments.records, tokenizer, batch_size=arguments.batch_size, split="held_out", masking="static", shuffle=False
    )
    model, compiled_with = MODELS[arguments.side](arguments.size, tokenizer.vocabulary_size)
    clock = CLOCKS[arguments.clock]
    timer = TimedLearningRate("linear", arguments.learning_rate, arguments.minutes * 60, 0.06, clock=clock)
    counter = CountSteps()
    model.compile(adamw(arguments.learning_rate, None), **compiled_with)
    batches, scored = (train, held_out) if arguments.side == "ours" else (train.map(flatten), held_out.map(flatten))
    model.fit(batches, steps_per_epoch=_WITHOUT_END, callbacks=[timer, counter], shuffle=False, verbose=0)
    scores = model.evaluate(scored, verbose=0, return_dict=True)
    scores = {name.replace("mlm_logits_", "").removeprefix("mlm_"): value for name, value in scores.items()}
    tokens = counter.num_steps * arguments.batch_size * tokens_per_sequence(arguments.records)
    result = {
        "side": arguments.side,
        "steps": counter.num_steps,
        "minutes": timer.elapsed_seconds / 60,
        "tokens": tokens,
        "held_out_loss": scores["loss"],
        "held_out_accuracy": scores["accuracy"],
    }
    print(json.dumps(result), flush=True)


def our_model(size: str, vocabulary_size: int):
    """Return `BertMaskedLM` and the compile arguments of `pretrain`."""
    keep_freed_memory()
    config = bk.BertConfig.from_preset(size, vocabulary_size=vocabulary_size, max_sequence_length=128)
    return bk.BertMaskedLM(bk.BertEncoder(config, pooler=False)), {"jit_compile": True}


def keras_hub_model(size: str, vocabulary_size: int):
    """Return KerasHub's `BertMaskedLM` of the same size, with its defaults."""
    import keras_hub

    config = bk.BertConfig.from_preset(size, vocabulary_size=vocabulary_size)
    names = ("vocabulary_size", "num_layers", "num_heads", "hidden_dim", "intermediate_dim")
    shape = {name: getattr(config, name) for name in names}
    backbone = keras_hub.models.BertBackbone(**shape, max_sequence_length=128)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")
    metrics = [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]
    return keras_hub.models.BertMaskedLM(backbone, preprocessor=None), {"loss": loss, "weighted_metrics": metrics}


MODELS = {"ours": our_model, "keras-hub": keras_hub_model}


class CountSteps(keras.callbacks.Callback):
    """Count the optimizer steps."""

    num_steps = 0

    def on_train_batch_end(self, batch, logs=None):
        self.num_steps += 1


def flatten(features: dict, labels: dict) -> tuple[dict, tf.Tensor, tf.Tensor]:
    """Return (features, ids, weights) for KerasHub."""
    return features, labels["mask_ids"], labels["mask_weights"]


def tokens_per_sequence(records: pathlib.Path) -> float:
    """Return the average number of real tokens per training sequence."""
    counts = json.loads((records / "manifest.json").read_text())["splits"]["train"]
    return counts["num_tokens"] / counts["num_records"]


if __name__ == "__main__":
    main()
