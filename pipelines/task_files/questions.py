"""Questions about texts from SQuAD's JSON, versions 1.1 and 2.0, or from flat JSON lines; every answer is checked."""

import dataclasses
import json
import os
import pathlib
from collections.abc import Iterator
from typing import NamedTuple

from bert_keras.checks import shown
from bert_keras.errors import InputError
from bert_keras.pipelines.task_files.json_values import check_text, json_object
from bert_keras.pipelines.task_files.lines import form_of, numbered_lines, read_document
from bert_keras.pipelines.task_files.table_rows import quoted

_FORMS = "SQuAD has data[].paragraphs[].qas[] in a .json file; in a .jsonl file each line is one flat question"


class Answer(NamedTuple):
    """A part of the context: `context[start : start + len(text)] == text`, in characters (Unicode code points)."""

    text: str
    start: int


@dataclasses.dataclass(frozen=True)
class Question:
    """A question about a text.

    Attributes:
        id: the question's name, unlike all others of its file.
        question: what is asked.
        context: the text it is about; questions about one text hold the same object.
        title: the title of the article; "" if it has none.
        answers: accepted answers, which may repeat each other; none if it is impossible, or for prediction.
        is_impossible: whether the context is said to hold no answer.
        place: where it is in its file, such as "data[0].paragraphs[3].qas[1]" or "line 7".
    """

    id: str
    question: str
    context: str
    title: str
    answers: tuple[Answer, ...]
    is_impossible: bool
    place: str


def read_questions(path: str | os.PathLike, *, format: str | None = None, needs_answers: bool = True) -> list[Question]:
    """Reads the questions of a file.

    - `.json`: SQuAD 1.1 or 2.0. A question without answers must have a true `is_impossible`.
    - `.jsonl`: a flat object a line, as Hugging Face's datasets have it: "question", "context", "answers" (an object
      of the lists "text" and "answer_start", or a list of objects), perhaps "id" (else the number of the line),
      "title" and "is_impossible" (else true where "answers" is empty, as in their squad_v2).

    Args:
        path: a file in UTF-8; its name may end in .gz, too.
        format: "json" or "jsonl"; by default what the name's ending says.
        needs_answers: raise for a question that has none and is not impossible. Answers that are there are checked
            in any case.

    Returns:
        The questions in order, one or more.

    Raises:
        InputError: the file cannot be read or is not of its format, an id repeats, or an answer is not what the
            context has at its place; the file and the place in it are named.
    """
    path = pathlib.Path(path)
    read = _READERS[form_of(path, format, {f".{name}": name for name in _READERS})]
    questions, places = [], {}
    for question in read(path, needs_answers):
        if (first := places.setdefault(question.id, question.place)) != question.place:
            raise InputError(
                f"{path}, {question.place}: the id {shown(question.id)} is that of {first} too; expected an id of its "
                "own: "
                "take one of the two out, or rename it"
            )
        questions.append(question)
    if not questions:
        raise InputError(f"{path} holds no question; expected one or more: name another file")
    return questions


class _Place(NamedTuple):
    """Where something is: a file, and where in it."""

    path: pathlib.Path
    inside: str = ""

    def __str__(self) -> str:
        return f"{self.path}, {self.inside}" if self.inside else str(self.path)


def _squad_questions(path: pathlib.Path, needs_answers: bool) -> Iterator[Question]:
    for article, at_article in _members(_json_file(path), "data", _Place(path)):
        paragraphs = _members(article, "paragraphs", at_article)
        title = _title(article, at_article)
        for paragraph, at_paragraph in paragraphs:
            context = check_text(_field(paragraph, "context", at_paragraph), "context", at_paragraph)
            for qa, place in _members(paragraph, "qas", at_paragraph):
                name = _name(_field(qa, "id", place), place)
                yield _question(qa, name, title, context, place, needs_answers, is_impossible=False)


def _flat_questions(path: pathlib.Path, needs_answers: bool) -> Iterator[Question]:
    contexts = {}
    for number, line in numbered_lines(path):
        if line.strip():
            place = _Place(path, f"line {number}")
            record = json_object(line, place)
            context = check_text(_field(record, "context", place), "context", place)
            context = contexts.setdefault(context, context)
            name = _name(record.get("id", number), place)
            is_impossible = record.get("answers") in ([], {"text": [], "answer_start": []})
            yield _question(record, name, _title(record, place), context, place, needs_answers, is_impossible)


_READERS = {"json": _squad_questions, "jsonl": _flat_questions}


def _question(
    record: dict, name: str, title: str, context: str, place: _Place, needs_answers: bool, is_impossible: bool
) -> Question:
    """Returns a question of a record; `is_impossible` if the record does not say."""
    where = f"{place}, question {shown(name)}"
    question = check_text(_field(record, "question", where), "question", where)
    is_impossible = record.get("is_impossible", is_impossible)
    if not isinstance(is_impossible, bool):
        raise InputError(f"{where}: is_impossible is {shown(is_impossible)}; expected true or false: correct it")
    if record.get("answers") is None and (is_impossible or not needs_answers):
        answers = ()
    else:
        answers = tuple(_checked_answers(record, context, where))
    if is_impossible and answers:
        raise InputError(
            f"{where}: is_impossible is true, and the answers are {len(answers)}; expected none: correct one of them, "
            "or move the answers to plausible_answers"
        )
    if needs_answers and not answers and not is_impossible:
        raise InputError(
            f"{where}: there is no answer; expected one or more, or a true is_impossible: correct the question, "
            "or take it out"
        )
    return Question(name, question, context, title, answers, is_impossible, place.inside)


def _checked_answers(record: dict, context: str, where: str) -> Iterator[Answer]:
    for index, (text, start) in enumerate(_listed_answers(record, where)):
        what = f"answers[{index}]"
        text = check_text(text, f"{what}.text", where)
        if type(start) is not int:
            raise InputError(f"{where}: {what}.answer_start is {shown(start)}; expected a whole number: correct it")
        found = context[max(start, 0) : max(start, 0) + len(text)]
        if start < 0 or found != text:
            elsewhere = f"is at {context.index(text)}" if text in context else "is nowhere in it"
            raise InputError(
                f"{where}: {what} is {shown(text)} at character {shown(start)}, where the context has {shown(found)}; "
                "expected the same "
                f"text, which {elsewhere} (characters are Unicode code points): correct answer_start or the text"
            )
        yield Answer(text, start)


def _listed_answers(record: dict, where: str) -> list[tuple[object, object]]:
    """Returns the (text, start) pairs of a list of objects, or of an object of two lists."""
    answers = _field(record, "answers", where)
    if not isinstance(answers, dict):
        places = [
            (answer, f"{where}, answers[{index}]") for index, answer in enumerate(_list(record, "answers", where))
        ]
        return [(_field(answer, "text", place), _field(answer, "answer_start", place)) for answer, place in places]
    texts, starts = (_list(answers, name, f"{where}, answers") for name in ("text", "answer_start"))
    if len(texts) != len(starts):
        raise InputError(
            f"{where}: the answers' lists have {len(texts)} text and {len(starts)} answer_start; expected as many of "
            "both: correct them"
        )
    return list(zip(texts, starts, strict=True))


def _name(value: object, place: _Place) -> str:
    return str(value) if type(value) is int else check_text(value, "id", place)


def _title(record: dict, place: _Place) -> str:
    title = record.get("title")
    return "" if title in (None, "") else check_text(title, "title", place)


def _members(owner: object, name: str, place: _Place) -> list[tuple[object, _Place]]:
    """Returns the members of a list, each with its place."""
    inside = f"{place.inside}.{name}".lstrip(".")
    return [(value, _Place(place.path, f"{inside}[{index}]")) for index, value in enumerate(_list(owner, name, place))]


def _list(owner: object, name: str, place: object) -> list:
    value = _field(owner, name, place)
    if not isinstance(value, list):
        raise InputError(f"{place}: {name} is {shown(value)}; expected a list: correct it")
    return value


def _field(owner: object, name: str, place: object) -> object:
    if not isinstance(owner, dict):
        raise InputError(f"{place}: the value is {shown(owner)}; expected an object with {shown(name)}: {_FORMS}")
    if name not in owner:
        raise InputError(f"{place}: there is no field {shown(name)}; the fields are {quoted(owner)}: {_FORMS}")
    return owner[name]


def _json_file(path: pathlib.Path) -> object:
    text = read_document(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: not JSON ({error}); expected one JSON object: restore the file from its source, or name it "
            ".jsonl if it has one object a line"
        ) from None
