"""Read a task with its training and held-out examples."""

from bert_keras.heads.task import Task
from bert_keras.training.training_data import read_training_data


def read_task(*arguments, **settings) -> tuple[Task, list, list]:
    """Return the task, the training examples and the held-out examples from `read_training_data`."""
    data = read_training_data(*arguments, **settings)
    return data.task, data.train, data.dev
