"""Names of models on the Hub: `hf://ORG/NAME`, with an optional revision and subfolder."""

import os
import re
import urllib.parse
from typing import NamedTuple

from bert_keras.checks import quote
from bert_keras.errors import InputError

PREFIX = "hf://"
_PART = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?"  # of a repository's name: at most 96 characters
_REPOSITORY = re.compile(rf"{_PART}/{_PART}")
_REFERENCE = r"refs/(?:pr|convert)/[^/@]+"  # the only revisions whose slashes need no %2F
_REVISION = rf"{_REFERENCE}|[^/@]+"
_NAME = re.compile(rf"(?P<repository>[^/@]+/[^/@]+)(?:@(?P<revision>{_REVISION}))?(?:/(?P<subfolder>[^@]+?))?/?")
_WRITABLE_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]{0,243}")


class HubName(NamedTuple):
    """The parts of a model's name.

    Attributes:
        repository: "ORG/NAME".
        revision: a branch, a tag or a commit; None: the main branch.
        subfolder: the folder of the model in the repository; "" for its root.

    Example:
        >>> str(HubName("me/classifier", "feature/v2"))
        'hf://me/classifier@feature%2Fv2'
    """

    repository: str
    revision: str | None = None
    subfolder: str = ""

    def __str__(self) -> str:
        revision = "" if self.revision is None else f"@{_quote_revision(self.revision)}"
        return PREFIX + self.repository + revision + (f"/{self.subfolder}" if self.subfolder else "")


def is_hub_name(path: object) -> bool:
    """Whether a path is the name of a model on the Hub: a string that starts with `hf://`.

    Example:
        >>> is_hub_name("hf://google-bert/bert-base-uncased"), is_hub_name("google-bert/bert-base-uncased")
        (True, False)
    """
    return isinstance(path, str | os.PathLike) and os.fspath(path)[: len(PREFIX)] == PREFIX


def parse_hub_name(name: str) -> HubName:
    """Split the name of a model into its parts.

    Args:
        name: `hf://ORG/NAME`, `hf://ORG/NAME@REVISION`, or one of them followed by `/SUBFOLDER`. %2F is a slash in the
            revision.

    Raises:
        InputError: it has another form.

    Example:
        >>> parse_hub_name("hf://me/classifier@v2").revision
        'v2'
    """
    match = _NAME.fullmatch(name.removeprefix(PREFIX))
    revision = urllib.parse.unquote(match["revision"]) if match and match["revision"] else None
    if (
        match is None
        or not _is_repository(match["repository"])
        or not (revision is None or _is_revision(revision))
        or ".." in (match["subfolder"] or "").split("/")
    ):
        raise InputError(
            f"{quote(name)[1:-1]} is not the name of a model on the Hugging Face Hub; expected hf://ORG/NAME or "
            "hf://ORG/NAME@REVISION, such as hf://google-bert/bert-base-uncased: correct the name"
        )
    return HubName(match["repository"], revision, match["subfolder"] or "")


def _is_revision(revision: str) -> bool:
    """Whether git allows a name; the client makes a path in its cache of it, so ".." would lead out of the cache."""
    return not re.search(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|//|^/|/$", revision)


def _quote_revision(revision: str) -> str:
    """Write a revision so that `parse_hub_name` reads it."""
    if re.fullmatch(_REFERENCE, revision) and "%" not in revision:
        return revision
    return re.sub(r"[%/@]", lambda match: urllib.parse.quote(match[0], safe=""), revision)


def _is_repository(name: str) -> bool:
    """Whether a name is one that a repository can have: "ORG/NAME"."""
    return _REPOSITORY.fullmatch(name) is not None and not re.search(r"--|\.\.|\.git$", name)


def check_repository(name: str) -> str:
    """Return the name of a repository to write to, "ORG/NAME"; `hf://` before it is left out.

    Raises:
        InputError: the Hub does not allow the name.
    """
    name = name.removeprefix(PREFIX)
    if not _is_repository(name):
        raise InputError(
            f"the repository is {quote(name)}; expected USER/NAME or ORG/NAME of letters, digits, '-', '_' and '.': "
            "correct the name"
        )
    return name


def check_revision(revision: str) -> None:
    """Raise `InputError` unless git allows the name of a branch to write to."""
    if not _WRITABLE_REVISION.fullmatch(revision) or re.search(r"\.\.|//|/\.|/$|\.$|\.lock(/|$)", revision):
        raise InputError(
            f"the revision is {quote(revision)}; expected the name of a branch, such as main or v2: correct the name"
        )
