"""Read labelled examples of a given task to score a model on."""

import os

from bert_keras.heads.examples.file_options import FileOptions, resolve_data
from bert_keras.heads.examples.labelled_files import ScoringInputs
from bert_keras.heads.known_heads import get_task_head
from bert_keras.heads.task import Task
from bert_keras.pipelines.readers.bad_examples import BadExamples, collect_bad
from bert_keras.pipelines.readers.option_spelling import Spell, spell_flag
from bert_keras.pipelines.readers.tables.column_names import Columns


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
