"""Values from JSON, checked."""

import json
import os

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.text_lines import NOT_TEXT
from bert_keras.pipelines.readers.lines import read_document


def json_value(line: str, place: object, **parsing) -> object:
    """Returns the value of a line that should be a JSON object; `parsing` are arguments of `json.loads`.

    Raises:
        InputError: the line is not JSON; the text of `place` (file and line) starts the message.
    """
    try:
        return json.loads(line, **parsing)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: not JSON ({error}); expected one JSON object a line: mend the line") from None


def json_document(path: str | os.PathLike, **parsing) -> object:
    """Returns the value of a file that is one JSON document; `parsing` are arguments of `json.loads`.

    Raises:
        InputError: the file cannot be read, or is not JSON.
    """
    text = read_document(path)
    try:
        return json.loads(text, **parsing)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: not JSON ({error}); expected one JSON document: restore the file from its source, or say "
            "--format jsonl if it has one object a line"
        ) from None


def json_object(line: str, place: object) -> dict:
    """Returns the JSON object of a line.

    Raises:
        InputError: the line is not JSON, or another JSON value.
    """
    value = json_value(line, place)
    if not isinstance(value, dict):
        raise InputError(f"{place}: the line is the JSON value {quote(value)}; expected an object: mend the line")
    return value


def check_text(value: object, what: str, place: object) -> str:
    """Returns a value that must be a text with something in it; messages name `place` and `what` it is.

    Raises:
        InputError: it is no string, is blank, or holds what no text can.
    """
    if not isinstance(value, str):
        raise InputError(f"{place}: {what} is {quote(value)}; expected a string: correct it")
    if not value.strip():
        raise InputError(f"{place}: {what} is empty; expected text: fill it in, or take the record out")
    check_characters(value, what, place)
    return value


def check_characters(text: str, what: str, place: object) -> None:
    """Raises `InputError` if a string holds NUL or half a surrogate pair; messages name `place` and `what` it is."""
    if bad := NOT_TEXT.search(text):
        raise InputError(f"{place}: {what} holds \\u{ord(bad[0]):04x}, which no text can hold: take it out")
