"""The progress bar of `model.fit`, in steps or by the clock, with the losses and accuracies of the moment."""

import time

from bert_keras.cli.console.report import ProgressBar
from bert_keras.training.callbacks import ScoreListener, display_name


class FitProgress(ScoreListener):
    """Shows a training as one bar over all its epochs and phases. Use it in a `with` block around them.

    Behind a `TrainingLog` it also shows real tokens a second.

    Args:
        num_steps: optimizer steps of the whole training; None: those of the `fit` that runs.
        num_seconds: its time, where the clock ends it and nobody knows the steps.
    """

    def __init__(self, num_steps: int | None, *, num_seconds: float | None = None):
        super().__init__()
        self._given_steps = self._total_steps = num_steps
        self._num_seconds = num_seconds
        self._begin: float | None = None
        self._first_tokens: tuple[float, int] | None = None  # when the first step was done, and its tokens
        self._bar = ProgressBar(
            "training" if num_seconds is None else "training, seconds", "steps" if num_seconds is None else None
        )

    def __enter__(self):
        self._bar.__enter__()
        return self

    def __exit__(self, *_):
        self._bar.__exit__()

    def start_at(self, num_steps: int) -> None:
        super().start_at(num_steps)
        self._bar.say(f"going on from step {num_steps:,}")

    def on_train_begin(self, logs=None):
        self._begin = self._begin or time.monotonic()
        if self._given_steps is None:
            self._total_steps = self.num_steps + self.params["steps"] * self.params["epochs"]

    def on_scores(self, scores):
        when = "before the first step" if not self.num_steps else f"step {self.num_steps:,}"
        self._bar.say(f"{when}, held out: " + ", ".join(f"{name} {value:.4g}" for name, value in scores.items()))

    def on_train_batch_end(self, batch, logs=None):
        step = self.count(batch)
        note = "  ".join([*self._tokens_a_second(logs or {}), *_shown(logs or {})])
        if self._num_seconds is None:
            self._bar.update(step, self._total_steps, note)
        else:
            elapsed = min(int(time.monotonic() - self._begin), int(self._num_seconds))
            self._bar.update(elapsed, max(int(self._num_seconds), 1), f"step {step:,}  {note}")

    def _tokens_a_second(self, logs: dict) -> list[str]:
        if "tokens" not in logs:
            return []
        now = time.monotonic()
        if self._first_tokens is None:  # the first step compiles, and would spoil the rate
            self._first_tokens = (now, logs["tokens"])
            return []
        then, before = self._first_tokens
        return [f"{(logs['tokens'] - before) / (now - then):,.0f} tokens/s"]


def _shown(logs: dict) -> list[str]:
    names = [name for name in logs if name == "loss" or name.endswith("accuracy")]
    return [f"{display_name(name)} {float(logs[name]):.3f}" for name in names]
