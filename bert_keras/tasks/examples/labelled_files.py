"""Read labelled examples of each task from files and from memory, and collect invalid ones."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence

from bert_keras.errors import InputError
from bert_keras.metrics.tag_schemes import to_iob2
from bert_keras.pipelines.readers.bad_examples import BadExamples
from bert_keras.pipelines.readers.labelled_texts import read_labelled_texts, read_text_examples
from bert_keras.pipelines.readers.option_spelling import Spell, spell_flag
from bert_keras.pipelines.readers.tables.column_names import Columns
from bert_keras.pipelines.readers.tables.raw_examples import Source, describe_place
from bert_keras.pipelines.readers.words.tagged_sentences import TaggedSentence
from bert_keras.tasks.examples.file_options import FileOptions
from bert_keras.tasks.text_classification import TextExample


def read_texts(
    source: Source, options: FileOptions, problem: str, bad: BadExamples, *, spell: Spell = spell_flag
) -> tuple[list[TextExample], Columns]:
    """Read labelled texts or pairs; return the examples and their columns.

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
        spell=spell,
        **options.get_table_options(),
    )
    seconds = texts.second_texts or [None] * len(texts)
    return list(map(TextExample, texts.texts, seconds, texts.labels, texts.lines)), texts.columns


def read_pairs(
    source: Source, options: FileOptions, objective: str, bad: BadExamples, *, spell: Spell = spell_flag
) -> tuple[list[TextExample], Columns]:
    """Read pairs of texts, with scores if the objective needs them; return the examples and their columns.

    Raises:
        InputError: the file cannot be read, or has single texts.
    """
    if objective == "contrastive":
        with options.open_table(source, spell=spell) as table:
            columns = options.choose_columns(table, needs_label=False, spell=spell)
            raw_examples = list(bad.keep_good(read_text_examples(table, columns)))
        bad.check_any_left(len(raw_examples), source)
        examples = [TextExample(*raw.fields, line=raw.line) for raw in raw_examples]
    else:
        examples, columns = read_texts(source, options, "regression", bad, spell=spell)
    if examples[0].second_text is None:
        raise InputError(
            f"{source} has no pairs of texts; expected two columns of texts: name the second one with "
            f"{spell('second_text_column')} too"
        )
    return examples, columns


def convert_to_iob2(
    sentences: Iterable[TaggedSentence], scheme: str, source: Source, bad: BadExamples
) -> list[TaggedSentence]:
    """Return sentences with IOB2 tags; tags of the scheme "none" stay unchanged."""
    converted = []
    for sentence in sentences:
        try:
            converted.append(dataclasses.replace(sentence, tags=tuple(to_iob2(sentence.tags, scheme))))
        except InputError as error:
            bad.add(InputError(f"{describe_place(source, sentence.line)}: {error}"))
    return converted


def keep_known(
    examples: Sequence,
    get_labels: Callable[[object], Iterable[str]],
    known: Iterable[str],
    source: Source,
    bad: BadExamples,
    explain: Callable[[str, object], str],
) -> list:
    """Return the examples whose labels are all known, and count the others as invalid.

    Args:
        examples: examples with a `line`.
        get_labels: returns the labels of an example.
        known: the labels of the task.
        source: the source of the examples, for messages.
        bad: collects the invalid examples.
        explain: returns the message about an unknown label of an example.
    """
    known, valid = set(known), []
    for example in examples:
        unknown = next((label for label in get_labels(example) if label not in known), None)
        if unknown is None:
            valid.append(example)
        else:
            bad.add(InputError(f"{describe_place(source, example.line)}: {explain(unknown, example)}"))
    return valid


def get_labels(example: TextExample) -> Sequence[str]:
    """Return the classes of a text."""
    return [example.label] if isinstance(example.label, str) else example.label
