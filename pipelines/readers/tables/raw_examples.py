"""The base class of table readers, the examples that they yield, and helpers for messages.

Reading continues after an invalid example: it is yielded with its error. Errors after which the next example cannot be
found, such as a quote mark that is never closed, are raised.
"""

import abc
import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from bert_keras.checks import quote
from bert_keras.errors import InputError

_MAX_NAMES = 10


@dataclasses.dataclass(frozen=True)
class RawExample:
    """One example of a table.

    Attributes:
        line: the number of its first line in the file, from 1; for examples in memory their index, from 0.
        fields: one value per column: a string, or a list of strings if JSON has a list; labels can be numbers.
        error: the error of an invalid example, which has no fields; None: it is valid.
    """

    line: int
    fields: list[str | list[str] | float]
    error: InputError | None = None


class TableReader(abc.ABC):
    """Reader of a table, example by example.

    Attributes:
        name: the name of the table in messages.
        place: the place of its column names, for messages.
        columns: the column names.
        delimiter: the delimiter of a `.csv` or `.tsv`; None: the table has another format.
        format: "csv", "tsv", or None.
    """

    name: str
    place: str
    columns: list[str]
    delimiter: str | None = None
    format: str | None = None

    def read(self, columns: Sequence[str] | None = None) -> Iterator[RawExample]:
        """Yield the examples; blank lines are skipped. Can be called only once.

        Args:
            columns: the fields to return, in this order; None: all of them, and in JSON lines no others are allowed.

        Raises:
            InputError: the table does not have a column exactly once; while reading, a quote mark is never closed.
        """
        for column in columns or ():
            check_column(column, self.columns, self.place)
        return self._read_fields(columns)

    @abc.abstractmethod
    def _read_fields(self, columns: Sequence[str] | None) -> Iterator[RawExample]:
        """Yield the examples with the fields of `columns`, which the table has; None: all columns."""

    def describe_place(self, line: int) -> str:
        """Return the place of an example for messages."""
        return f"{self.name}, line {line}"


def check_column(name: str, names: Sequence[str], place: str) -> None:
    """Raise `InputError` unless a table has exactly one column `name`; `place` begins the message."""
    if names.count(name) != 1:
        how = "more than one" if name in names else "no"
        raise InputError(
            f"{place}: there is {how} column {quote(name)}; the columns are {quote_names(names)}: name one of them"
        )


def quote_names(names: Iterable[str]) -> str:
    """Return at most ten names for a message, `'a', 'b'`, or `none`."""
    names = list(names)
    more = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
    return (", ".join(map(quote, names[:_MAX_NAMES])) or "none") + more


def join_alternatives(names: Sequence[str]) -> str:
    """Join names for a message: `a, b or c`."""
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
