"""The results of checks: items with a mark, grouped in sections."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import TypeVar

from bert_keras.errors import InputError, MissingExtraError, ParityError

OK, NOTE, FAULT = "ok", "note", "FAULT"
Result = TypeVar("Result")


@dataclasses.dataclass(frozen=True)
class Item:
    """The result of one check.

    Attributes:
        mark: `OK`, `NOTE` (worth knowing, not wrong) or `FAULT`.
        name: what was checked.
        text: what was found.
        fix: how to fix it; None: there is nothing to fix, or the text ends with it.
    """

    mark: str
    name: str
    text: str
    fix: str | None = None


@dataclasses.dataclass
class Section:
    """Items under a title; checks add to it."""

    title: str
    items: list[Item] = dataclasses.field(default_factory=list)

    def add_ok(self, name: str, text: str) -> None:
        """Add a check that found nothing wrong."""
        self.items.append(Item(OK, name, text))

    def add_note(self, name: str, text: str, fix: str | None = None) -> None:
        """Add something worth knowing that is not wrong."""
        self.items.append(Item(NOTE, name, text, fix))

    def add_fault(self, name: str, text: str, fix: str | None = None) -> None:
        """Add a fault."""
        self.items.append(Item(FAULT, name, text, fix))

    def attempt(self, name: str, check: Callable[[], Result]) -> Result | None:
        """Run a check that raises an error for a fault; its message contains the fix.

        Returns:
            The result of the check, or None after an error. A message that another item has already is not repeated.
        """
        try:
            return check()
        except MissingExtraError as error:
            self.add_note(name, f"not checked: {error}")
        except InputError as error:
            if all(item.text != str(error) for item in self.items):
                self.add_fault(name, str(error))
        except ParityError as error:
            self.add_fault(name, str(error), "copy it again from its source, or export the checkpoint again")
        except OSError as error:
            reason = f"{error.filename or 'a file'} cannot be read ({error.strerror or error})"
            self.add_fault(name, reason, "check the permissions and the disk")
        return None


def format_size(num_bytes: int) -> str:
    """Format a number of bytes, in MB from 0.1 MB on."""
    return f"{num_bytes:,} bytes" if num_bytes < 1e5 else f"{num_bytes / 1e6:,.1f} MB"


def count_marks(sections: Iterable[Section], mark: str) -> int:
    """Return the number of items with a mark."""
    return sum(item.mark == mark for section in sections for item in section.items)
