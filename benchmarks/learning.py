"""Compare how much a masked LM learns in a given time with KerasHub and transformers: same records, masks and clock.

    python benchmarks/learning.py RECORDS --side ours --recipe fast --minutes 10 --out curves.jsonl
    python benchmarks/learning.py RECORDS --side keras-hub --learning-rate 5e-4 --minutes 30 --out curves.jsonl
    python benchmarks/learning.py RECORDS --side transformers --minutes 30 --out curves.jsonl
    python benchmarks/learning.py RECORDS --draw curves.jsonl --picture curves.png

RECORDS is a folder of `make-records --objective none`. Every side reads the same records, with its own batch size and
masks, and is scored on the same held-out records with the same masks. Scoring takes no time of the budget, nor does
counting tokens. The sides are

    ours            `bert-keras pretrain` with a recipe (default: none, AdamW), compiled by XLA
    keras-hub       KerasHub's BertMaskedLM with its defaults, AdamW, 6 % warm-up, linear decay, compiled by XLA
    transformers    BertForMaskedLM as run_mlm.py trains it: AdamW, 5e-5, linear decay without warm-up, batches of 8

`--save FOLDER` writes the model as a checkpoint folder, to fine-tune it. `--clock cpu` measures the process's CPU time
divided by the number of cores instead of wall-clock time, for a busy machine.
"""

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import time
from collections.abc import Callable, Iterator, Sequence

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

import bert_keras as bk
from bert_keras.pipelines.batches.pretraining_batches import make_pretraining_batches
from bert_keras.pipelines.records.manifest import read_manifest
from bert_keras.training import Pretraining, TimedLearningRate, make_optimizer
from bert_keras.training.config.sources import infer_settings
from bert_keras.training.optimizers.schedules import compute_rate
from bert_keras.training.pretraining import build_model, compile_for_pretraining, set_output_bias
from bert_keras.training.strategies import keep_freed_memory

CLOCKS = {"wall": time.monotonic, "cpu": lambda: time.process_time() / os.cpu_count()}
SIDES = ("ours", "keras-hub", "transformers")
_KERAS_HUB_SETTINGS = {"optimizer.warmup_ratio": 0.06, "optimizer.clip_norm": 0.0}
_RUN_MLM_BATCH_SIZE, _RUN_MLM_RATE = 8, 5e-5
_WITHOUT_END = 10**9


def main() -> None:
    """Train and score one side, or draw the curves of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=pathlib.Path)
    parser.add_argument("--side", choices=SIDES)
    parser.add_argument("--recipe")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as in pretrain")
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--size", default="mini")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--score-every", type=float, default=2, help="minutes")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--out", type=pathlib.Path, help="JSON Lines file, to which the curve is added")
    parser.add_argument("--save", type=pathlib.Path)
    parser.add_argument("--draw", type=pathlib.Path)
    parser.add_argument("--picture", type=pathlib.Path, default=pathlib.Path("curves.png"))
    arguments = parser.parse_args()
    if arguments.draw:
        draw(arguments.draw, arguments.picture)
        return
    if not arguments.side:
        parser.error("--side or --draw is required")
    keras.utils.set_random_seed(arguments.seed)
    clock = PausableClock(CLOCKS[arguments.clock])
    curve = Curve(arguments, clock)
    TRAINERS[arguments.side](arguments, curve)


class PausableClock:
    """A clock that stands still while the model is scored."""

    def __init__(self, clock: Callable[[], float]):
        self._clock = clock
        self._paused = 0.0

    def __call__(self) -> float:
        return self._clock() - self._paused

    def pause(self, work: Callable[[], dict]) -> dict:
        """Do some work, and return its result; the clock does not count its time."""
        begin = self._clock()
        result = work()
        self._paused += self._clock() - begin
        return result


class Curve:
    """Score a side now and then, and print and store each point."""

    def __init__(self, arguments: argparse.Namespace, clock: PausableClock):
        self._about = {name: getattr(arguments, name) for name in ("side", "recipe", "learning_rate", "seed", "size")}
        self._about |= {"settings": arguments.set, "budget_minutes": arguments.minutes, "clock": arguments.clock}
        self._out = arguments.out
        self._interval = 60 * arguments.score_every
        self.clock = clock
        self.begin = None
        self._next = 0.0
        self.num_steps = 0

    @property
    def seconds(self) -> float:
        """The time of the training so far."""
        return self.clock() - self.begin

    def start(self) -> None:
        """Start the clock; the second phase of a training does not start it again."""
        if self.begin is None:
            self.begin = self.clock()

    def step(self, score: Callable[[], dict], *, is_last: bool = False) -> None:
        """Count a step, and score the model if it is time."""
        self.num_steps += not is_last
        seconds = self.seconds
        if seconds < self._next and not is_last:
            return
        self._next = seconds + self._interval
        scores = self.clock.pause(score)
        line = json.dumps({**self._about, "minutes": seconds / 60, "steps": self.num_steps, **scores})
        print(line, flush=True)
        if self._out:
            with self._out.open("a", encoding="utf-8") as file:
                file.write(line + "\n")


class ScoreNowAndThen(keras.callbacks.Callback):
    """Record the curve of a Keras model."""

    def __init__(self, curve: Curve, held_out: tf.data.Dataset):
        super().__init__()
        self._curve, self._held_out = curve, held_out

    def on_train_begin(self, logs=None):
        self._curve.start()

    def on_train_batch_end(self, batch, logs=None):
        self._curve.step(self._score)

    def on_train_end(self, logs=None):
        self._curve.step(self._score, is_last=True)

    def _score(self) -> dict:
        scores = self.model.evaluate(self._held_out, verbose=0, return_dict=True)
        accuracy = next(value for name, value in scores.items() if name.endswith("accuracy"))
        return {"held_out_loss": scores["loss"], "held_out_accuracy": accuracy}


def train_ours(arguments: argparse.Namespace, curve: Curve) -> None:
    """Train as `bert-keras pretrain` does with a budget of hours."""
    run = resolve(arguments, {})
    tokenizer = bk.BertTokenizer.from_checkpoint(arguments.records)
    keep_freed_memory()
    model = build_model(run, tokenizer.vocabulary_size)
    if run.model.output_bias == "token_frequency":
        set_output_bias(model, arguments.records, tokenizer)
    compile_for_pretraining(model, run, make_optimizer(run.optimizer, None))
    fit(model, run, arguments, curve, lambda features, labels: (features, labels))
    if arguments.save:
        bk.save(model, tokenizer, arguments.save, overwrite=True)


def train_keras_hub(arguments: argparse.Namespace, curve: Curve) -> None:
    """Train KerasHub's `BertMaskedLM`."""
    import keras_hub

    run = resolve(arguments, _KERAS_HUB_SETTINGS)
    tokenizer = bk.BertTokenizer.from_checkpoint(arguments.records)
    config = run.model.bert_config(tokenizer.vocabulary_size, 128)
    names = ("vocabulary_size", "num_layers", "num_heads", "hidden_dim", "intermediate_dim", "max_sequence_length")
    backbone = keras_hub.models.BertBackbone(**{name: getattr(config, name) for name in names})
    model = keras_hub.models.BertMaskedLM(backbone, preprocessor=None)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")
    metrics = [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]
    optimizer = keras.optimizers.AdamW(run.optimizer.learning_rate, weight_decay=run.optimizer.weight_decay)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    model.compile(optimizer, loss=loss, weighted_metrics=metrics, jit_compile=True)
    fit(model, run, arguments, curve, lambda features, labels: (features, labels["mask_ids"], labels["mask_weights"]))
    if arguments.save:
        preset = arguments.save.with_name(arguments.save.name + "-preset")
        backbone.save_to_preset(os.fspath(preset))
        bk.save(bk.load(preset), tokenizer, arguments.save, overwrite=True)


def resolve(arguments: argparse.Namespace, settings: dict) -> Pretraining:
    """Return the settings of the run, as `bert-keras pretrain` resolves them."""
    from bert_keras.training.config.sources import parse_assignments

    overrides = {
        **settings,
        **parse_assignments(arguments.set),
        "model.objective": "mlm",
        "model.preset": arguments.size,
        "budget.hours": arguments.minutes / 60,
        "optimizer.learning_rate": arguments.learning_rate,
        "seed": arguments.seed,
    }
    defaults = infer_settings([read_manifest(arguments.records)])
    return Pretraining.resolve(recipe=arguments.recipe, overrides=overrides, defaults=defaults)


def fit(
    model: keras.Model,
    run: Pretraining,
    arguments: argparse.Namespace,
    curve: Curve,
    form: Callable,
    *,
    phases: Sequence[tuple[float, pathlib.Path, int]] | None = None,
    timer_class: type[TimedLearningRate] = TimedLearningRate,
) -> None:
    """Train a Keras model until the time is up.

    Args:
        model: the compiled model.
        run: the settings.
        arguments: those of the command line.
        curve: where the scores go.
        form: function that returns the batch of the model for features and labels.
        phases: the end of each phase as a fraction of the time, its records, and its batch size. Default: one phase.
        timer_class: the callback that sets the learning rate.
    """
    optimizer = run.optimizer
    scorer = ScoreNowAndThen(curve, make_batches(arguments.records, run)[1].map(form).cache())
    seconds, done = 60 * arguments.minutes, 0.0
    for number, (end, records, batch_size) in enumerate(phases or [(1.0, arguments.records, run.batches.batch_size)]):
        timer = timer_class(
            optimizer.schedule,
            optimizer.learning_rate,
            seconds,
            optimizer.warmup_ratio,
            power=optimizer.power,
            seconds_done=done,
            stop_seconds=end * seconds,
            clock=curve.clock,
        )
        settings = dataclasses.replace(run.batches, batch_size=batch_size)
        # with the same seed, each phase would begin with the records of the first
        train, _ = make_batches(records, dataclasses.replace(run, batches=settings, seed=run.seed + number))
        callbacks = [scorer, timer]
        model.fit(train.map(form), steps_per_epoch=_WITHOUT_END, callbacks=callbacks, shuffle=False, verbose=0)
        done = timer.seconds_done


def make_batches(records: pathlib.Path, run: Pretraining) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """Return endless training batches, and the held-out batches: 15 % of the tokens masked, always the same."""
    tokenizer = bk.BertTokenizer.from_checkpoint(records)
    batches = run.batches
    train = make_pretraining_batches(
        records,
        tokenizer,
        batch_size=batches.batch_size,
        epochs=None,
        seed=run.seed,
        mask_unit=batches.mask_unit,
        mask_rate=batches.mask_rate,
        replace_rates=batches.replace_rates,
        max_predictions=batches.max_predictions,
    )
    held_out = make_pretraining_batches(
        records, tokenizer, batch_size=32, split="held_out", masking="static", shuffle=False
    )
    return train, held_out


def train_transformers(arguments: argparse.Namespace, curve: Curve) -> None:
    """Train transformers' `BertForMaskedLM` with the settings of its `run_mlm.py`."""
    import torch
    import transformers
    from pretraining_step import make_transformers_config

    torch.manual_seed(arguments.seed)
    torch.set_num_threads(os.cpu_count())
    settings = {"batches.batch_size": _RUN_MLM_BATCH_SIZE}
    run = resolve(arguments, settings)
    peak = arguments.learning_rate or _RUN_MLM_RATE
    model = transformers.BertForMaskedLM(make_transformers_config(arguments.size)).train()
    optimizer = torch.optim.AdamW(model.parameters(), peak, fused=True, weight_decay=0.0)
    train, held_out = make_batches(arguments.records, run)
    held_out = list(to_torch(held_out))

    def score() -> dict:
        """Score the held-out batches."""
        model.eval()
        sums = collections.Counter()
        with torch.inference_mode():
            for inputs, targets in held_out:
                is_masked = targets != -100
                logits = model.cls(model.bert(**inputs).last_hidden_state[is_masked])
                targets = targets[is_masked]
                sums["loss"] += float(torch.nn.functional.cross_entropy(logits, targets, reduction="sum"))
                sums["right"] += int((logits.argmax(-1) == targets).sum())
                sums["masked"] += len(targets)
        model.train()
        return {
            "held_out_loss": sums["loss"] / sums["masked"],
            "held_out_accuracy": sums["right"] / sums["masked"],
        }

    curve.start()
    for inputs, targets in to_torch(train):
        if curve.seconds >= 60 * arguments.minutes:
            break
        rate = peak * compute_rate("linear", curve.seconds / (60 * arguments.minutes), 0.0)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        model(**inputs, labels=targets).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        curve.step(score)
    curve.step(score, is_last=True)
    if arguments.save:
        model.save_pretrained(arguments.save)
        bk.BertTokenizer.from_checkpoint(arguments.records).save(arguments.save)


def to_torch(batches: tf.data.Dataset) -> Iterator[tuple]:
    """Yield the inputs and the targets of transformers' model, -100 where nothing is masked."""
    import torch

    for features, labels in batches.as_numpy_iterator():
        ids = features["token_ids"].astype("int64")
        targets = np.full_like(ids, -100)
        rows, slots = np.nonzero(labels["mask_weights"])
        targets[rows, features["mask_positions"][rows, slots]] = labels["mask_ids"][rows, slots]
        inputs = {
            "input_ids": ids,
            "attention_mask": features["padding_mask"].astype("int64"),
            "token_type_ids": features["segment_ids"].astype("int64"),
        }
        yield {name: torch.from_numpy(value) for name, value in inputs.items()}, torch.from_numpy(targets)


def draw(curves: pathlib.Path, picture: pathlib.Path) -> None:
    """Draw the held-out loss of each run over its time."""
    import matplotlib.pyplot as plt

    runs = collections.defaultdict(list)
    for line in curves.read_text(encoding="utf-8").splitlines():
        point = json.loads(line)
        about = [point["side"], point["size"], point["recipe"], point["learning_rate"], *point["settings"]]
        name = " ".join(str(value) for value in about if value)
        runs[f"{name}, seed {point['seed']}, {point['budget_minutes']:g} min"].append(point)
    figure, axes = plt.subplots(figsize=(9, 7), layout="constrained")
    for name, points in runs.items():
        axes.plot(*zip(*[(point["minutes"], point["held_out_loss"]) for point in points], strict=True), label=name)
    axes.set(xlabel="minutes of training, two cores", ylabel="held-out masked-LM loss", ylim=(None, 7))
    axes.grid(alpha=0.3)
    figure.legend(fontsize=8, loc="outside lower center")
    figure.savefig(picture, dpi=120)


TRAINERS = {"ours": train_ours, "keras-hub": train_keras_hub, "transformers": train_transformers}

if __name__ == "__main__":
    main()
