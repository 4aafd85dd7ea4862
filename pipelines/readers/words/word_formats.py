"""Read the tagged words of a sentence in each format.

Columns have one word per line, as in the CoNLL shared tasks and in CoNLL-U. JSON records have lists of words, or texts
with labelled spans.
"""

import bisect
import contextlib
import itertools
import re
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
    find_first_missing,
    split_words,
)

_WORD_FIELDS = ("words", "tokens")
_TAG_FIELDS = ("tags", "labels", "ner_tags")
_SPAN_FIELDS = ("entities", "spans", "labels", "label")  # the last is doccano's


# of CoNLL-U
_COLUMNS = {"upos": 3, "xpos": 4, "feats": 5, "deprel": 7}
_WIDTH = 10
_ID = re.compile(r"([1-9]\d*)(?:-([1-9]\d*))?|\d+\.\d+")  # of a word, a multiword token or an empty node
_TEXT = re.compile(r"#\s*text\s*=\s*(.*)")


def make_column_reader(file: WordFile) -> Callable[[NumberedLines], TaggedSentence]:
    """Return a function that parses the lines of a sentence, see `read_tagged_words`."""
    word_column = _parse_column(file.word_column, 0, file.spell("word_column"))
    tag_column = _parse_column(file.tag_column, -1, file.spell("tag_column"))

    def read(lines: NumberedLines) -> TaggedSentence:
        numbered = [(number, _split_fields(line)) for number, line in lines]
        for number, fields in numbered:
            _check_fields(file, number, fields, numbered[0], word_column)
        width = len(numbered[0][1])
        words = [fields[word_column] for _, fields in numbered]
        has_tags = -width <= tag_column < width and (tag_column - word_column) % width
        tags = [fields[tag_column] if has_tags else "" for _, fields in numbered]
        if (index := find_first_missing(tags, file.needs_tags)) is not None:
            raise InputError(
                f"{file.name}, line {numbered[index][0]}: the word {quote(words[index])} has no tag in column "
                f"{tag_column}, and the line has {width} columns, with the word in column {word_column}; expected a "
                f"tag: correct the line, or set {file.spell('tag_column')} to its number (from 0, or from the end: -1)"
            )
        return TaggedSentence.from_words(words, tags if any(tags) else None, numbered[0][0])

    return read


def _parse_column(column: int | str | None, default: int, option: str) -> int:
    if column is None:
        return default
    try:
        return int(column)
    except ValueError:
        raise InputError(
            f"{option} is {quote(column)}; expected the number of a column, since they have no names: "
            "count from 0, or from the end: -1"
        ) from None


def _split_fields(line: str) -> list[str]:
    """Split a line at its tabs; if it has none, at its ASCII spaces."""
    line = line.rstrip("\r\n")
    fields = line.split("\t") if "\t" in line else filter(None, line.split(" "))
    return [field.strip() for field in fields]


def _check_fields(file: WordFile, number: int, fields: list[str], first: tuple[int, list], word_column: int) -> None:
    if len(fields) != len(first[1]):
        raise InputError(
            f"{file.name}, line {number}: the line has {format_count(len(fields), 'column')}, where line {first[0]} "
            f"has {len(first[1])}; expected the same in all lines of a sentence: correct the line, or separate "
            "sentences by a blank line (only CoNLL-U has comments: remove them)"
        )
    if not -len(fields) <= word_column < len(fields):
        raise InputError(
            f"{file.name}, line {number}: the line has {format_count(len(fields), 'column')}, and none is number "
            f"{word_column}; expected a word there: set {file.spell('word_column')} to its number (from 0, or from the "
            "end: -1)"
        )
    if not fields[word_column]:
        raise InputError(f"{file.name}, line {number}: the word is empty; expected a word and a tag: correct the line")


class _Surface(NamedTuple):
    """A surface token with its syntactic words: itself, or those of a multiword token."""

    line: int
    identity: str
    form: str
    has_no_space_after: bool
    words: list[tuple[int, str, str]]  # (line, form, tag)


def make_conllu_reader(file: WordFile) -> Callable[[NumberedLines], TaggedSentence | None]:
    """Return a function that parses the lines of a sentence, see `read_tagged_words`; None: it has no words."""
    column = _choose_column(file)

    def read(lines: NumberedLines) -> TaggedSentence | None:
        numbered = [(number, _split_conllu_line(file, number, line)) for number, line in lines if line[0] != "#"]
        surfaces = _find_surfaces(file.name, numbered, column)
        if not surfaces:
            return None
        text = _find_text(lines, surfaces)
        starts = _find_starts(file.name, surfaces, text)
        ranges = [
            pair for one, start in zip(surfaces, starts, strict=True) for pair in _compute_word_ranges(one, start)
        ]
        words = [word for one in surfaces for word in one.words]
        tags = [tag for _, _, tag in words]
        if (index := find_first_missing(tags, file.needs_tags)) is not None:
            raise InputError(
                f"{file.name}, line {words[index][0]}: the word {quote(words[index][1])} has no tag: its column "
                f"{file.tag_column or 'upos'} holds '_'; expected a tag: fill it in, or set {file.spell('tag_column')} "
                "to another column"
            )
        return TaggedSentence.from_ranges(text, ranges, tags if any(tags) else None, words[0][0])

    return read


def _choose_column(file: WordFile) -> int:
    if file.word_column is not None:
        raise InputError(
            f"{file.spell('word_column')} is {file.word_column!r}, but CoNLL-U defines the column of words: leave it "
            "out"
        )
    column = "upos" if file.tag_column is None else file.tag_column
    with contextlib.suppress(ValueError, IndexError):
        return _COLUMNS.get(str(column).lower()) or range(_WIDTH)[int(column)]
    raise InputError(
        f"{file.spell('tag_column')} is {quote(column)}; expected {', '.join(_COLUMNS)} or a number from 0 to "
        f"{_WIDTH - 1}"
    )


def _split_conllu_line(file: WordFile, number: int, line: str) -> list[str]:
    fields = [field.strip() for field in line.rstrip("\r\n").split("\t")]
    if len(fields) != _WIDTH:
        raise InputError(
            f"{file.name}, line {number}: the line has {format_count(len(fields), 'column')}; expected the {_WIDTH} of "
            f"CoNLL-U, separated by tabs: correct the line, or set {file.spell('format', 'conll')}"
        )
    if not _ID.fullmatch(fields[0]):
        raise InputError(
            f"{file.name}, line {number}: the id is {quote(fields[0])}; expected one such as 3, 3-4 or 8.1: correct "
            "the line"
        )
    if not fields[1]:
        raise InputError(
            f"{file.name}, line {number}: the word is empty; expected a form in column 1: correct the line"
        )
    return fields


def _find_surfaces(name: str, numbered: list[tuple[int, list[str]]], column: int) -> list[_Surface]:
    """Return the surface tokens of a sentence without empty nodes, after checking the ids."""
    surfaces, last, until = [], 0, 0  # ids of the last word, and of the last word of the current multiword token
    for number, fields in numbered:
        identity, form = fields[:2]
        if "." in identity:
            continue
        first, *end = map(int, identity.split("-"))
        if first != last + 1 or (end and (last < until or end[0] < first)):
            raise InputError(
                f"{name}, line {number}: the id is {quote(identity)}; expected {last + 1}, or a range that begins "
                "there, after the range of the previous token (the last one is "
                f"{surfaces[-1].identity if surfaces else 'none'}): correct the ids"
            )
        if end or first > until:
            surfaces.append(_Surface(number, identity, form, "SpaceAfter=No" in fields[9].split("|"), []))
            until = end[0] if end else first
        if not end:
            tag = "" if fields[column] == "_" and column != _COLUMNS["feats"] else fields[column]
            surfaces[-1].words.append((number, form, tag))
            last = first
    if last < until:
        raise InputError(
            f"{name}, line {surfaces[-1].line}: the token consists of the words {quote(surfaces[-1].identity)}, and "
            f"the sentence ends with word {last}; expected them all: correct the id, or add the words"
        )
    return surfaces


def _find_text(lines: NumberedLines, surfaces: list[_Surface]) -> str:
    """Return the text of the comment "# text", or else the tokens joined according to SpaceAfter."""
    for _, line in lines:
        if match := _TEXT.match(line):
            return match[1].strip()
    return "".join(one.form + " " * (not one.has_no_space_after) for one in surfaces).strip()


def _find_starts(name: str, surfaces: list[_Surface], text: str) -> list[int]:
    """Return the start of each token in the text; white space between tokens is skipped."""
    starts, place = [], 0
    for one in surfaces:
        while text[place : place + 1].isspace():
            place += 1
        if not text.startswith(one.form, place):
            raise InputError(
                f"{name}, line {one.line}: {quote(one.form)} is not at character {place} of the sentence's '# text', "
                f"which has {quote(text[place : place + 20])} there; expected the forms of the tokens: correct one of "
                "the two"
            )
        starts.append(place)
        place += len(one.form)
    if rest := text[place:].strip():
        raise InputError(
            f"{name}, line {surfaces[-1].line}: after the last token, the sentence's '# text' continues with "
            f"{quote(rest[:20])}; expected its end: correct one of the two"
        )
    return starts


def _compute_word_ranges(surface: _Surface, start: int) -> list[tuple[int, int]]:
    """Return the range of each word of a token; if the forms of the words do not make up the token, its whole range."""
    forms = [form for _, form, _ in surface.words]
    if "".join(forms) != surface.form:
        return [(start, start + len(surface.form))] * len(forms)
    return list(itertools.pairwise(itertools.accumulate(map(len, forms), initial=start)))


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
