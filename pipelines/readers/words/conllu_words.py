"""Tagged words from CoNLL-U, with the text they were taken from."""

import contextlib
import itertools
import re
from collections.abc import Callable
from typing import NamedTuple

from bert_keras.checks import format_count, quote
from bert_keras.errors import InputError
from bert_keras.pipelines.readers.words.tagged_sentences import TaggedSentence
from bert_keras.pipelines.readers.words.word_files import NumberedLines, WordFile, find_first_missing

_COLUMNS = {"upos": 3, "xpos": 4, "feats": 5, "deprel": 7}
_WIDTH = 10
_ID = re.compile(r"([1-9]\d*)(?:-([1-9]\d*))?|\d+\.\d+")  # a word, a multiword token, an empty node
_TEXT = re.compile(r"#\s*text\s*=\s*(.*)")


class _Surface(NamedTuple):
    """A token as it is written, with its syntactic words: itself, or those of a multiword token."""

    line: int
    row_id: str
    form: str
    is_glued: bool  # no space behind it
    words: list[tuple[int, str, str]]  # (line, form, tag)


def make_conllu_reader(file: WordFile) -> Callable[[NumberedLines], TaggedSentence | None]:
    """Returns what reads a sentence of a CoNLL-U file, see `read_tagged_words`; None: it has no words."""
    column = _column(file)

    def read(lines: NumberedLines) -> TaggedSentence | None:
        rows = [(number, _fields(file.name, number, line)) for number, line in lines if line[0] != "#"]
        surfaces = _surfaces(file.name, rows, column)
        if not surfaces:
            return None
        text = _text(lines, surfaces)
        starts = _places(file.name, surfaces, text)
        ranges = [pair for one, start in zip(surfaces, starts, strict=True) for pair in _word_ranges(one, start)]
        words = [word for one in surfaces for word in one.words]
        tags = [tag for _, _, tag in words]
        if (place := find_first_missing(tags, file.needs_tags)) is not None:
            raise InputError(
                f"{file.name}, line {words[place][0]}: the word {quote(words[place][1])} has no tag: its column "
                f"{file.tag_column or 'upos'} holds '_'; expected a tag: fill it in, or name another --tag-column"
            )
        return TaggedSentence.from_ranges(text, ranges, tags if any(tags) else None, words[0][0])

    return read


def _column(file: WordFile) -> int:
    if file.word_column is not None:
        raise InputError(
            f"--word-column is {file.word_column!r}, and CoNLL-U's words have a column of their own: leave it out"
        )
    column = "upos" if file.tag_column is None else file.tag_column
    with contextlib.suppress(ValueError, IndexError):
        return _COLUMNS.get(str(column).lower()) or range(_WIDTH)[int(column)]
    raise InputError(
        f"--tag-column is {quote(column)}; expected {', '.join(_COLUMNS)} or a number from 0 to {_WIDTH - 1}"
    )


def _fields(name: str, number: int, line: str) -> list[str]:
    fields = [field.strip() for field in line.rstrip("\r\n").split("\t")]
    if len(fields) != _WIDTH:
        raise InputError(
            f"{name}, line {number}: the line has {format_count(len(fields), 'column')}; expected the {_WIDTH} of "
            "CoNLL-U, with a tab between: correct the line, or say --format conll"
        )
    if not _ID.fullmatch(fields[0]):
        raise InputError(
            f"{name}, line {number}: the id is {quote(fields[0])}; expected one such as 3, 3-4 or 8.1: correct the line"
        )
    if not fields[1]:
        raise InputError(f"{name}, line {number}: the word is empty; expected a form in column 1: correct the line")
    return fields


def _surfaces(name: str, rows: list[tuple[int, list[str]]], column: int) -> list[_Surface]:
    """Returns the tokens of a sentence; ids are checked, and empty nodes left out."""
    surfaces, last, until = [], 0, 0  # the last word's id, and that which the last token goes on to
    for number, fields in rows:
        row_id, form = fields[:2]
        if "." in row_id:
            continue
        first, *end = map(int, row_id.split("-"))
        if first != last + 1 or (end and (last < until or end[0] < first)):
            raise InputError(
                f"{name}, line {number}: the id is {quote(row_id)}; expected {last + 1}, or a range that begins there, "
                f"behind the range of another token (the last one is {surfaces[-1].row_id if surfaces else 'none'}): "
                "correct the ids"
            )
        if end or first > until:
            surfaces.append(_Surface(number, row_id, form, "SpaceAfter=No" in fields[9].split("|"), []))
            until = end[0] if end else first
        if not end:
            tag = "" if fields[column] == "_" and column != _COLUMNS["feats"] else fields[column]
            surfaces[-1].words.append((number, form, tag))
            last = first
    if last < until:
        raise InputError(
            f"{name}, line {surfaces[-1].line}: the token is of the words {quote(surfaces[-1].row_id)}, and the "
            "sentence "
            f"ends with word {last}; expected them all: correct the id, or add the words"
        )
    return surfaces


def _text(lines: NumberedLines, surfaces: list[_Surface]) -> str:
    """Returns the text of the comment "# text", or the tokens as their SpaceAfter joins them."""
    for _, line in lines:
        if match := _TEXT.match(line):
            return match[1].strip()
    return "".join(one.form + " " * (not one.is_glued) for one in surfaces).strip()


def _places(name: str, surfaces: list[_Surface], text: str) -> list[int]:
    """Returns where each token begins in the text; white space may stand between."""
    starts, place = [], 0
    for one in surfaces:
        while text[place : place + 1].isspace():
            place += 1
        if not text.startswith(one.form, place):
            raise InputError(
                f"{name}, line {one.line}: {quote(one.form)} does not stand at character {place} of the sentence's "
                f"'# text', where {quote(text[place : place + 20])} stands; expected the tokens' forms: correct one "
                "of them"
            )
        starts.append(place)
        place += len(one.form)
    if rest := text[place:].strip():
        raise InputError(
            f"{name}, line {surfaces[-1].line}: behind the last token, the sentence's '# text' goes on with "
            f"{quote(rest[:20])}; expected its end: correct one of the two"
        )
    return starts


def _word_ranges(surface: _Surface, start: int) -> list[tuple[int, int]]:
    """Returns the range of each word of a token: its share if the forms make the token up, else the whole."""
    forms = [form for _, form, _ in surface.words]
    if "".join(forms) != surface.form:
        return [(start, start + len(surface.form))] * len(forms)
    return list(itertools.pairwise(itertools.accumulate(map(len, forms), initial=start)))
