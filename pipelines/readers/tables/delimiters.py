"""Which mark stands between the fields of a `.csv` file: a comma, a semicolon, a tab or a vertical bar."""

import csv
import itertools
from collections.abc import Iterator, Sequence

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.text_lines import Line
from bert_keras.pipelines.readers.tables.table_rows import alternatives

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
_NUM_LINES = 50  # at the beginning of a file, from which its delimiter is recognized
_MAX_BLANK_LINES = 1000  # before the first row
_MAX_CHARACTERS = (
    2**20
)  # of the lines from which the delimiter is recognized, lest a file of long lines fill the memory
_SPELLED = {"\\t": "\t", "tab": "\t", "comma": ",", "semicolon": ";", "bar": "|"}  # as a command line has them


def parse_delimiter(given: str) -> str:
    r"""Return the delimiter that a user named: the mark itself, `\t` or its name.

    Raises:
        InputError: it is none that is read here.
    """
    mark = _SPELLED.get(given, given)
    if mark not in DELIMITERS:
        raise InputError(
            f"the delimiter is {quote(given)}; expected {alternatives([',', ';', '|', 'tab'])}: convert the file"
        )
    return mark


def recognized(lines: Iterator[Line], num_columns: int | None = None) -> tuple[str, Iterator[Line]]:
    """Return the mark between the fields of a file, and all of its lines.

    More than the first line is read only where that has another mark than a comma: lines of a pipe come one by one.
    """
    begin, num_characters = [], 0
    for line in itertools.islice(lines, _MAX_BLANK_LINES):
        begin.append(line)
        if line.text.strip():
            break
    if num_columns is not None or any(mark in line.text for line in begin for mark in DELIMITERS if mark != ","):
        for line in itertools.islice(lines, _NUM_LINES - 1):
            begin.append(line)
            num_characters += len(line.text)
            if num_characters > _MAX_CHARACTERS:
                break
    return choose_delimiter([line.text for line in begin], num_columns), itertools.chain(begin, lines)


def choose_delimiter(lines: Sequence[str], num_columns: int | None = None) -> str:
    """Return the mark between the fields of a file that begins with these lines.

    A comma is taken for granted: another mark is recognized only where the first row has no comma outside quotes, or
    where the rows do not fit together with commas, and it divides the first row and most others into equally many
    fields.

    Args:
        lines: the first lines of the file, with their line ends.
        num_columns: how many columns there are, where that is known and the first line does not name them.
    """
    rows = {mark: _rows(lines, mark) for mark in DELIMITERS}
    widths = {mark: num_columns or max(map(len, found[:1]), default=0) for mark, found in rows.items()}
    shares = {mark: _share(found, widths[mark]) for mark, found in rows.items() if widths[mark] > 1}
    if shares.get(",", 0) > 0.5 or not shares:
        return ","
    best = max(shares, key=lambda mark: (shares[mark], widths[mark]))  # the first of equals
    return best if shares[best] > 0.5 else ","


def _rows(lines: Sequence[str], mark: str) -> list[list[str]]:
    """Return the rows of the lines that are not blank, as far as they can be read."""
    rows = []
    try:
        for row in csv.reader(lines, delimiter=mark):
            if row:
                rows.append(row)
    except csv.Error:
        pass  # what comes before it tells enough
    return rows


def _share(rows: Sequence[Sequence[str]], width: int) -> float:
    """Return the share of the rows that have `width` fields; the first has, and the last may be cut."""
    if not rows:
        return 0.0
    return sum(len(row) == width for row in rows) / len(rows)
