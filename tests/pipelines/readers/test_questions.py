"""Questions in SQuAD and flat files are read with answers that occur in their contexts; errors name the place."""

import gzip
import json

import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.readers.questions import Answer, Question, read_questions
from tests.shared_data import shared

CONTEXT = "\U0001f600 cafe\u0301 in \u5317\u4eac"  # an emoji, a combining mark, Chinese


@pytest.fixture
def read(tmp_path):
    """Function that writes a file and reads its questions."""

    def write_and_read(name, content, **options):
        if not isinstance(content, bytes):
            records = content if isinstance(content, list) else [content]
            content = "".join(json.dumps(record) + "\n" for record in records).encode()
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return read_questions(tmp_path / name, **options)

    return write_and_read


def qa(**changes):
    """Return a SQuAD 2.0 question; a field that is set to None is omitted."""
    qa = {"id": "q", "question": "Where?", "answers": [{"text": "\u5317\u4eac", "answer_start": 11}], **changes}
    return {name: value for name, value in qa.items() if value is not None}


def squad(*qas, **changes):
    """Return a SQuAD file with one paragraph."""
    return {"version": "v2.0", "data": [{"title": "T", "paragraphs": [{"context": CONTEXT, "qas": qas, **changes}]}]}


def flat(**changes):
    """Return a flat record; a field that is set to None is omitted."""
    record = {"id": "q", "title": "T", "context": CONTEXT, "question": "Where?"}
    record = {**record, "answers": {"text": ["\u5317\u4eac"], "answer_start": [11]}, **changes}
    return {name: value for name, value in record.items() if value is not None}


@pytest.mark.parametrize("name", ["q.json", "Q.JSON", "q.json.gz"])
def test_squad_questions_are_read(read, name):
    content = squad(
        qa(answers=[{"text": "cafe\u0301", "answer_start": 2}, {"text": "cafe\u0301", "answer_start": 2}]),
        qa(id="r", answers=[], is_impossible=True, plausible_answers=[{"text": "in", "answer_start": 8}]),
        qa(id="s", is_impossible=False),
    )
    first, second, third = read(name, content)
    place = "data[0].paragraphs[0].qas[0]"
    assert first == Question("q", "Where?", CONTEXT, "T", (Answer("cafe\u0301", 2),) * 2, False, place)
    assert (second.id, second.answers, second.is_impossible) == ("r", (), True)
    assert (third.answers, third.is_impossible) == ((Answer("\u5317\u4eac", 11),), False)
    assert third.place == "data[0].paragraphs[0].qas[2]"
    assert first.context is second.context is third.context


@pytest.mark.parametrize(
    "answers",
    [
        {"text": ["\u5317\u4eac", "in"], "answer_start": [11, 8]},
        [{"text": "\u5317\u4eac", "answer_start": 11}, {"text": "in", "answer_start": 8}],
    ],
)
@pytest.mark.parametrize("name", ["q.jsonl", "q.jsonl.gz"])
def test_flat_records_are_read(read, name, answers):
    first, second = read(name, [flat(answers=answers), flat(id="r")])
    expected = (Answer("\u5317\u4eac", 11), Answer("in", 8))
    assert first == Question("q", "Where?", CONTEXT, "T", expected, False, "line 1")
    assert second.place == "line 2"
    assert second.context is first.context


def test_blank_lines_are_skipped_and_missing_ids_are_the_line_numbers(read):
    content = "\ufeff\n" + json.dumps(flat(id=None, title=None)) + "\r\n\n" + json.dumps(flat(id=7)) + "\n"
    first, second = read("q.jsonl", content.encode())
    assert (first.id, first.title, first.place) == ("2", "", "line 2")
    assert (second.id, second.place) == ("7", "line 4")


def test_impossible_questions_need_no_answers(read):
    (question,) = read("q.json", squad(qa(answers=None, is_impossible=True)))
    assert (question.answers, question.is_impossible) == ((), True)


def test_articles_need_no_title(read):
    content = squad(qa())
    for title in ("", None):
        content["data"][0]["title"] = title
        assert read("q.json", content)[0].title == ""
    del content["data"][0]["title"]
    assert read("q.json", content)[0].title == ""


@pytest.mark.parametrize("answers", [{"text": [], "answer_start": []}, []])
def test_empty_answers_of_flat_records_mean_impossible(read, answers):
    assert read("q.jsonl", flat(answers=answers))[0].is_impossible
    assert not read("q.jsonl", flat(answers=answers, is_impossible=False), needs_answers=False)[0].is_impossible


@pytest.mark.parametrize("answers", [None, []])
def test_questions_for_prediction_need_no_answers(read, answers):
    (question,) = read("q.json", squad(qa(answers=answers)), needs_answers=False)
    assert (question.answers, question.is_impossible) == ((), False)
    (question,) = read("q.json", squad(qa(answers=answers, is_impossible=True)), needs_answers=False)
    assert question.is_impossible
    assert read("q.jsonl", flat(answers=None), needs_answers=False)[0].answers == ()


PLACE = r"data\[0\]\.paragraphs\[0\]"
SQUAD_ERRORS = {
    "not UTF-8": (b'{"data":\n "caf\xe9"}', "line 2: byte 0xe9 at column 6 is not UTF-8"),
    "NUL": (b'{"data":\n\0}', "line 2: there is a NUL byte"),
    "empty file": (b"", r": not JSON \(.*line 1 column 1"),
    "not JSON": (b'{"data":\n [1,}\n', r"not JSON \(.*line 2 column 5.*\); expected one JSON document: restore"),
    "nested too deeply": (b"[" * 100_000, "not JSON"),
    "number too long": (b"1" * 5000, "not JSON|the value is 1"),
    "json lines": (b'{"id": 1}\n{"id": 2}\n', r"not JSON \(.*line 2 column 1.*or set --format jsonl"),
    "not an object": (b"3", r": the value is 3; expected an object with 'data'"),
    "not an object in an array": (b"[[]]", r"\[0\] is an array; expected an object"),
    "no data": ({"version": "1"}, "there is no field 'data'; the fields are 'version'"),
    "data not a list": ({"data": {}}, "data is {}; expected a list"),
    "no questions": ({"data": []}, "has no questions"),
    "no questions in paragraphs": (squad(), "has no questions"),
    "article not an object": ({"data": [3]}, r"data\[0\]: the value is 3; expected an object"),
    "no paragraphs": ({"data": [{"title": "T"}]}, r"data\[0\]: there is no field 'paragraphs'; the fields are 'title'"),
    "flat articles": (
        {"data": [flat()]},
        r"data\[0\]: there is no field 'paragraphs'; the fields are 'id', 'title', 'cont",
    ),
    "title not a string": ({"data": [{"title": 3, "paragraphs": []}]}, r"data\[0\]: title is 3; expected a string"),
    "no context": ({"data": [{"paragraphs": [{"qas": []}]}]}, PLACE + ": there is no field 'context'"),
    "empty context": (squad(context=" \n"), PLACE + r": context is empty"),
    "context not a string": (squad(context=["a"]), PLACE + r": context is \['a'\]; expected a string"),
    "context not valid text": (squad(context="a\ud800"), PLACE + r": context has \\ud800, which is not valid in text"),
    "no qas": ({"data": [{"paragraphs": [{"context": "a"}]}]}, PLACE + ": there is no field 'qas'"),
    "qas not a list": (squad(qas=None), PLACE + r": qas is None; expected a list"),
    "question not an object": (squad("Where?"), PLACE + r"\.qas\[0\]: the value is 'Where\?'; expected an object"),
    "no id": (squad(qa(), qa(id=None)), PLACE + r"\.qas\[1\]: there is no field 'id'"),
    "empty id": (squad(qa(id="")), PLACE + r"\.qas\[0\]: id is empty"),
    "id not a string": (squad(qa(id=True)), PLACE + r"\.qas\[0\]: id is True; expected a string"),
    "duplicate id": (squad(qa(), qa(id="r"), qa()), PLACE + r"\.qas\[2\]: the id 'q' is also that of data.*qas\[0\]"),
    "no question": (squad(qa(question=None)), PLACE + r"\.qas\[0\], question 'q': there is no field 'question'"),
    "empty question": (squad(qa(question="\u3000")), PLACE + r"\.qas\[0\], question 'q': question is empty"),
    "impossible not a boolean": (
        squad(qa(is_impossible="no")),
        r"qas\[0\], question 'q': is_impossible is 'no'; expected true or false",
    ),
    "impossible with answers": (
        squad(qa(is_impossible=True)),
        r"qas\[0\], question 'q': is_impossible is true, but the question has 1 answer.*plausible_answers",
    ),
    "no answers": (squad(qa(answers=None)), r"qas\[0\], question 'q': there is no field 'answers'"),
    "empty answers": (squad(qa(answers=[])), r"qas\[0\], question 'q': there is no answer.*is_impossible"),
    "possible without answers": (squad(qa(answers=[], is_impossible=False)), r"question 'q': there is no answer"),
    "answers not a list": (squad(qa(answers="a")), r"question 'q': answers is 'a'; expected a list"),
    "answer not an object": (
        squad(qa(answers=["a"])),
        r"question 'q', answers\[0\]: the value is 'a'; expected an object",
    ),
    "answer without start": (squad(qa(answers=[{"text": "in"}])), r"answers\[0\]: there is no field 'answer_start'"),
    "answer without text": (squad(qa(answers=[{"answer_start": 8}])), r"answers\[0\]: there is no field 'text'"),
    "empty answer": (squad(qa(answers=[{"text": "", "answer_start": 8}])), r"answers\[0\]\.text is empty"),
    "start not a number": (
        squad(qa(answers=[{"text": "in", "answer_start": "8"}])),
        r"answers\[0\]\.answer_start is '8'; expected an integer",
    ),
    "start is true": (squad(qa(answers=[{"text": " ca", "answer_start": True}])), r"answer_start is True; expected"),
    "other text at the start": (
        squad(qa(answers=[{"text": "in", "answer_start": 9}])),
        r"question 'q': answers\[0\] is 'in' at character 9, where the context has 'n '; .* text, which is at 8",
    ),
    "text not in the context": (
        squad(qa(answers=[{"text": "In", "answer_start": 8}])),
        r"the context has 'in'; .*which is not in",
    ),
    "start after the end": (squad(qa(answers=[{"text": "a", "answer_start": 99}])), r"at character 99, .* has ''"),
    "negative start": (
        squad(qa(answers=[{"text": "\u5317", "answer_start": -2}])),
        "at character -2, .* which is at 11",
    ),
    "negative start of the first word": (
        squad(qa(answers=[{"text": "\U0001f600", "answer_start": -1}])),
        "at character -1, .* which is at 0",
    ),
    "second answer": (
        squad(qa(answers=[{"text": "in", "answer_start": 8}, {"text": "in", "answer_start": 7}])),
        r"question 'q': answers\[1\] is 'in' at character 7",
    ),
}


@pytest.mark.parametrize("case", SQUAD_ERRORS)
def test_squad_errors_name_the_place(read, case):
    content, message = SQUAD_ERRORS[case]
    with pytest.raises(InputError, match=r"f\.json.*" + message):
        read("f.json", content)


RECORD_ERRORS = {
    "not UTF-8": (b'\n{"id": "caf\xe9"}', "line 2: byte 0xe9 at column 12 is not UTF-8"),
    "empty file": (b"\n \n", "has no questions"),
    "not JSON": (b'{"id": 1\n', r"line 1: not JSON .*expected one JSON object per line"),
    "not an object": ([flat(), [3]], r"line 2: the line is the JSON value \[3\]; expected an object"),
    "squad": (squad(qa()), r"line 1: there is no field 'context'; the fields are 'version', 'data'.*SQuAD.*\.json"),
    "no context": (flat(context=None), "line 1: there is no field 'context'"),
    "empty context": (flat(context=""), r"line 1: context is empty"),
    "empty question": (flat(question=" "), r"line 1, question 'q': question is empty"),
    "title not a string": (flat(title=5), r"line 1: title is 5; expected a string"),
    "duplicate id": ([flat(), flat()], "line 2: the id 'q' is also that of line 1"),
    "id equals a line number": ([flat(id=2), flat(id=None)], "line 2: the id '2' is also that of line 1"),
    "no answers": (flat(answers=None), "line 1, question 'q': there is no field 'answers'"),
    "possible without answers": (flat(answers=[], is_impossible=False), "line 1, question 'q': there is no answer"),
    "impossible with answers": (
        flat(is_impossible=True),
        "line 1, question 'q': is_impossible is true, but the question has 1 answer",
    ),
    "texts not a list": (
        flat(answers={"text": "a", "answer_start": [0]}),
        "line 1, question 'q', answers: text is 'a'; expected a list",
    ),
    "no starts": (flat(answers={"text": ["a"]}), "line 1, question 'q', answers: there is no field 'answer_start'"),
    "fewer starts": (
        flat(answers={"text": ["in", "in"], "answer_start": [8]}),
        r"line 1, question 'q': the answers have 2 text and 1 answer_start; expected as many",
    ),
    "other text at the start": (
        flat(answers={"text": ["in"], "answer_start": [7]}),
        r"line 1, question 'q': answers\[0\] is 'in' at character 7, where the context has ' i'",
    ),
}


@pytest.mark.parametrize("case", RECORD_ERRORS)
def test_record_errors_name_the_line(read, case):
    content, message = RECORD_ERRORS[case]
    with pytest.raises(InputError, match=r"f\.jsonl.*" + message):
        read("f.jsonl", content)


def test_optional_answers_are_checked_if_present(read):
    with pytest.raises(InputError, match="at character 9, where the context has"):
        read("q.json", squad(qa(answers=[{"text": "in", "answer_start": 9}])), needs_answers=False)


def test_other_extensions_and_missing_files_are_rejected(read, tmp_path):
    for name in ("q.txt", "q.csv.gz", "q"):
        with pytest.raises(InputError, match=r"q.* (ends in '\..*'|has no ending); expected \.json or \.jsonl"):
            read(name, squad(qa()))
    with pytest.raises(InputError, match="the format is 'csv'; expected json or jsonl"):
        read("q.json", squad(qa()), format="csv")
    with pytest.raises(InputError, match=r"none\.json does not exist"):
        read_questions(tmp_path / "none.json")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(InputError, match=r"folder\.json is a folder"):
        read_questions(tmp_path / "folder.json")


@pytest.mark.parametrize(
    ("name", "num_questions", "num_impossible", "num_contexts"),
    [
        ("v1.1_train", 7617, 0, 4142),
        ("v1.1_dev", 1070, 0, None),
        ("v2.0_train", 2068, 1079, None),
        ("v2.0_dev", 1246, 614, None),
    ],
)
def test_squad_is_read_completely(name, num_questions, num_impossible, num_contexts):
    questions = read_questions(shared(f"squad/squad_{name}_subset.json.gz"))
    assert len(questions) == num_questions
    assert sum(question.is_impossible for question in questions) == num_impossible
    assert all(question.answers or question.is_impossible for question in questions)
    num_objects = len({id(question.context) for question in questions})
    assert num_objects == len({question.place.rpartition(".")[0] for question in questions})
    assert num_contexts in (None, num_objects)
    for question in questions:
        for text, start in question.answers:
            assert question.context[start:].startswith(text)
