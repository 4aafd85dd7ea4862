"""Helpers of the readers of tagged words."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from bert_keras.pipelines.corpus.text_lines import Line, limit_characters
from bert_keras.pipelines.readers.option_spelling import Spell

NumberedLines = Sequence[tuple[int, str]]


class WordFile(NamedTuple):
    """A file of tagged words.

    Attributes:
        name: its name in messages.
        word_column, tag_column, needs_tags, spell: as in `read_tagged_words`.
    """

    name: str
    word_column: int | str | None
    tag_column: int | str | None
    needs_tags: bool
    spell: Spell


def split_paragraphs(lines: Iterable[Line], name: str) -> Iterator[list[Line]]:
    """Yield the lines between blank lines; a -DOCSTART- line counts as blank. `name` is the file's name in messages."""

    def is_text(line: Line) -> bool:
        return bool(line.text.strip() or line.error) and not line.text.startswith("-DOCSTART-")

    for has_text, run in itertools.groupby(lines, key=is_text):
        if has_text:
            yield list(limit_characters(run, name, "sentence"))


def split_lines(lines: Iterable[Line], name: str) -> Iterator[list[Line]]:
    """Yield each line that is not blank."""
    return ([line] for line in lines if line.text.strip() or line.error)


def find_first_missing(tags: Sequence[str], needs_tags: bool) -> int | None:
    """Return the index of the first empty tag; None if no tag is empty, or if all are and none is needed."""
    return tags.index("") if "" in tags and (needs_tags or any(tags)) else None
