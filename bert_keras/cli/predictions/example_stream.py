"""`ExampleStream`: the valid examples of a file, one by one. Invalid ones are reported."""

import itertools
import pathlib
from collections.abc import Callable, Iterator

from bert_keras.errors import InputError

_LINE_FORMATS = ("txt", "csv", "tsv", "jsonl")
_BLOCK_BYTES = 1 << 22


class ExampleStream:
    """Iterator over the valid examples of a file. Invalid ones are reported and skipped, or end the iteration.

    Args:
        read: yields `(line, example, error)`, see `read_prediction_data`.
        skip: whether invalid examples are skipped.
        report: prints a sentence about a skipped example.

    Attributes:
        error: the error that ended the iteration.
        num_read: number of examples read so far, including invalid ones.
        num_skipped: number of invalid examples so far.
    """

    def __init__(self, read: Iterator, *, skip: bool, report: Callable[[str], None]):
        self.error: InputError | None = None
        self.num_read = 0
        self.num_skipped = 0
        self._read = read
        self._skip = skip
        self._report = report
        self._lines: list[int | None] = []

    def __iter__(self) -> Iterator:
        try:
            for line, example, error in self._read:
                self.num_read += 1
                if error is None:
                    self._lines.append(line)
                    yield example
                elif self._skip:
                    self.num_skipped += 1
                    self._report(f"skipped: {error}")
                else:
                    raise error
        except InputError as error:  # also raised where the rest of the file cannot be parsed
            self.error = error  # raised after the examples before it are answered

    def skip_answered(self, num_read: int, num_skipped: int) -> None:
        """Pass over the first `num_read` examples, which an earlier run answered or skipped."""
        for _ in itertools.islice(self._read, num_read):
            pass
        self.num_read, self.num_skipped = num_read, num_skipped

    def take_lines(self, number: int) -> list[int | None]:
        """Remove and return the line numbers of the next answered examples."""
        taken, self._lines = self._lines[:number], self._lines[number:]
        return taken


def count_examples(path: pathlib.Path, file_format: str) -> int | None:
    """Return the number of examples of a file by counting its lines, for a progress bar.

    Line breaks inside quoted fields and blank lines count too. None if the format has no line per example or the file
    is compressed.
    """
    if file_format not in _LINE_FORMATS or path.suffix == ".gz" or not path.is_file():
        return None
    num_lines, end = 0, b"\n"
    with open(path, "rb") as file:
        while block := file.read(_BLOCK_BYTES):
            num_lines += block.count(b"\n")
            end = block[-1:]
    return max(0, num_lines + (end != b"\n") - (file_format in ("csv", "tsv")))
