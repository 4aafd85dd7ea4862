"""Values from JSON, checked."""

import json
import os

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.json_lines import check_characters
from bert_keras.pipelines.corpus.text_lines import read_document


def read_json_document(path: str | os.PathLike, **parsing) -> object:
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
