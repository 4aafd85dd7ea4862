"""What the readers of tagged words share."""

import itertools
import pathlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bert_keras.pipelines.task_files.lines import numbered_lines


class WordFile(NamedTuple):
    """A file and how to read it; the columns as `read_tagged_words` got them."""

    path: pathlib.Path
    word_column: int | str | None
    tag_column: int | str | None
    needs_tags: bool


def paragraphs(path: pathlib.Path) -> Iterator[list[tuple[int, str]]]:
    """Yields the runs of (number, line) between blank lines; a -DOCSTART- line counts as blank."""

    def is_text(numbered: tuple[int, str]) -> bool:
        return bool(numbered[1].strip()) and not numbered[1].startswith("-DOCSTART-")

    for has_text, lines in itertools.groupby(numbered_lines(path), key=is_text):
        if has_text:
            yield list(lines)


def first_missing(tags: Sequence[str], needs_tags: bool) -> int | None:
    """Returns the place of the first empty tag; None if there is none, or all are empty and need not be there."""
    return tags.index("") if "" in tags and (needs_tags or any(tags)) else None
