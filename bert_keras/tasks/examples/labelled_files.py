"""Labelled examples of each task, from files and from memory; bad ones are collect_bad."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence

from bert_keras.errors import InputError
from bert_keras.metrics.tag_schemes import to_iob2
from bert_keras.pipelines.readers.bad_examples import BadExamples
from bert_keras.pipelines.readers.labelled_texts import read_labelled_texts, read_text_examples
from bert_keras.pipelines.readers.tables.column_names import Columns
from bert_keras.pipelines.readers.tables.listed_examples import Source, describe_place
from bert_keras.pipelines.readers.words.tagged_sentences import TaggedSentence
from bert_keras.pipelines.readers.words.tagged_words import read_tagged_words
from bert_keras.tasks.examples.file_options import FileOptions, open_options_table
from bert_keras.tasks.text_classification import TextExample


def read_texts(
    source: Source, options: FileOptions, problem: str, bad: BadExamples
) -> tuple[list[TextExample], Columns]:
    """Read texts or pairs with labels, and tell their columns.

    Raises:
        InputError: the file cannot be read.
    """
    texts = read_labelled_texts(
        source,
        problem=problem,
        text_column=options.text_column,
        second_text_column=options.second_text_column,
        label_column=options.label_column,
        separator=options.separator,
        bad=bad,
        **options.table(),
    )
    seconds = texts.second_texts or [None] * len(texts)
    return list(map(TextExample, texts.texts, seconds, texts.labels, texts.lines)), texts.columns


def read_pairs(
    source: Source, options: FileOptions, objective: str, bad: BadExamples
) -> tuple[list[TextExample], Columns]:
    """Read pairs of texts, with their scores if the objective needs them, and tell their columns.

    Raises:
        InputError: the file cannot be read, or has single texts.
    """
    if objective == "contrastive":
        with open_options_table(source, options) as table:
            columns = options.choose_columns(table, needs_label=False)
            rows = list(bad.keep_good(read_text_examples(table, columns)))
        bad.check_any_left(len(rows), source)
        examples = [TextExample(*row.fields, line=row.line) for row in rows]
    else:
        examples, columns = read_texts(source, options, "regression", bad)
    if examples[0].second_text is None:
        raise InputError(
            f"{source} has no pairs of texts; expected two columns: name them with --second-text-column too"
        )
    return examples, columns


def read_sentences(source: Source, options: FileOptions, bad: BadExamples) -> list[TaggedSentence]:
    """Read sentences of tagged words.

    Raises:
        InputError: the file cannot be read.
    """
    return read_tagged_words(source, **options.words(), bad=bad)


def convert_to_iob2(
    sentences: Iterable[TaggedSentence], scheme: str, source: Source, bad: BadExamples
) -> list[TaggedSentence]:
    """Return sentences with the tags that a model learns; those of no scheme stay as they are."""
    converted = []
    for sentence in sentences:
        try:
            converted.append(dataclasses.replace(sentence, tags=tuple(to_iob2(sentence.tags, scheme))))
        except InputError as error:
            bad.add(InputError(f"{describe_place(source, sentence.line)}: {error}"))
    return converted


def keep_known(
    examples: Sequence,
    labels_of: Callable[[object], Iterable[str]],
    known: Iterable[str],
    source: Source,
    bad: BadExamples,
    message: Callable[[str, object], str],
) -> list:
    """Return the examples whose labels are all known; the others are bad.

    Args:
        examples: examples that have a `line`.
        labels_of: gives the labels of one.
        known: the labels of the task.
        source: where the examples are from.
        bad: takes the bad ones.
        message: what is wrong with an unknown label of an example, and what to do.
    """
    known, kept = set(known), []
    for example in examples:
        unknown = next((label for label in labels_of(example) if label not in known), None)
        if unknown is None:
            kept.append(example)
        else:
            bad.add(InputError(f"{describe_place(source, example.line)}: {message(unknown, example)}"))
    return kept


def get_labels(example: TextExample) -> Sequence[str]:
    """Return the classes of a text."""
    return [example.label] if isinstance(example.label, str) else example.label
