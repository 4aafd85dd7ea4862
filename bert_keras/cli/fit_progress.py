"""The progress bar of `model.fit`, in steps, with the losses and accuracies of the moment."""

import keras

from bert_keras.cli.report import ProgressBar


class FitProgress(keras.callbacks.Callback):
    """Shows a training as one bar over all its epochs.

    Args:
        num_steps: steps of the whole training.
    """

    def __init__(self, num_steps: int):
        super().__init__()
        self._num_steps = num_steps
        self._done = 0
        self._bar = ProgressBar("training", "steps")

    def on_train_begin(self, logs=None):
        self._bar.__enter__()

    def on_train_batch_end(self, batch, logs=None):
        self._done += 1
        shown = {name: value for name, value in (logs or {}).items() if name == "loss" or name.endswith("accuracy")}
        note = "  ".join(f"{name.replace('_logits', '')} {float(value):.3f}" for name, value in shown.items())
        self._bar.update(self._done, self._num_steps, note)

    def on_train_end(self, logs=None):
        self._bar.__exit__()
