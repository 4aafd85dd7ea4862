"""Read tagged words from JSON records: lists of words, or texts with labelled spans."""

import bisect
import itertools
from collections.abc import Callable, Container, Sequence
from typing import NamedTuple

from bert_keras.checks import format_count, quote
from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.text_lines import parse_json_object
from bert_keras.pipelines.readers.tables.json_examples import check_text
from bert_keras.pipelines.readers.tables.raw_examples import quote_names
from bert_keras.pipelines.readers.words.tagged_sentences import (
    OUTSIDE,
    NumberedLines,
    TaggedSentence,
    WordFile,
    split_words,
)

_WORD_FIELDS = ("words", "tokens")
_TAG_FIELDS = ("tags", "labels", "ner_tags")
_SPAN_FIELDS = ("entities", "spans", "labels", "label")  # the last is doccano's


def make_json_reader(file: WordFile) -> Callable[[NumberedLines], TaggedSentence]:
    """Return a function that parses the line of a sentence, see `read_tagged_words`."""
    for option, column in (("word_column", file.word_column), ("tag_column", file.tag_column)):
        if not isinstance(column, str | None):
            raise InputError(
                f"{file.spell(option)} is {quote(column)}; expected the name of a field of the JSON records"
            )

    def read(lines: NumberedLines) -> TaggedSentence:
        [(number, line)] = lines
        place = f"{file.name}, line {number}"
        return parse_sentence(parse_json_object(line, place), file, place, number)

    return read


def parse_sentence(record: dict, file: WordFile, place: str, number: int) -> TaggedSentence:
    """Return the sentence of a JSON record, see `read_tagged_words`; `number` becomes its line.

    Raises:
        InputError: the record has no words, or words and tags do not match.
    """
    word_field, span_field = choose_word_and_span_fields(record, file.word_column, file.tag_column)
    if word_field is None and ("text" not in record or file.word_column):
        expected = [file.word_column] if file.word_column else ["text", *_WORD_FIELDS]
        raise _make_missing_field_error("there are no words", expected, record, file.spell("word_column"), place)
    if word_field is not None:
        sentence = TaggedSentence.from_words(*_read_words(record, word_field, file.tag_column, place), number)
    else:
        sentence = TaggedSentence.from_ranges(*_read_marked_text(record, span_field, place), number)
    if sentence.tags is None and file.needs_tags:
        expected = _TAG_FIELDS if word_field else _SPAN_FIELDS
        expected = [file.tag_column] if file.tag_column else expected
        raise _make_missing_field_error("the words have no tags", expected, record, file.spell("tag_column"), place)
    return sentence


def choose_word_and_span_fields(
    fields: Container[str], word_column: str | None, tag_column: str | None
) -> tuple[str | None, str | None]:
    """Return the fields of a record with the list of words and with the labelled spans; None where there is none.

    A text with "entities" or "spans" takes precedence over a list of words, unless the user named that list.
    """
    words, spans = _choose_field(fields, word_column, _WORD_FIELDS), _choose_field(fields, tag_column, _SPAN_FIELDS)
    return (words if word_column or spans not in _SPAN_FIELDS[:2] else None), spans


def check_words(words: list, field: str, place: str) -> list[str]:
    """Return the list of words in a field.

    Raises:
        InputError: the list is empty, or a word is not a text.
    """
    if not words:
        raise InputError(f"{place}: {quote(field)} is empty; expected at least one word: remove the record")
    return [check_text(word, f"{field}[{index}]", place) for index, word in enumerate(words)]


def _choose_field(fields: Container[str], named: str | None, usual: Sequence[str]) -> str | None:
    return next((field for field in ([named] if named else usual) if field in fields), None)


def _make_missing_field_error(
    missing: str, expected: Sequence[str], record: dict, option: str, place: str
) -> InputError:
    return InputError(
        f"{place}: {missing}: there is no field {' or '.join(map(quote, expected))}; the fields are "
        f"{quote_names(record)}: name one of them with {option}"
    )


def _read_words(record: dict, field: str, tag_column: str | None, place: str) -> tuple[list[str], list[str] | None]:
    """Return the words, and the tags if the record has them."""
    words = check_words([word for word, _ in _list_items(record, field, "strings", place)], field, place)
    tags = None
    if tag_field := _choose_field(record, tag_column, _TAG_FIELDS):
        tags = [_check_tag(tag, what, place) for tag, what in _list_items(record, tag_field, "strings", place)]
        if len(tags) != len(words):
            raise InputError(
                f"{place}: there are {format_count(len(words), 'word')} and {format_count(len(tags), 'tag')}; "
                "expected one tag per word: correct the record"
            )
    return words, tags


def _read_marked_text(
    record: dict, field: str | None, place: str
) -> tuple[str, list[tuple[int, int]], list[str] | None]:
    """Return the text, the ranges of its words, and their tags if the record has spans."""
    text = check_text(record["text"], "the text", place)
    spans = [] if field is None else _read_spans(record, field, text, place)
    ranges = split_words(text, [end for span in spans for end in (span.start, span.end)])
    if not ranges:
        raise InputError(f"{place}: the text has no word; expected at least one: remove the record")
    tags, starts = [OUTSIDE] * len(ranges), [start for start, _ in ranges]
    for span in spans:
        first, end = bisect.bisect_left(starts, span.start), bisect.bisect_left(starts, span.end)
        if first == end:
            marked = text[span.start : span.end]
            raise InputError(f"{place}: {span.what}, {quote(marked)}, has no word; expected at least one: remove it")
        tags[first:end] = [f"B-{span.label}"] + [f"I-{span.label}"] * (end - first - 1)
    return text, ranges, None if field is None else tags


class _Span(NamedTuple):
    start: int
    end: int
    label: str
    what: str


def _read_spans(record: dict, field: str, text: str, place: str) -> list[_Span]:
    """Return the spans in the order of the text, after checking that they do not overlap."""
    spans = sorted(_parse_span(value, what, text, place) for value, what in _list_items(record, field, "spans", place))
    for before, after in itertools.pairwise(spans):
        if after.start < before.end:
            raise InputError(
                f"{place}: {after.what} (characters {after.start} to {after.end}) overlaps {before.what} "
                f"({before.start} to {before.end}); expected separate spans, because a word has one tag: remove one"
            )
    return spans


def _parse_span(value: object, what: str, text: str, place: str) -> _Span:
    """Return a span from an object or from a list of three."""
    parts = [value[name] for name in ("start", "end", "label") if name in value] if isinstance(value, dict) else value
    if not isinstance(parts, list) or len(parts) != 3 or not all(type(position) is int for position in parts[:2]):
        raise InputError(
            f"{place}: {what} is {quote(value)}; expected a start, an end (integers, in characters) and a label, "
            "as an object or as a list of three: correct it"
        )
    start, end, label = parts
    if not 0 <= start < end <= len(text):
        raise InputError(
            f"{place}: {what} runs from {quote(start)} to {quote(end)}; expected at least one of the {len(text)} "
            "characters of the text, with an exclusive end: correct it"
        )
    return _Span(start, end, _check_tag(label, f"the label of {what}", place), what)


def _list_items(record: dict, field: str, kind: str, place: str) -> list[tuple[object, str]]:
    """Return the items of a list, each with its name in messages."""
    if not isinstance(record[field], list):
        raise InputError(f"{place}: {quote(field)} is {quote(record[field])}; expected a list of {kind}: correct it")
    return [(value, f"{field}[{index}]") for index, value in enumerate(record[field])]


def _check_tag(value: object, what: str, place: str) -> str:
    if type(value) is int:
        raise InputError(
            f"{place}: {what} is the number {quote(value)}; expected the name of a tag: write the names to the file "
            "(in Hugging Face datasets, the `names` of the feature)"
        )
    return check_text(value, what, place)
