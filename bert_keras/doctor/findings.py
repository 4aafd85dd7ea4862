"""The results of checks: items with a mark, grouped in sections, without private names.

People paste the report into public issues, so `remove_private` cleans it before it is printed.
"""

import contextlib
import dataclasses
import functools
import getpass
import os
import pathlib
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from bert_keras.errors import InputError, MissingExtraError, ParityError

OK, NOTE, FAULT = "ok", "note", "FAULT"
_SECRET_NAME = re.compile("TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY|ACCESS_KEY", re.IGNORECASE)
_MIN_SECRET_LENGTH = 6  # shorter values, such as "true", would be removed from unrelated words
_URL_LOGIN = re.compile(r"(\w+://)[^/\s]*@")  # a password may contain "@"
_TOKEN = re.compile(r"\b(?:hf_|ghp_|github_pat_|glpat-|sk-)[A-Za-z0-9_-]{10,}")
_NAME_ENDS = r"(?![\w-]|\.\w)"  # a full stop ends a name at the end of a sentence, not in mallory.txt


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

    @contextlib.contextmanager
    def attempt(self, name: str) -> Iterator[None]:
        """Run a check inside the block. It raises an error for a fault, whose message contains the fix.

        A message that another item has already is not repeated.
        """
        try:
            yield
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


def format_size(num_bytes: int) -> str:
    """Format a number of bytes, in MB from 0.1 MB on."""
    return f"{num_bytes:,} bytes" if num_bytes < 1e5 else f"{num_bytes / 1e6:,.1f} MB"


def count_marks(sections: Iterable[Section], mark: str) -> int:
    """Return the number of items with a mark."""
    return sum(item.mark == mark for section in sections for item in section.items)


def remove_private(sections: Sequence[Section], variables: Mapping[str, str] = os.environ) -> list[Section]:
    """Return sections without the home folder, the user's and the machine's name, and secrets.

    Args:
        sections: the sections of a report.
        variables: the environment, whose secrets are removed.
    """
    clean = make_cleaner(variables)

    def clean_item(item: Item) -> Item:
        return Item(item.mark, *(text and clean(text) for text in (item.name, item.text, item.fix)))

    return [Section(clean(section.title), list(map(clean_item, section.items))) for section in sections]


def make_cleaner(variables: Mapping[str, str] = os.environ) -> Callable[[str], str]:
    """Return a function that removes private names from a text; see `remove_private`."""
    values = {value for name, value in variables.items() if _SECRET_NAME.search(name)}
    secrets = sorted((value for value in values if len(value) >= _MIN_SECRET_LENGTH), key=len, reverse=True)
    patterns = [(re.compile(re.escape(secret)), "***") for secret in secrets]
    patterns += [(_URL_LOGIN, r"\1***@"), (_TOKEN, "***")]
    homes = {variables.get("HOME", ""), os.path.expanduser("~")}
    homes |= {os.path.realpath(home) for home in homes if home}
    homes = {home.rstrip("/") for home in homes if pathlib.Path(home).name}  # "/" is not one
    for home in sorted(homes, key=len, reverse=True):
        patterns.append((re.compile(rf"{re.escape(home)}{_NAME_ENDS}"), "~"))
    with contextlib.suppress(KeyError, OSError, ImportError):  # a container's user number without a name
        if user := getpass.getuser():  # in paths outside the home folder, such as /scratch/NAME
            patterns.append((re.compile(rf"(?<=[/\\]){re.escape(user)}{_NAME_ENDS}"), "USER"))
    machine = socket.gethostname()
    hosts = {machine, machine.partition(".")[0]} - {"localhost", ""}  # a name may have a domain
    for host in sorted(hosts, key=len, reverse=True):
        patterns.append((re.compile(rf"(?<![\w.-]){re.escape(host)}(?![\w-])"), "HOST"))
    return lambda text: functools.reduce(lambda left, pair: pair[0].sub(pair[1], left), patterns, text)
