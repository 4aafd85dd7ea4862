"""Distill a tiny teacher, and write the loss of each epoch and the scores.

    python distill_tiny.py TEACHER OUT.json TASK NUM_DEVICES LOSSES

The devices are logical processors. LOSSES are "all" (labels of some examples, outputs, hidden states and attention) or
"outputs" (of the teacher, computed once before the training).
"""

import json
import os
import pathlib
import signal
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import tensorflow as tf

import bert_keras as bk
from bert_keras.heads.classify.task import TextClassification, TextExample
from bert_keras.pipelines.readers.bad_examples import BadExamples
from bert_keras.training.distilling.distillation_data import DistillationData
from tests.training.finetune_tiny import TASKS, TEXTS, WORDS

FAST = {"batch_size": 8, "learning_rate": 5e-3, "verbose": False}
LOSSES = {"all": {"hidden_weight": 0.5, "attention_weight": 0.5}, "outputs": {}}


def numbered() -> tuple[TextClassification, list[TextExample]]:
    """Texts, labelled with a number."""
    examples = [TextExample(text, label=text.count("a") / 4) for text in TEXTS]
    return TextClassification(problem="regression"), examples


def multi_labelled() -> tuple[TextClassification, list[TextExample]]:
    """Texts, labelled with those of four words that they contain."""
    labels = tuple(sorted(WORDS[1:5]))
    examples = [TextExample(text, label=[label for label in labels if label in text.split()]) for text in TEXTS]
    return TextClassification(problem="multi_label", labels=labels), examples


MAKERS = {**TASKS, "regression": numbered, "multi_label": multi_labelled}


def make_data(name: str, num_labelled: int | None = None) -> DistillationData:
    """Return the examples of a task, of which the first have labels."""
    task, examples = MAKERS[name]()
    num_labelled = len(examples) if num_labelled is None else num_labelled
    task = task.with_length(min(task.max_sequence_length, 24))
    return DistillationData(task, examples, examples[::5], None, None, BadExamples(), (), {}, num_labelled=num_labelled)


class Losses(keras.callbacks.Callback):
    """Record the mean loss of each epoch, and send SIGTERM to this process after a step if asked to."""

    def __init__(self, stop_at: int | None = None):
        super().__init__()
        self.values: list[float] = []
        self._stop_at, self._steps = stop_at, 0

    def on_train_batch_end(self, batch, logs=None):
        """Count the step."""
        self._steps += 1
        if self._steps == self._stop_at:
            os.kill(os.getpid(), signal.SIGTERM)

    def on_epoch_end(self, epoch, logs=None):
        """Record the loss."""
        self.values.append(float(logs["loss"]))


def main() -> None:
    """Distill, and write the report."""
    teacher, out, name, num_devices, compared = sys.argv[1:]
    [cpu] = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * int(num_devices))
    strategy = None
    if int(num_devices) > 1:
        strategy = tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(int(num_devices))])
    losses = Losses()
    settings = {"num_layers": 2, "num_epochs": 2, **LOSSES[compared], **FAST}
    distilled = bk.distill(
        teacher, train=make_data(name, 20), callbacks=[losses], strategy=strategy, **{**settings, "learning_rate": 1e-3}
    )
    report = {"losses": losses.values, "scores": dict(distilled.scores)}
    pathlib.Path(out).write_text(json.dumps(report))


if __name__ == "__main__":
    main()
