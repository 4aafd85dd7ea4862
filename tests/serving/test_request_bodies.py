"""What is wrong with a JSON body, in one sentence."""

import time
from typing import Annotated, Literal

import pydantic
import pytest

from bert_keras.serving.http.request_bodies import ListOf, describe_validation_error


class Body(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", strict=True)


class One(Body):
    text: str
    top: Annotated[int, pydantic.Field(ge=1, le=9)] | None = None
    color: Literal["red", "blue"] = "red"
    is_raw: bool = False


class Many(Body):
    examples: ListOf[One]


Ids = Annotated[ListOf[pydantic.NonNegativeInt], pydantic.Field(min_length=1)]
FORMS = pydantic.TypeAdapter(One | Many)
INPUTS = pydantic.TypeAdapter(dict[str, str | Ids | ListOf[str]], config=pydantic.ConfigDict(strict=True))


def describe(adapter, body):
    with pytest.raises(pydantic.ValidationError) as caught:
        adapter.validate_json(body)
    return describe_validation_error(caught.value)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("{}", "text is missing; /docs describes the request"),
        ("[]", "the body is []; expected an object"),
        ("null", "the body is null; expected an object"),
        ('{"text": 1}', "text is 1; expected a string"),
        ('{"text": NaN}', "text is nan; expected a string"),
        ('{"text": "a", "top": 0}', "top is 0; expected at least 1"),
        ('{"text": "a", "top": 10}', "top is 10; expected at most 9"),
        ('{"text": "a", "top": 1.5}', "top is 1.5; expected an integer"),
        ('{"text": "a", "color": "green"}', "color is 'green'; expected 'red' or 'blue'"),
        ('{"text": "a", "is_raw": 1}', "is_raw is 1; expected true or false"),
        ('{"text": "a", "txt": 1}', "txt is not a field of this request; correct its name, or leave it out"),
        ('{"text": "a", "Str": 1}', "Str is not a field of this request; correct its name, or leave it out"),
        ('{"examples": 3}', "examples is 3; expected a list"),
        ('{"examples": ["a"]}', "examples.0 is 'a'; expected an object"),
        ('{"examples": [{"text": "a"}, {"txt": "b"}]}', "examples.1.text is missing; /docs describes the request"),
        ('{"examples": [{"text": "a", "top": true}]}', "examples.0.top is true; expected an integer"),
        ("", "the body is not JSON, EOF while parsing a value at line 1 column 0; /docs describes the request"),
        (
            '{"text": "\\ud800"}',
            "the body is not JSON, unexpected end of hex escape at line 1 column 17; /docs",
        ),
    ],
)
def test_sentence_is_about_the_form_that_fits_best(body, sentence):
    assert describe(FORMS, body).startswith(sentence)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("5", "inputs is 5; expected a string or a list"),
        ("[]", None),
        ('[1, "a"]', "inputs.1 is 'a'; expected an integer"),
        ('["a", 1.5]', "inputs.1 is 1.5; expected a string"),
        ("[1, -2]", "inputs.1 is -2; expected at least 0"),
    ],
)
def test_sentence_is_about_the_value_that_was_reached_last(value, sentence):
    body = f'{{"inputs": {value}}}'
    if sentence is None:
        assert INPUTS.validate_json(body) == {"inputs": []}
    else:
        assert describe(INPUTS, body) == sentence


@pytest.mark.parametrize("body", ['{"%s": 1}' % ("9" * 5000), '{"text": "%s", "top": "x"}' % ("a" * 5000), "[" * 5000])
def test_sentence_is_short(body):
    assert len(describe(FORMS, body)) < 200


def test_a_long_list_of_wrong_values_costs_no_more_than_a_right_one():
    """The server reads bodies between other requests, which must not wait for it."""
    begin = time.process_time()
    INPUTS.validate_json('{"inputs": [' + "1," * 500_000 + "1]}")
    right = time.process_time() - begin
    begin = time.process_time()
    assert describe(INPUTS, '{"inputs": [' + "null," * 500_000 + "1]}").startswith("inputs.0 is null")
    assert time.process_time() - begin < 20 * right  # measured: 0.4; without fail_fast 100
