"""Labelled examples of a task that is known, to be scored on."""

import os

from bert_keras.checks import quote
from bert_keras.metrics.tag_schemes import get_entity_label
from bert_keras.pipelines.readers.bad_examples import BadExamples, collect_bad
from bert_keras.pipelines.readers.questions import read_questions
from bert_keras.pipelines.readers.tables.column_names import Columns
from bert_keras.tasks.answer_extraction import QuestionAnswering
from bert_keras.tasks.base import Task, listed
from bert_keras.tasks.examples.file_options import FileOptions, open_options_table, resolve_data
from bert_keras.tasks.examples.labelled_files import (
    convert_to_iob2,
    get_labels,
    keep_known,
    read_pairs,
    read_sentences,
    read_texts,
)
from bert_keras.tasks.sentence_embedding import SentenceEmbedding
from bert_keras.tasks.token_classification import TokenClassification


def read_scoring_data(task: Task, data: object, options: FileOptions, bad: BadExamples | None = None) -> list:
    """Reads labelled examples of a task that is known.

    Args:
        task: the task.
        data: a file or examples in memory, see `read_training_data`.
        options: how files are read.
        bad: takes bad examples, and says whether they are skipped; None: they are refused.

    Raises:
        InputError: the file cannot be used, or has a label that the task does not have.
    """
    source = resolve_data(data, "data", task.name, options)
    with collect_bad(bad) as bad:
        examples = _READERS.get(type(task), _texts)(task, source, options, bad)
        bad.check()
    bad.check_any_left(len(examples), source, "examples")
    return examples


def find_labelled_columns(task: Task, source: object, options: FileOptions) -> Columns | None:
    """Returns the columns that are read of labelled examples; None: the file is no table, or can be read only once."""
    if isinstance(task, QuestionAnswering | TokenClassification) or not os.path.isfile(source):
        return None
    with open_options_table(source, options) as table:
        return options.choose_columns(table, needs_label=True)


def _texts(task: Task, source, options: FileOptions, bad: BadExamples) -> list:
    examples, _ = read_texts(source, options, task.problem, bad)
    if task.problem == "regression":
        return examples
    return keep_known(examples, get_labels, task.labels, source, bad, lambda label, _: _unknown(label, task))


def _questions(task: Task, source, options: FileOptions, bad: BadExamples) -> list:
    return read_questions(source, format=options.format, bad=bad)


def _pairs(task: Task, source, options: FileOptions, bad: BadExamples) -> list:
    return read_pairs(source, options, "regression", bad)[0]


def _sentences(task: TokenClassification, source, options: FileOptions, bad: BadExamples) -> list:
    sentences = convert_to_iob2(read_sentences(source, options, bad), task.scheme, source, bad)
    known = set(task.labels)
    if task.scheme != "none":  # a model may spell them otherwise, or know no I of a label
        labels = {get_entity_label(tag) for tag in task.labels}
        known |= {tag for sentence in sentences for tag in sentence.tags if get_entity_label(tag) in labels}
    return keep_known(sentences, lambda one: one.tags, known, source, bad, lambda tag, _: _unknown(tag, task))


_READERS = {QuestionAnswering: _questions, TokenClassification: _sentences, SentenceEmbedding: _pairs}


def _unknown(label: str, task: Task) -> str:
    return (
        f"the label {quote(label)} is none of the model's, which are {listed(task.labels)}: correct the label, or "
        "score with a model that was trained with it"
    )
