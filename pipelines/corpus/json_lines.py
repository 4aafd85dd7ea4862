"""Parse and check the lines of JSON-lines files."""

import json
from typing import Any

from bert_keras.checks import format_names, quote
from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.text_lines import NOT_TEXT


def parse_json(line: str, place: object, **parsing: Any) -> object:
    """Parse a line of JSON; a value other than an object is returned too, for the caller to report.

    Args:
        line: the line.
        place: the file and the line number, which start the error message.
        **parsing: arguments of `json.loads`.

    Raises:
        InputError: the line is not JSON.
    """
    try:
        return json.loads(line, **parsing)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: not JSON ({error}); expected one JSON object per line: correct the line") from None


def parse_json_object(line: str, place: object) -> dict:
    """Parse a line that must be a JSON object.

    Raises:
        InputError: the line is not JSON, or another JSON value.
    """
    value = parse_json(line, place)
    if not isinstance(value, dict):
        raise InputError(f"{place}: the line is the JSON value {quote(value)}; expected an object: correct the line")
    return value


def read_record_text(line: str, field: str, place: str) -> str:
    """Return the text in a field of a JSON line; `place` (file and line number) starts the error messages.

    Raises:
        InputError: the line is not a JSON object, or its field is missing or not a valid text.
    """
    values = parse_json_object(line, place)
    if field not in values:
        raise InputError(
            f"{place}: there is no field {quote(field)}; the fields are {format_names(values, most=10) or 'none'}: "
            "name the field with the text"
        )
    text = values[field]
    if not isinstance(text, str):
        raise InputError(f"{place}: the field {quote(field)} is {quote(text)}; expected a string: name another field")
    check_characters(text, f"the field {quote(field)}", place)
    return text


def check_characters(text: str, what: str, place: object) -> None:
    """Raise `InputError` if a string has NUL or half a surrogate pair; messages name `place` and `what` it is."""
    if bad := NOT_TEXT.search(text):
        raise InputError(f"{place}: {what} has \\u{ord(bad[0]):04x}, which is not valid in text: remove it")
