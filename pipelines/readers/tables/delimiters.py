"""Detect the delimiter of a `.csv` file: a comma, a semicolon, a tab or a vertical bar."""

import contextlib
import csv
import itertools
from collections.abc import Iterator, Sequence

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.text_lines import Line
from bert_keras.pipelines.readers.tables.raw_examples import join_alternatives

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
_NUM_LINES = 50  # at the beginning of a file, from which its delimiter is detected
_MAX_BLANK_LINES = 1000  # before the first row
_MAX_CHARACTERS = 2**20  # of these lines, so that very long lines do not fill the memory
_NAMES = {"\\t": "\t", "tab": "\t", "comma": ",", "semicolon": ";", "bar": "|"}  # as written on a command line


def parse_delimiter(given: str) -> str:
    r"""Return the delimiter that a user gave as itself, as `\t` or by its name.

    Raises:
        InputError: the delimiter is not supported.
    """
    mark = _NAMES.get(given, given)
    if mark not in DELIMITERS:
        raise InputError(
            f"the delimiter is {quote(given)}; expected {join_alternatives([',', ';', '|', 'tab'])}: convert the file"
        )
    return mark


def detect_delimiter(lines: Iterator[Line], num_columns: int | None = None) -> tuple[str, Iterator[Line]]:
    """Return the delimiter of a file, and an iterator over all of its lines.

    More than the first line is read only if that has another delimiter than a comma, because the lines of a pipe
    arrive one by one.
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
    """Return the delimiter of a file that begins with these lines.

    It is a comma, unless the first line has no comma outside quotes, or the lines have different numbers of commas, and
    another delimiter splits the first line and most others into the same number of fields.

    Args:
        lines: the first lines of the file, with their line ends.
        num_columns: the number of columns, for a file without a header line.
    """
    examples = {mark: _parse(lines, mark) for mark in DELIMITERS}
    widths = {mark: num_columns or max(map(len, parsed[:1]), default=0) for mark, parsed in examples.items()}
    shares = {mark: _compute_share(parsed, widths[mark]) for mark, parsed in examples.items() if widths[mark] > 1}
    if shares.get(",", 0) > 0.5 or not shares:
        return ","
    best = max(shares, key=lambda mark: (shares[mark], widths[mark]))  # the first of equals
    return best if shares[best] > 0.5 else ","


def _parse(lines: Sequence[str], mark: str) -> list[list[str]]:
    """Return the fields of the lines that are not blank, up to the first one with a syntax error."""
    parsed = []
    with contextlib.suppress(csv.Error):
        parsed.extend(filter(None, csv.reader(lines, delimiter=mark)))
    return parsed


def _compute_share(parsed: Sequence[Sequence[str]], width: int) -> float:
    """Return the share of the lines that have `width` fields."""
    return sum(len(fields) == width for fields in parsed) / len(parsed) if parsed else 0.0
