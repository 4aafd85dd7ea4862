"""Bad examples of a data set: counted while it is read, then refused together or skipped."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

from bert_keras.errors import InputError

NUM_SHOWN = 5  # of the first bad examples, each with its place


class _Found(Protocol):
    error: InputError | None


FoundT = TypeVar("FoundT", bound=_Found)


class BadExamples:
    """The bad examples of one or more files.

    Args:
        skip: leave bad examples out, instead of refusing the data.

    Attributes:
        num_read: examples that were read, good and bad.
        num_bad: bad ones among them.
        first: what is wrong with the first `NUM_SHOWN` bad ones.
    """

    def __init__(self, *, skip: bool = False):
        self.skip = skip
        self.num_read = 0
        self.num_bad = 0
        self.first: list[InputError] = []

    def keep_good(self, found: Iterable[FoundT]) -> Iterator[FoundT]:
        """Yield what was read without an error; count the rest."""
        for one in found:
            self.num_read += 1
            if one.error is None:
                yield one
            else:
                self.add(one.error)

    def add(self, error: InputError) -> None:
        """Count a bad example that has been counted as read."""
        self.num_bad += 1
        if len(self.first) < NUM_SHOWN:
            self.first.append(error)

    def check(self) -> None:
        """Raise `InputError` that lists the first bad examples, unless there are none or they are skipped."""
        if self.num_bad == 1 and not self.skip:
            raise self.first[0]
        if self.num_bad and not self.skip:
            raise InputError(f"{self.describe()}: correct them, or leave them out with --on-error skip")

    def check_any_left(self, num_good: int, name: object, kind: str = "rows") -> None:
        """Raise `InputError` if a file has no good example."""
        if num_good:
            return
        self.check()
        if self.num_bad:
            raise InputError(f"{name} has no good example, {self.describe()}: correct them, or name another file")
        raise InputError(f"{name} holds no {kind}; expected one or more: name another file")

    def describe(self) -> str:
        """Return how many are bad, and what is wrong with the first ones."""
        more = f"; and {self.num_bad - len(self.first):,} more" if self.num_bad > len(self.first) else ""
        are = "is" if self.num_bad == 1 else "are"
        return f"{self.num_bad:,} of {self.num_read:,} examples {are} bad: {'; '.join(map(str, self.first))}{more}"


@contextlib.contextmanager
def collect_bad(bad: BadExamples | None) -> Iterator[BadExamples]:
    """Yield `bad`, which the caller checks; or where it is None a new one, which is checked at the end."""
    if bad is not None:
        yield bad
        return
    bad = BadExamples()
    yield bad
    bad.check()
