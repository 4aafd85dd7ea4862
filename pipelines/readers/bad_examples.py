"""Invalid examples of a data set: counted while it is read, then reported together or skipped."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from bert_keras.errors import InputError
from bert_keras.pipelines.readers.option_spelling import Spell, spell_flag

_MAX_LISTED = 5  # invalid examples in a message, each with its file and line
ParsedT = TypeVar("ParsedT")


def attempt(parse: Callable[..., ParsedT], *arguments: Any) -> tuple[ParsedT | None, InputError | None]:
    """Return `parse(*arguments)` and None; if the example is invalid, None and the error."""
    try:
        return parse(*arguments), None
    except InputError as error:
        return None, error


class BadExamples:
    """Count the invalid examples of one or more files.

    Args:
        skip: whether invalid examples are skipped instead of being an error.
        spell: spells options in messages.

    Attributes:
        num_read: number of examples read, valid and invalid.
        num_bad: number of invalid examples.
        first: the errors of the first five invalid examples.
    """

    def __init__(self, *, skip: bool = False, spell: Spell = spell_flag):
        self.skip = skip
        self.num_read = 0
        self.num_bad = 0
        self.first: list[InputError] = []
        self._spell = spell

    def keep_good(self, examples: Iterable[Any]) -> Iterator[Any]:
        """Yield the valid examples, whose `error` is None, and count the others."""
        for example in examples:
            self.num_read += 1
            if example.error is None:
                yield example
            else:
                self.add(example.error)

    def add(self, error: InputError) -> None:
        """Count as invalid an example that was already counted as read."""
        self.num_bad += 1
        if len(self.first) < _MAX_LISTED:
            self.first.append(error)

    def check(self) -> None:
        """Raise `InputError` with the first invalid examples, unless there are none or they are skipped."""
        if self.num_bad == 1 and not self.skip:
            raise self.first[0]
        if self.num_bad and not self.skip:
            remedy = self._spell("on_error", "skip")
            raise InputError(f"{self.describe()}: correct them, or skip them with {remedy}")

    def check_any_left(self, num_good: int, name: object, kind: str = "examples") -> None:
        """Raise `InputError` if the file `name` has no valid example; `kind` is the word for them."""
        if num_good:
            return
        self.check()
        if self.num_bad:
            raise InputError(f"{name} has no good {kind}, {self.describe()}: correct them, or name another file")
        raise InputError(f"{name} has no {kind}; expected at least one: name another file")

    def describe(self) -> str:
        """Return the number of invalid examples and the first errors, for messages."""
        more = f"; and {self.num_bad - len(self.first):,} more" if self.num_bad > len(self.first) else ""
        are = "is" if self.num_bad == 1 else "are"
        return f"{self.num_bad:,} of {self.num_read:,} examples {are} bad: {'; '.join(map(str, self.first))}{more}"


@contextlib.contextmanager
def collect_bad(bad: BadExamples | None) -> Iterator[BadExamples]:
    """Yield `bad`, which the caller checks; if it is None, yield a new one and check it at the end."""
    if bad is not None:
        yield bad
        return
    bad = BadExamples()
    yield bad
    bad.check()
