"""What the readers of tables share: rows with their errors, and words for messages.

A bad row does not end the reading: it is given with its error, and the next row follows. What
the reader cannot go on after is raised, such as a quote mark that is never closed.
"""

import dataclasses
from collections.abc import Iterable, Sequence

from bert_keras.checks import quote
from bert_keras.errors import InputError

_MAX_NAMES = 10


@dataclasses.dataclass(frozen=True)
class Row:
    """One row of a table.

    Attributes:
        line: the number of its first line in the file, from 1; of examples in memory their index, from 0.
        fields: a value a column: a string, or a list of strings where JSON has a list; labels also as numbers.
        error: what is wrong with the row, whose fields are empty then; None: nothing.
    """

    line: int
    fields: list[str | list[str] | float]
    error: InputError | None = None


def check_column(name: str, names: Sequence[str], place: str) -> None:
    """Raises `InputError` unless exactly one of a table's columns is called `name`; `place` starts the message."""
    if names.count(name) != 1:
        how = "more than one" if name in names else "no"
        raise InputError(
            f"{place}: there is {how} column {quote(name)}; the columns are {quote_names(names)}: name one of them"
        )


def quote_names(names: Iterable[str]) -> str:
    """Return names as messages list them: `'a', 'b'`, the first ten of them, or `none`."""
    names = list(names)
    more = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
    return (", ".join(map(quote, names[:_MAX_NAMES])) or "none") + more


def alternatives(names: Sequence[str]) -> str:
    """Returns names as messages offer them: `a, b or c`."""
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
