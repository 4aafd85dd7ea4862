"""Files to the examples of a task: labelled ones to learn from and to score, others to be answered one by one."""

from bert_keras.tasks.examples.file_options import FileOptions
from bert_keras.tasks.examples.prediction_data import Example, find_prediction_columns, read_prediction_data
from bert_keras.tasks.examples.scoring_data import find_labelled_columns, read_scoring_data
from bert_keras.tasks.examples.training_data import TrainingData, read_to_learn, read_training_data

__all__ = [
    "Example",
    "FileOptions",
    "TrainingData",
    "find_labelled_columns",
    "find_prediction_columns",
    "read_prediction_data",
    "read_scoring_data",
    "read_to_learn",
    "read_training_data",
]
