"""Read tagged words from columns, one word per line, as in the CoNLL shared tasks."""

from collections.abc import Callable

from bert_keras.checks import format_count, quote
from bert_keras.errors import InputError
from bert_keras.pipelines.readers.words.tagged_sentences import TaggedSentence
from bert_keras.pipelines.readers.words.word_files import NumberedLines, WordFile, find_first_missing


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
