"""The text of one record of a JSON-lines file."""

import json

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.text_lines import NOT_TEXT
from bert_keras.pipelines.readers.tables.table_rows import quote_names


def record_text(record: str, field: str, place: str) -> str:
    """Returns the text in a field of a record; `place` (file and line) starts every message.

    Raises:
        InputError: the record is no JSON object, or its field is missing, is no string, or holds what no text can.
    """
    try:
        value = json.loads(record)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: not JSON ({error}); expected one JSON object a line: mend the line") from None
    if not isinstance(value, dict):
        raise InputError(
            f"{place}: the line is a JSON {_kind(value)}; expected an object such as {{{quote(field)}: ...}}"
        )
    if field not in value:
        raise InputError(
            f"{place}: there is no field {quote(field)}; the fields are {quote_names(value)}: name the text field"
        )
    text = value[field]
    if not isinstance(text, str):
        raise InputError(
            f"{place}: the field {quote(field)} is a JSON {_kind(text)}; expected a string: name another field"
        )
    if bad := NOT_TEXT.search(text):
        raise InputError(
            f"{place}: the field {quote(field)} holds \\u{ord(bad[0]):04x}, which no text can hold: take it out"
        )
    return text


def _kind(value: object) -> str:
    kinds = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}
    return kinds.get(type(value), "number")
