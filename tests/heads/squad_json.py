"""Write small SQuAD files."""

import json


def squad(*questions: tuple[str, str, int | None]) -> str:
    """Return SQuAD JSON of (id, answer, start) about one context; a start of None means that there is no answer."""
    qas = [
        {"id": name, "question": "Where?", "is_impossible": start is None}
        | {"answers": [] if start is None else [{"text": text, "answer_start": start}]}
        for name, text, start in questions
    ]
    return json.dumps({"data": [{"title": "T", "paragraphs": [{"context": "in Berlin", "qas": qas}]}]})
