"""Files to the examples of a task: labelled ones to learn from and to score, others to be answered one by one."""

from bert_keras.tasks.examples.file_options import FileOptions
from bert_keras.tasks.examples.files_to_answer import Example, columns_to_answer, read_to_answer
from bert_keras.tasks.examples.files_to_learn import LearningData, read_learning_data, read_to_learn
from bert_keras.tasks.examples.files_to_score import columns_to_learn, read_to_score

__all__ = [
    "Example",
    "FileOptions",
    "LearningData",
    "columns_to_answer",
    "columns_to_learn",
    "read_learning_data",
    "read_to_answer",
    "read_to_learn",
    "read_to_score",
]
