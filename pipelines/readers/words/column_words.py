"""Tagged words from columns, as CoNLL's shared tasks have them: a word a line."""

from collections.abc import Callable

from bert_keras.checks import format_count, quote
from bert_keras.errors import InputError
from bert_keras.pipelines.readers.words.tagged_sentences import TaggedSentence
from bert_keras.pipelines.readers.words.word_files import NumberedLines, WordFile, find_first_missing


def make_column_reader(file: WordFile) -> Callable[[NumberedLines], TaggedSentence]:
    """Returns what reads a sentence of a file with a word a line, see `read_tagged_words`."""
    word_column = _number(file.word_column, 0, "--word-column")
    tag_column = _number(file.tag_column, -1, "--tag-column")

    def read(lines: NumberedLines) -> TaggedSentence:
        rows = [(number, _fields(line)) for number, line in lines]
        for row in rows:
            _check_row(file.name, row, rows[0], word_column)
        width = len(rows[0][1])
        words = [fields[word_column] for _, fields in rows]
        has_tags = -width <= tag_column < width and (tag_column - word_column) % width
        tags = [fields[tag_column] if has_tags else "" for _, fields in rows]
        if (place := find_first_missing(tags, file.needs_tags)) is not None:
            raise InputError(
                f"{file.name}, line {rows[place][0]}: the word {quote(words[place])} has no tag in column "
                f"{tag_column}, "
                f"where the line's columns are {width} and column {word_column} is the word's own; expected a tag: "
                "correct the line, or name the column (from 0, or from the end: -1) with --tag-column"
            )
        return TaggedSentence.from_words(words, tags if any(tags) else None, rows[0][0])

    return read


def _fields(line: str) -> list[str]:
    """Returns the columns of a line: what stands between tabs if it has one, else between ASCII spaces."""
    line = line.rstrip("\r\n")
    fields = line.split("\t") if "\t" in line else filter(None, line.split(" "))
    return [field.strip() for field in fields]


def _check_row(name: str, row: tuple[int, list], first: tuple[int, list], word_column: int) -> None:
    number, fields = row
    if len(fields) != len(first[1]):
        raise InputError(
            f"{name}, line {number}: the line has {format_count(len(fields), 'column')}, where line {first[0]} has "
            f"{len(first[1])}; expected the same in all lines of a sentence: correct the line, or put a blank one "
            "between two sentences (comments are read in CoNLL-U alone: take them out)"
        )
    if not -len(fields) <= word_column < len(fields):
        raise InputError(
            f"{name}, line {number}: the line has {format_count(len(fields), 'column')}, and none is number "
            f"{word_column}; expected a word there: name the column (from 0, or from the end: -1) with --word-column"
        )
    if not fields[word_column]:
        raise InputError(f"{name}, line {number}: the word is empty; expected a word and a tag: correct the line")


def _number(column: int | str | None, default: int, option: str) -> int:
    if column is None:
        return default
    try:
        return int(column)
    except ValueError:
        raise InputError(
            f"{option} is {quote(column)}; expected an integer for columns without names: "
            "count them from 0, or from the end: -1"
        ) from None
