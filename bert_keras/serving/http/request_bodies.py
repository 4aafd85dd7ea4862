"""Bodies of requests: decompress them, and describe in one sentence what is wrong with their JSON."""

import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Annotated, TypeVar

import pydantic

from bert_keras.checks import quote
from bert_keras.errors import InputError

Item = TypeVar("Item")
ListOf = Annotated[list[Item], pydantic.Field(fail_fast=True)]  # to collect all errors of a list of 3.6 MB took 22 s

_FORM = re.compile(r"[A-Z]\w*")  # a class in pydantic's locations
_TYPE = re.compile(rf"{_FORM.pattern}|str|(list|constrained)\b.*")
_JSON = {"None": "null", "True": "true", "False": "false"}  # Python's names in JSON
_EXPECTED = {  # keyed by pydantic's type of error
    "bool_type": "true or false",
    "dict_type": "an object",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "int_type": "an integer",
    "less_than_equal": "at most {le}",
    "list_type": "a list",
    "literal_error": "{expected}",
    "model_type": "an object",
    "string_type": "a string",
    "too_short": "a list with at least {min_length} item",
}
_ANY_HEADER = zlib.MAX_WBITS | 32  # of gzip or zlib


class Body(pydantic.BaseModel):
    """Base class of JSON bodies; fields that a form does not have are ignored, as by the servers that we follow."""

    model_config = pydantic.ConfigDict(strict=True)


def decompress(body: bytes, encoding: str, limit: int) -> bytes:
    """Return a body without its compression, at most one byte more than a limit.

    Args:
        body: the bytes of the request.
        encoding: the value of its `Content-Encoding` header, in lower case.
        limit: number of bytes that the result may have; the rest of a larger one is left out.

    Raises:
        InputError: the body has another compression, or is damaged.
    """
    if encoding not in ("gzip", "deflate"):
        raise InputError(f"content-encoding is {quote(encoding)}; expected gzip, deflate, or no such header")
    decoder = zlib.decompressobj(_ANY_HEADER)
    try:
        content = decoder.decompress(body, limit + 1)
    except zlib.error:
        content = None
    if content is None or (len(content) <= limit and not decoder.eof):
        raise InputError(f"the body is not complete {encoding} data; expected what content-encoding says")
    return content


def describe_validation_error(error: pydantic.ValidationError) -> str:
    """Return a sentence with one error of a body.

    If a body or a value can have several forms, it is an error of the form that was followed furthest.
    """
    details = error.errors(include_url=False)
    forms: dict[str, list[Mapping]] = {}  # keyed by the class that a body was compared with; "" if there is only one
    for detail in details:
        parts = [str(part) for part in detail["loc"]]
        is_field = detail["type"] == "extra_forbidden" and len(parts) == 1
        is_form = bool(parts) and _FORM.fullmatch(parts[0]) is not None and not is_field
        forms.setdefault(parts[0] if is_form else "", []).append(detail)
    chosen = max(forms.values(), key=lambda ones: (max(len(_find_place(one)) for one in ones), -len(ones)))
    places = list(map(_find_place, chosen))
    # of two places of the same depth, the one with higher indices of lists was reached later
    indices = {place: [int(part) if part.isdecimal() and len(part) < 10 else 0 for part in place] for place in places}
    place = max(places, key=lambda place: (len(place), indices[place]))
    return _describe(place, [detail for detail in chosen if _find_place(detail) == place])


def _find_place(detail: Mapping) -> tuple[str, ...]:
    """Return the keys and indices that lead to a wrong value, without pydantic's names of types."""
    parts = [str(part) for part in detail["loc"]]
    is_field = detail["type"] == "extra_forbidden"  # whatever its name
    return tuple(
        part for number, part in enumerate(parts, 1) if (is_field and number == len(parts)) or not _TYPE.fullmatch(part)
    )


def _describe(place: Sequence[str], details: Sequence[Mapping]) -> str:
    """Return a sentence for the errors of one value."""
    name = quote(".".join(place))[1:-1] if place else "the body"
    kind, value = details[0]["type"], quote(details[0]["input"])
    if kind == "json_invalid":
        return f"the body is not JSON, {details[0]['ctx']['error']}; /docs describes the request"
    if kind == "missing":
        return f"{name} is missing; /docs describes the request"
    if kind == "extra_forbidden":
        return f"{name} is not a field of this request; correct its name, or leave it out"
    expected = [_EXPECTED.get(one["type"], one["msg"]).format(**one.get("ctx", {})) for one in details]
    return f"{name} is {_JSON.get(value, value)}; expected {' or '.join(dict.fromkeys(expected))}"
