"""A record of a JSON-lines file gives its text, or says what is wrong with it."""

import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.json_lines import record_text


def test_the_text_of_a_record_may_hold_line_ends_and_escapes():
    assert record_text('{"id": 1, "text": "a\\nb \\u00e9 \\ud83d\\ude00"}', "text", "") == "a\nb \u00e9 \U0001f600"


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ("{'text': 1}", r"not JSON \(.*\); expected one JSON object a line"),
        ('{"text": "a"', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"text": ' + "1" * 5000 + "}", "not JSON|JSON number"),
        ('["a"]', "the line is a JSON array; expected an object such as {'text': ...}"),
        ("null", "the line is a JSON null"),
        (
            '{"body": "a", "id": 1}',
            "there is no field 'text'; the fields are 'body', 'id': name the text field",
        ),
        ("{}", "there is no field 'text'; the fields are none"),
        ('{"text": ["a"]}', "the field 'text' is a JSON array; expected a string"),
        ('{"text": true}', "the field 'text' is a JSON boolean"),
        ('{"text": "a\\u0000b"}', r"the field 'text' holds \\u0000, which no text can hold: take it out"),
        ('{"text": "a\\ud800b"}', r"the field 'text' holds \\ud800"),
    ],
)
def test_a_record_without_text_is_refused(record, message):
    with pytest.raises(InputError, match=f"^f.jsonl, line 3: (?:{message})"):
        record_text(record, "text", "f.jsonl, line 3")
