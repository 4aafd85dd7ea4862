"""Open huggingface_hub, find the user's token, and turn the errors of requests into one sentence without it."""

import contextlib
import errno
import importlib
import os
import re
import sys
import types
from collections.abc import Iterator

from bert_keras.compat import import_huggingface_hub
from bert_keras.errors import InputError
from bert_keras.extras import check_installed

LOGIN = "log in with  hf auth login  or set HF_TOKEN"
_SHOWN_LENGTH = 300  # characters of the Hub's own message
_TOKEN_FORM = re.compile(r"[\x21-\x7e]{1,4096}")  # what fits into a header; other tokens would be quoted in an error
_LOOKS_LIKE_TOKEN = re.compile(r"\b(?:hf|api_org)_[A-Za-z0-9]{8,}|(?i:bearer) \S+")
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO)  # these come without a file name too
_CONNECTION_ERRORS = ("TransportError", "ConnectionError", "Timeout")  # base classes of httpx, Python and requests


def open_hub(feature: str) -> types.ModuleType:
    """Return the module huggingface_hub.

    Args:
        feature: the feature that needs it, for the message.

    Raises:
        MissingExtraError: it is not installed.
    """
    check_installed(feature, "huggingface-hub", "hub")
    hub = import_huggingface_hub()
    for module in ("constants", "utils"):  # that the package itself imports on demand
        importlib.import_module(f"{hub.__name__}.{module}")
    if not sys.stderr.isatty() and "HF_HUB_DISABLE_PROGRESS_BARS" not in os.environ and "ipykernel" not in sys.modules:
        hub.utils.disable_progress_bars()  # they would fill a log file
    return hub


def find_token(hub: types.ModuleType) -> str | None:
    """Return the user's token: HF_TOKEN, or that of `hf auth login`; None if there is none.

    Raises:
        InputError: the token cannot be one.
    """
    with one_sentence_errors("reading the token"):
        token = hub.get_token()
    if token is not None and not _TOKEN_FORM.fullmatch(token):
        raise InputError(
            "the token of the Hugging Face Hub contains spaces, line breaks or other characters that no token has; "
            f"expected one line of letters and digits: {LOGIN} again"
        )
    return token


def check_can_upload(feature: str) -> tuple[types.ModuleType, str]:
    """Check what can be checked without a request: the package, HF_HUB_OFFLINE, and that there is a token.

    Args:
        feature: the feature that uploads, for messages.

    Returns:
        The module huggingface_hub, and the token.

    Raises:
        InputError: nothing can be uploaded.
        MissingExtraError: huggingface_hub is not installed.
    """
    hub = open_hub(feature)
    if hub.constants.HF_HUB_OFFLINE:
        raise InputError(f"HF_HUB_OFFLINE is set, and {feature} needs the Hugging Face Hub: unset it")
    token = find_token(hub)
    if token is None:
        raise InputError(
            f"{feature} needs a token of the Hugging Face Hub with write access, and there is none: {LOGIN}; "
            f"{hub.constants.ENDPOINT}/settings/tokens creates one"
        )
    return hub, token


@contextlib.contextmanager
def one_sentence_errors(subject: str, token: str | None = None) -> Iterator[None]:
    """Turn every error of the block into one `InputError` that does not contain the token.

    The block contains only calls of huggingface_hub, whose errors are of many classes, some of its HTTP library. The
    original error, which refers to the request with its headers, is not chained.

    Args:
        subject: what is read or written, such as "hf://ORG/NAME", for the message.
        token: the token that the block uses.

    Raises:
        InputError: the block raised an error.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        message = hide_token(_explain(error, subject, has_token=token is not None), token)
    else:
        return
    failure = InputError(message)
    try:
        raise failure
    finally:
        failure.__context__ = None  # Python has set it to the error that the `with` statement handles


def hide_token(text: str, token: str | None) -> str:
    """Replace the token, and all that looks like one, in a text."""
    text = text.replace(token, "***") if token else text
    return _LOOKS_LIKE_TOKEN.sub("***", text)


def is_unreachable(error: BaseException) -> bool:
    """Whether an error says that the Hub could not be reached."""
    status = _get_status(error)
    names = {kind.__name__ for part in _chain(error) for kind in type(part).__mro__}
    return status >= 500 if status else not names.isdisjoint(_CONNECTION_ERRORS)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes, each once."""
    seen = []
    while error is not None and not any(error is one for one in seen):
        seen.append(error)
        yield error
        error = error.__cause__ or error.__context__


def _get_status(error: BaseException) -> int | None:
    """Return the HTTP status of the Hub's response, also if it caused the error; None if there was no response."""
    statuses = (getattr(getattr(part, "response", None), "status_code", None) for part in _chain(error))
    return next(filter(None, statuses), None)


def _find_file_error(error: BaseException) -> OSError | None:
    """Return the error of a file of this machine, or of its disk, which caused an error; None: there is none."""
    files = (part for part in _chain(error) if isinstance(part, OSError) and part.strerror)
    return next((part for part in files if part.filename is not None or part.errno in _DISK_ERRORS), None)


def _explain(error: Exception, subject: str, *, has_token: bool) -> str:
    kinds = {kind.__name__ for part in _chain(error) for kind in type(part).__mro__}
    status = _get_status(error)
    login = "use a token that may read it" if has_token else LOGIN
    if "GatedRepoError" in kinds:
        return (
            f"{subject} is gated: its owners allow access to users who asked for it; expected a token of such a user: "
            f"ask for access on its page, and {'use a token of that user' if has_token else LOGIN}"
        )
    if "RevisionNotFoundError" in kinds:
        return (
            f"{subject} has no such revision; expected a branch, a tag or a commit: check the part after '@', and "
            "write %2F for a slash in it"
        )
    if "RepositoryNotFoundError" in kinds or status == 404:
        return (
            f"{subject} is not a model on the Hugging Face Hub, or it is private; expected ORG/NAME of a public model, "
            f"or of one that you may read: check the name, or {login}"
        )
    if status in (401, 403):
        return (
            f"the Hugging Face Hub refused the access to {subject} (status {status}); expected a token with the right "
            f"to do it: {'use another token' if has_token else LOGIN}"
        )
    if is_unreachable(error):
        return (
            f"{subject}: the Hugging Face Hub cannot be reached ({status or type(error).__name__}); expected a network "
            "connection: connect, or check HF_ENDPOINT and HF_HUB_OFFLINE"
        )
    if status is None and (failure := _find_file_error(error)) is not None:
        return (
            f"{subject}: {failure.filename or 'a file in the cache'} cannot be read or written ({failure.strerror}); "
            "expected a readable file, and free disk space in the cache: correct it, or set HF_HOME to another folder"
        )
    text = " ".join(str(getattr(error, "server_message", None) or error).split())[:_SHOWN_LENGTH]
    code = "" if status is None else f"status {status}: "
    return f"{subject}: the Hugging Face Hub reported an error ({code}{text or type(error).__name__}): try again later"
