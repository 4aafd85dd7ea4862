"""Remove private names from a report before it is printed: people paste it into public issues."""

import functools
import getpass
import os
import pathlib
import re
import socket
from collections.abc import Callable, Mapping, Sequence

from bert_keras.doctor.findings import Item, Section

_SECRET_NAME = re.compile("TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY|ACCESS_KEY", re.IGNORECASE)
_MIN_SECRET_LENGTH = 6  # shorter values, such as "true", would be removed from unrelated words
_URL_LOGIN = re.compile(r"(\w+://)[^/\s]*@")  # a password may contain "@"
_TOKEN = re.compile(r"\b(?:hf_|ghp_|github_pat_|glpat-|sk-)[A-Za-z0-9_-]{10,}")
_COMMON_HOSTS = ("localhost", "")
_NAME_ENDS = r"(?![\w-]|\.\w)"  # a full stop ends a name at the end of a sentence, not in mallory.txt


def remove_private(sections: Sequence[Section], variables: Mapping[str, str] = os.environ) -> list[Section]:
    """Return sections without the home folder, the user's and the machine's name, and secrets.

    Args:
        sections: the sections of a report.
        variables: the environment, whose secrets are removed.
    """
    clean = make_cleaner(variables)
    return [
        Section(
            clean(section.title),
            [
                Item(item.mark, *(text and clean(text) for text in (item.name, item.text, item.fix)))
                for item in section.items
            ],
        )
        for section in sections
    ]


def make_cleaner(variables: Mapping[str, str] = os.environ) -> Callable[[str], str]:
    """Return a function that removes private names from a text; see `remove_private`."""
    patterns = [(re.compile(re.escape(secret)), "***") for secret in _list_secrets(variables)]
    patterns += [(_URL_LOGIN, r"\1***@"), (_TOKEN, "***")]
    for home in _list_homes(variables):
        patterns.append((re.compile(rf"{re.escape(home)}{_NAME_ENDS}"), "~"))
    if user := _get_user():  # in paths outside the home folder, such as /scratch/NAME
        patterns.append((re.compile(rf"(?<=[/\\]){re.escape(user)}{_NAME_ENDS}"), "USER"))
    for host in _list_hosts():
        patterns.append((re.compile(rf"(?<![\w.-]){re.escape(host)}(?![\w-])"), "HOST"))
    return lambda text: functools.reduce(lambda left, pair: pair[0].sub(pair[1], left), patterns, text)


def _list_secrets(variables: Mapping[str, str]) -> list[str]:
    """Return the values of variables whose names say that they are secret, the longest first."""
    values = {value for name, value in variables.items() if _SECRET_NAME.search(name)}
    return sorted((value for value in values if len(value) >= _MIN_SECRET_LENGTH), key=len, reverse=True)


def _list_homes(variables: Mapping[str, str]) -> list[str]:
    """Return the spellings of the home folder, the longest first; "/" is not one."""
    homes = {variables.get("HOME", ""), os.path.expanduser("~")}
    homes |= {os.path.realpath(home) for home in homes if home}
    return sorted((home.rstrip("/") for home in homes if pathlib.Path(home).name), key=len, reverse=True)


def _get_user() -> str | None:
    try:
        return getpass.getuser() or None
    except (KeyError, OSError, ImportError):  # a container's user number without a name
        return None


def _list_hosts() -> list[str]:
    """Return the machine's name, and its first part if the name has a domain."""
    host = socket.gethostname()
    return [name for name in dict.fromkeys((host, host.partition(".")[0])) if name not in _COMMON_HOSTS]
