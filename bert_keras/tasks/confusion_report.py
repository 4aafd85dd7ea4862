"""The confusion matrix of a classifier as a picture."""

import pathlib
import tempfile
from collections.abc import Mapping, Sequence

from bert_keras.metrics.confusion_figure import draw_confusion_matrix
from bert_keras.tasks.base import Task


def has_confusion(task: Task) -> bool:
    """Return whether a task takes one class for another."""
    return task.problem == "single_label"


def confusion_picture(task: Task, answers: Sequence[Mapping], examples: Sequence) -> bytes:
    """Return the confusion matrix of a classifier as PNG.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "confusion_matrix.png"
        draw_confusion_matrix(task.confusion(answers, examples), task.labels, path)
        return path.read_bytes()
