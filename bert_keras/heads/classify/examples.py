"""Read the examples of text classification."""

from collections.abc import Sequence

from bert_keras.checks import quote
from bert_keras.config import PROBLEMS
from bert_keras.errors import InputError
from bert_keras.heads.classify.task import TextClassification, TextExample, get_labels
from bert_keras.heads.examples.file_options import FileOptions
from bert_keras.heads.examples.labelled_files import (
    ScoringInputs,
    TaskExamples,
    TrainingInputs,
    check_any_left,
    keep_known,
    keep_known_to_score,
)
from bert_keras.pipelines.readers.bad_examples import BadExamples
from bert_keras.pipelines.readers.labelled_texts import read_labelled_examples, read_text_examples
from bert_keras.pipelines.readers.option_spelling import Spell, spell_flag
from bert_keras.pipelines.readers.tables.column_names import Columns
from bert_keras.pipelines.readers.tables.raw_examples import Source, quote_names


def read_texts(
    source: Source,
    options: FileOptions,
    problem: str | None,
    bad: BadExamples,
    *,
    text_columns: Sequence[str] = (),
    spell: Spell = spell_flag,
) -> tuple[list[TextExample], Columns]:
    """Read the examples of a table; other columns and blank lines are ignored.

    Args:
        source: a table in UTF-8: `.csv`, `.tsv` (without quotes), `.jsonl` or `.json`, optionally with `.gz`; or
            examples in memory.
        options: how it is read.
        problem: the kind of the labels, see `read_labelled_examples`; None: they are not read.
        bad: collects invalid examples.
        text_columns: the columns of texts, see `FileOptions.choose_columns`.
        spell: spells options in messages.

    Returns:
        The examples and their columns.

    Raises:
        InputError: the file cannot be read or lacks a column, or has no valid example.
    """
    if problem not in (None, *PROBLEMS):
        raise InputError(f"problem is {problem!r}; expected {', '.join(PROBLEMS)}")
    if not options.separator:
        raise InputError("the separator of labels is empty; expected a character such as '|'")
    with options.open_table(source, spell=spell) as table:
        columns = options.choose_columns(table, needs_label=problem is not None, text_columns=text_columns, spell=spell)
        if problem is None:
            rows = read_text_examples(table, columns)
        else:
            rows = read_labelled_examples(table, columns, problem, options.separator)
        raw_examples = list(bad.keep_good(rows))
    bad.check_any_left(len(raw_examples), table.name)
    number = len(columns.texts)
    return [
        TextExample.of_texts(raw.fields[:number], *raw.fields[number:], line=raw.line) for raw in raw_examples
    ], columns


def read_to_classify(inputs: TrainingInputs) -> TaskExamples:
    """Read texts or pairs with labels or numbers."""
    train_source, dev_source, options, settings, bad, spell = inputs
    problem, dev = settings.get("problem", "single_label"), None
    train, columns = read_texts(train_source, options, problem, bad, spell=spell)
    if dev_source is not None:
        dev, _ = read_texts(dev_source, options.with_columns(columns), problem, bad, spell=spell)
    bad.check()
    classes = [] if problem == "regression" else _find_classes(train, train_source)

    def explain(label: str, _: TextExample) -> str:
        return (
            f"the label {quote(label)} is not in {train_source}, which has {quote_names(classes)}; expected labels "
            "of the training examples: correct it, or add training examples with this label"
        )

    if classes and dev is not None:
        dev = keep_known(dev, get_labels, classes, dev_source, bad, explain)
        check_any_left(dev, dev_source, bad)
    task = TextClassification(**settings, labels=tuple(classes), has_pairs=columns.second_text is not None)
    return TaskExamples(task, train, dev, columns)


def _find_classes(examples: Sequence[TextExample], source: Source) -> list[str]:
    """Return the sorted labels of training examples.

    Raises:
        InputError: all examples have the same label, or there are no labels.
    """
    classes = sorted({label for example in examples for label in get_labels(example)})
    has_one_label = isinstance(examples[0].label, str)
    if not has_one_label and not classes:
        raise InputError(f"{source}: no text has a label; expected at least one: check the column of labels")
    if has_one_label and len(classes) < 2:
        raise InputError(
            f"{source}: every text has the label {quote(classes[0])}; expected two or more labels: add texts with "
            "another label, or name another column"
        )
    return classes


def read_texts_to_score(inputs: ScoringInputs) -> list:
    """Read texts or pairs with numbers, or with labels that the task knows."""
    task = inputs.task
    examples, _ = read_texts(inputs.source, inputs.options, task.problem, inputs.bad, spell=inputs.spell)
    return examples if task.problem == "regression" else keep_known_to_score(inputs, examples, get_labels, task.labels)
