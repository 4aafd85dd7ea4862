"""What the readers of tagged words share."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from bert_keras.pipelines.corpus.text_lines import Line
from bert_keras.pipelines.readers.lines import limit_characters

NumberedLines = Sequence[tuple[int, str]]


class WordFile(NamedTuple):
    """What messages call a file, and how to read it; the columns as `read_tagged_words` got them."""

    name: str
    word_column: int | str | None
    tag_column: int | str | None
    needs_tags: bool


def paragraphs(lines: Iterable[Line], name: str) -> Iterator[list[Line]]:
    """Yield the runs of lines between blank ones; a -DOCSTART- line counts as blank, `name` is for messages."""

    def is_text(line: Line) -> bool:
        return bool(line.text.strip() or line.error) and not line.text.startswith("-DOCSTART-")

    for has_text, run in itertools.groupby(lines, key=is_text):
        if has_text:
            yield list(limit_characters(run, name, "sentence"))


def single_lines(lines: Iterable[Line], name: str) -> Iterator[list[Line]]:
    """Yield each line that is not blank, alone."""
    return ([line] for line in lines if line.text.strip() or line.error)


def find_first_missing(tags: Sequence[str], needs_tags: bool) -> int | None:
    """Returns the place of the first empty tag; None if there is none, or all are empty and need not be there."""
    return tags.index("") if "" in tags and (needs_tags or any(tags)) else None
