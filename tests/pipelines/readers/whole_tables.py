"""Read a whole table into memory."""

from typing import NamedTuple

from bert_keras.pipelines.readers.bad_examples import collect_bad
from bert_keras.pipelines.readers.tables.tables import open_table


class Table(NamedTuple):
    """Column names of a table, and the fields and lines of its examples."""

    columns: list[str]
    examples: list[list[str | list[str]]]
    lines: list[int]


def read_table(path, **options) -> Table:
    """Read all examples of a table; an invalid example is an error."""
    with open_table(path, **options) as table:
        with collect_bad(None) as bad:
            examples = list(bad.keep_good(table.read()))
        bad.check_any_left(len(examples), table.name)
        return Table(table.columns, [example.fields for example in examples], [example.line for example in examples])
