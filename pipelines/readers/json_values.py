"""JSON documents, and checks of the values in them."""

import json
import os

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.json_lines import check_characters
from bert_keras.pipelines.corpus.text_lines import read_document
from bert_keras.pipelines.readers.option_spelling import Spell, spell_flag


def read_json_document(path: str | os.PathLike, *, spell: Spell = spell_flag, **parsing: object) -> object:
    """Return the value of a file that is one JSON document.

    Args:
        path: the file.
        spell: spells options in messages.
        **parsing: arguments of `json.loads`.

    Raises:
        InputError: the file cannot be read, or is not JSON.
    """
    text = read_document(path)
    try:
        return json.loads(text, **parsing)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: not JSON ({error}); expected one JSON document: restore the file from its source, or set "
            f"{spell('format', 'jsonl')} if it has one object per line"
        ) from None


def check_text(value: object, what: str, place: object) -> str:
    """Return a value that must be a text and not blank; messages begin with `place` and call the value `what`.

    Raises:
        InputError: the value is not a string, is blank, or has characters that are not valid in text.
    """
    if not isinstance(value, str):
        raise InputError(f"{place}: {what} is {quote(value)}; expected a string: correct it")
    if not value.strip():
        raise InputError(f"{place}: {what} is empty; expected text: fill it in, or remove the record")
    check_characters(value, what, place)
    return value
