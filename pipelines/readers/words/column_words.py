"""Read tagged words from columns, one word per line, as in the CoNLL shared tasks, and from CoNLL-U."""

import contextlib
import itertools
import re
from collections.abc import Callable
from typing import NamedTuple

from bert_keras.checks import format_count, quote
from bert_keras.errors import InputError
from bert_keras.pipelines.readers.words.tagged_sentences import (
    NumberedLines,
    TaggedSentence,
    WordFile,
    find_first_missing,
)

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
