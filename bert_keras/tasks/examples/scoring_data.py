"""Read labelled examples of a given task to score a model on."""

import os

from bert_keras.checks import quote
from bert_keras.metrics.tag_schemes import get_entity_label
from bert_keras.pipelines.readers.bad_examples import BadExamples, collect_bad
from bert_keras.pipelines.readers.option_spelling import Spell, spell_flag
from bert_keras.pipelines.readers.questions import read_questions
from bert_keras.pipelines.readers.tables.column_names import Columns
from bert_keras.pipelines.readers.tables.listed_examples import Source
from bert_keras.pipelines.readers.tables.raw_examples import quote_names
from bert_keras.pipelines.readers.words.tagged_words import read_tagged_words
from bert_keras.tasks.answer_extraction import QuestionAnswering
from bert_keras.tasks.base import Task
from bert_keras.tasks.examples.file_options import FileOptions, resolve_data
from bert_keras.tasks.examples.labelled_files import convert_to_iob2, get_labels, keep_known, read_pairs, read_texts
from bert_keras.tasks.sentence_embedding import SentenceEmbedding
from bert_keras.tasks.token_classification import TokenClassification


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
        examples = _read(task, source, options, bad, spell, is_training=is_training)
        bad.check()
    bad.check_any_left(len(examples), source)
    return examples


def find_labelled_columns(task: Task, source: object, options: FileOptions) -> Columns | None:
    """Return the columns that `read_scoring_data` reads; None: the file is no table, or can be read only once."""
    if isinstance(task, QuestionAnswering | TokenClassification) or not os.path.isfile(source):
        return None
    with options.open_table(source) as table:
        return options.choose_columns(table, needs_label=True)


def _read(
    task: Task, source: Source, options: FileOptions, bad: BadExamples, spell: Spell, *, is_training: bool
) -> list:
    def explain(label: str, _: object) -> str:
        return (
            f"the label {quote(label)} is not one of the model's, which are {quote_names(task.labels)}: correct the "
            "label, or score with a model that was trained with it"
        )

    if isinstance(task, QuestionAnswering):
        return read_questions(source, format=options.format, bad=bad, spell=spell)
    if isinstance(task, SentenceEmbedding):
        return read_pairs(source, options, "regression", bad, spell=spell)[0]
    if isinstance(task, TokenClassification):
        sentences = read_tagged_words(source, **options.get_word_options(), bad=bad, spell=spell)
        sentences = convert_to_iob2(sentences, task.scheme, source, bad)
        known = set(task.labels)
        if task.scheme != "none" and not is_training:  # the model may use another scheme, or have no I tag of a label
            labels = {get_entity_label(tag) for tag in task.labels}
            known |= {tag for sentence in sentences for tag in sentence.tags if get_entity_label(tag) in labels}
        return keep_known(sentences, lambda sentence: sentence.tags, known, source, bad, explain)
    examples, _ = read_texts(source, options, task.problem, bad, spell=spell)
    if task.problem == "regression":
        return examples
    return keep_known(examples, get_labels, task.labels, source, bad, explain)
