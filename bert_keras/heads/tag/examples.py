"""Read the tagged words of token classification."""

import dataclasses
import os
from collections.abc import Iterable, Iterator, Sequence

from bert_keras.checks import format_names, quote
from bert_keras.errors import InputError
from bert_keras.heads.examples.labelled_files import (
    ScoringInputs,
    TaskExamples,
    TrainingInputs,
    check_any_left,
    keep_known,
    keep_known_to_score,
)
from bert_keras.heads.examples.prediction_data import Example, PredictionReader
from bert_keras.heads.tag.task import TokenClassification
from bert_keras.metrics.tag_schemes import detect_scheme, get_entity_label, is_entity_tag, to_iob2
from bert_keras.pipelines.readers.bad_examples import BadExamples
from bert_keras.pipelines.readers.option_spelling import Spell
from bert_keras.pipelines.readers.tables.column_names import Columns
from bert_keras.pipelines.readers.tables.json_examples import check_text
from bert_keras.pipelines.readers.tables.raw_examples import RawExample, Source, TableReader, describe_place
from bert_keras.pipelines.readers.words.tagged_sentences import OUTSIDE, TaggedSentence
from bert_keras.pipelines.readers.words.tagged_words import read_tagged_words, stream_tagged_words
from bert_keras.pipelines.readers.words.word_formats import check_words, choose_word_and_span_fields


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


def read_to_tag(inputs: TrainingInputs) -> TaskExamples:
    """Read tagged words."""
    train_source, dev_source, options, settings, bad, spell = inputs
    train, dev = (
        None if source is None else read_tagged_words(source, **options.get_word_options(), bad=bad, spell=spell)
        for source in (train_source, dev_source)
    )
    bad.check()
    scheme = detect_scheme([sentence.tags for sentence in train])
    if scheme == "none":
        _check_no_entities(train, train_source, spell)
    train = convert_to_iob2(train, scheme, train_source, bad)
    dev = None if dev is None else convert_to_iob2(dev, scheme, dev_source, bad)
    check_any_left(train, train_source, bad)
    tags = _find_tags(train, train_source, spell)

    def explain(tag: str, sentence: TaggedSentence) -> str:
        word = sentence.words[sentence.tags.index(tag)]
        return (
            f"the word {quote(word)} has the tag {quote(tag)}, which is not in {train_source}; its tags are "
            f"{format_names(tags, most=20)}: correct the tag, or add training sentences with it"
        )

    if dev is not None:
        dev = keep_known(dev, lambda sentence: sentence.tags, tags, dev_source, bad, explain)
        check_any_left(dev, dev_source, bad)
    task = TokenClassification(**settings, labels=tuple(tags), scheme="none" if scheme == "none" else "IOB2")
    return TaskExamples(task, train, dev)


def _find_tags(sentences: Sequence[TaggedSentence], source: Source, spell: Spell) -> list[str]:
    """Return the sorted tags of training sentences, with "O" first.

    Raises:
        InputError: all words have the same tag.
    """
    tags = sorted({tag for sentence in sentences for tag in sentence.tags}, key=lambda tag: (tag != OUTSIDE, tag))
    if len(tags) < 2:
        raise InputError(
            f"{source}: every word has the tag {quote(tags[0])}; expected two or more tags: name the column of the "
            f"tags with {spell('tag_column')}"
        )
    return tags


def _check_no_entities(sentences: Sequence[TaggedSentence], source: Source, spell: Spell) -> None:
    """Raise `InputError` if most tags look like IOB2, because a typo would otherwise turn the scheme into "none"."""
    lines = {tag: sentence.line for sentence in reversed(sentences) for tag in sentence.tags}
    entity_tags = {tag for tag in lines if tag[:2] in ("B-", "I-") and tag[2:]}
    others = {tag: line for tag, line in lines.items() if not is_entity_tag(tag)}
    if {tag[0] for tag in entity_tags} == {"B", "I"} and OUTSIDE in lines:
        tag, line = min(others.items(), key=lambda item: item[1])
        raise InputError(
            f"{describe_place(source, line)}: the tag {quote(tag)} is not an entity tag, but others are, such as "
            f"{quote(min(entity_tags))}; expected O, or a letter and a label: correct the tag, or name another column "
            f"with {spell('tag_column')}"
        )


def read_words_to_score(inputs: ScoringInputs) -> list:
    """Read tagged words whose tags the task knows."""
    task, source, options, bad, spell, is_training = inputs
    sentences = read_tagged_words(source, **options.get_word_options(), bad=bad, spell=spell)
    sentences = convert_to_iob2(sentences, task.scheme, source, bad)
    known = set(task.labels)
    if task.scheme != "none" and not is_training:  # the model may use another scheme, or have no I tag of a label
        labels = {get_entity_label(tag) for tag in task.labels}
        known |= {tag for sentence in sentences for tag in sentence.tags if get_entity_label(tag) in labels}
    return keep_known_to_score(inputs, sentences, lambda sentence: sentence.tags, known)


class WordReader(PredictionReader):
    """Reads lists of words or texts to tag."""

    special_formats = ("json", "conll", "conllu")

    def read_special(self, source: str | os.PathLike) -> Iterator[Example]:
        """Yield the sentences of a file of tagged words."""
        yield from map(Example._make, stream_tagged_words(source, **self.options.get_word_options(), needs_tags=False))

    def read_table(self, table: TableReader) -> Iterator[Example]:
        """Yield the lists of words of a table, or its texts."""
        if (name := self._find_word_column(table)) is None:
            yield from super().read_table(table)
            return
        for raw in table.read([name]):
            yield self._convert_words(raw, name, table.describe_place(raw.line))

    def choose_columns(self, table: TableReader) -> Columns:
        """Return the column of words, or else of texts."""
        if (name := self._find_word_column(table)) is not None:
            return Columns(name, None, None)
        columns = super().choose_columns(table)
        if columns.second_text is not None:
            raise InputError(
                f"{table.place}: the columns {columns.text!r} and {columns.second_text!r} have pairs of texts, but "
                "tagging needs single texts: name one column with --text-column"
            )
        return columns

    def _find_word_column(self, table: TableReader) -> str | None:
        """Return the column with lists of words, if there is one, by the same rule as for training files."""
        if self.options.word_column or self.options.text_column:
            return self.options.word_column
        return choose_word_and_span_fields(table.columns, None, self.options.tag_column)[0]

    def _convert_words(self, raw: RawExample, name: str, place: str) -> Example:
        """Return the example of a list of words, or of a text in its place."""
        if raw.error:
            return Example(raw.line, None, raw.error)
        [words] = raw.fields
        try:
            if isinstance(words, str):
                example = self.task.make_example(check_text(words, repr(name), place), line=raw.line)
            else:
                example = TaggedSentence.from_words(check_words(words, name, place), None, raw.line)
        except InputError as error:
            return Example(raw.line, None, error)
        return Example(raw.line, example, None)
