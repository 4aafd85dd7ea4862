"""The text of a record of a JSON-lines file, or an error."""

import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.text_lines import read_record_text


def test_the_text_of_a_record_can_have_line_ends_and_escapes():
    assert read_record_text('{"id": 1, "text": "a\\nb \\u00e9 \\ud83d\\ude00"}', "text", "") == "a\nb \u00e9 \U0001f600"


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ("{'text': 1}", r"not JSON \(.*\); expected one JSON object per line"),
        ('{"text": "a"', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"text": ' + "1" * 5000 + "}", "not JSON|the field .text. is a value with a number"),
        ('["a"]', r"the line is the JSON value \['a'\]; expected an object: correct the line"),
        ("null", "the line is the JSON value None"),
        (
            '{"body": "a", "id": 1}',
            "there is no field 'text'; the fields are body, id: name the field with the text",
        ),
        ("{}", "there is no field 'text'; the fields are none"),
        ('{"text": ["a"]}', r"the field 'text' is \['a'\]; expected a string: name another field"),
        ('{"text": true}', "the field 'text' is True"),
        ('{"text": "a\\u0000b"}', r"the field 'text' has \\u0000, which is not valid in text: remove it"),
        ('{"text": "a\\ud800b"}', r"the field 'text' has \\ud800"),
    ],
)
def test_a_record_without_text_is_an_error(record, message):
    with pytest.raises(InputError, match=f"^f.jsonl, line 3: (?:{message})"):
        read_record_text(record, "text", "f.jsonl, line 3")
