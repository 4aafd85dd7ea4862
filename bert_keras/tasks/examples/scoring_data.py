"""Read labelled examples of a given task to score a model on."""

import os
from collections.abc import Callable, Iterable
from typing import NamedTuple

from bert_keras.checks import quote
from bert_keras.heads.known_heads import get_task_head
from bert_keras.metrics.tag_schemes import get_entity_label
from bert_keras.pipelines.readers.bad_examples import BadExamples, collect_bad
from bert_keras.pipelines.readers.option_spelling import Spell, spell_flag
from bert_keras.pipelines.readers.questions import read_questions
from bert_keras.pipelines.readers.tables.column_names import Columns
from bert_keras.pipelines.readers.tables.raw_examples import Source, quote_names
from bert_keras.pipelines.readers.words.tagged_words import read_tagged_words
from bert_keras.tasks.base import Task
from bert_keras.tasks.examples.file_options import FileOptions, resolve_data
from bert_keras.tasks.examples.labelled_files import convert_to_iob2, get_labels, keep_known, read_pairs, read_texts


class ScoringInputs(NamedTuple):
    """A task and its labelled examples: where they come from, and how they are read; see `read_scoring_data`."""

    task: Task
    source: Source
    options: FileOptions
    bad: BadExamples
    spell: Spell
    is_training: bool


def read_scoring_data(
    task: Task,
    data: object,
    options: FileOptions,
    bad: BadExamples | None = None,
    *,
    spell: Spell = spell_flag,
    is_training: bool = False,
) -> list:
    """Read labelled examples of a task.

    Args:
        task: the task.
        data: a file, or examples in memory, see `read_training_data`.
        options: how files are read.
        bad: collects invalid examples, and decides whether they are skipped; None: they are an error.
        spell: spells options in messages.
        is_training: whether a model is trained on the examples, so that it needs every single tag, not only its label.

    Returns:
        The examples, at least one.

    Raises:
        InputError: the file cannot be used, or has a label that the task does not have.
    """
    source = resolve_data(data, "data", task.name, options, spell=spell)
    with collect_bad(bad) as bad:
        read = get_task_head(task.name).load("scoring_reader")
        examples = read(ScoringInputs(task, source, options, bad, spell, is_training))
        bad.check()
    bad.check_any_left(len(examples), source)
    return examples


def find_labelled_columns(task: Task, source: object, options: FileOptions) -> Columns | None:
    """Return the columns that `read_scoring_data` reads; None: the file is no table, or can be read only once."""
    if "label_column" not in get_task_head(task.name).options or not os.path.isfile(source):
        return None
    with options.open_table(source) as table:
        return options.choose_columns(table, needs_label=True)


def read_questions_to_score(inputs: ScoringInputs) -> list:
    """Read questions with their answers."""
    return read_questions(inputs.source, format=inputs.options.format, bad=inputs.bad, spell=inputs.spell)


def read_pairs_to_score(inputs: ScoringInputs) -> list:
    """Read pairs of texts with scores."""
    return read_pairs(inputs.source, inputs.options, "regression", inputs.bad, spell=inputs.spell)[0]


def read_words_to_score(inputs: ScoringInputs) -> list:
    """Read tagged words whose tags the task knows."""
    task, source, options, bad, spell, is_training = inputs
    sentences = read_tagged_words(source, **options.get_word_options(), bad=bad, spell=spell)
    sentences = convert_to_iob2(sentences, task.scheme, source, bad)
    known = set(task.labels)
    if task.scheme != "none" and not is_training:  # the model may use another scheme, or have no I tag of a label
        labels = {get_entity_label(tag) for tag in task.labels}
        known |= {tag for sentence in sentences for tag in sentence.tags if get_entity_label(tag) in labels}
    return _keep_known(inputs, sentences, lambda sentence: sentence.tags, known)


def read_texts_to_score(inputs: ScoringInputs) -> list:
    """Read texts or pairs with numbers, or with labels that the task knows."""
    task = inputs.task
    examples, _ = read_texts(inputs.source, inputs.options, task.problem, inputs.bad, spell=inputs.spell)
    return examples if task.problem == "regression" else _keep_known(inputs, examples, get_labels, task.labels)


def _keep_known(
    inputs: ScoringInputs, examples: list, get_labels: Callable[[object], Iterable[str]], known: Iterable[str]
) -> list:
    """Return the examples whose labels are all known; see `keep_known`."""

    def explain(label: str, _: object) -> str:
        return (
            f"the label {quote(label)} is not one of the model's, which are {quote_names(inputs.task.labels)}: correct "
            "the label, or score with a model that was trained with it"
        )

    return keep_known(examples, get_labels, known, inputs.source, inputs.bad, explain)
