"""Questions about texts from SQuAD's JSON, versions 1.1 and 2.0, or from flat JSON lines; every answer is checked."""

import dataclasses
import pathlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.json_lines import parse_json_object
from bert_keras.pipelines.corpus.text_lines import open_lines
from bert_keras.pipelines.readers.bad_examples import BadExamples, collect_bad
from bert_keras.pipelines.readers.json_values import check_text, read_json_document
from bert_keras.pipelines.readers.lines import detect_format
from bert_keras.pipelines.readers.tables.json_rows import check_is_object
from bert_keras.pipelines.readers.tables.listed_examples import ListedExamples, Source
from bert_keras.pipelines.readers.tables.table_rows import quote_names

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
        place: where it is in its file, such as "data[0].paragraphs[3].qas[1]", "line 7" or "[3]".
    """

    id: str
    question: str
    context: str
    title: str
    answers: tuple[Answer, ...]
    is_impossible: bool
    place: str


class ReadQuestion(NamedTuple):
    """What was read of one place of a file: a question, or what is wrong with it."""

    question: Question | None
    error: InputError | None


def read_questions(
    path: Source,
    *,
    format: str | None = None,
    needs_answers: bool = True,
    bad: BadExamples | None = None,
) -> list[Question]:
    """Reads the questions of a file.

    - `.json`: SQuAD 1.1 or 2.0, or an array of flat objects. A question of SQuAD without answers must have a true
      `is_impossible`.
    - `.jsonl`: a flat object a line, as Hugging Face's datasets have it: "question", "context", "answers" (an object
      of the lists "text" and "answer_start", or a list of objects), perhaps "id" (else the number of the line),
      "title" and "is_impossible" (else true where "answers" is empty, as in their squad_v2).

    Args:
        path: a file in UTF-8, whose name may end in .gz, too; or examples in memory, flat objects.
        format: "json" or "jsonl"; by default what the name's ending says.
        needs_answers: raise for a question that has none and is not impossible. Answers that are there are checked
            in any case.
        bad: takes bad questions, to be refused or skipped by the caller; None: they are refused here.

    Returns:
        The questions in order, one or more.

    Raises:
        InputError: the file cannot be read or is not of its format, an id repeats, or an answer is not what the
            context has at its place; the file and the place in it are named.
    """
    with collect_bad(bad) as bad:
        found = stream_questions(path, format=format, needs_answers=needs_answers)
        questions = [one.question for one in bad.keep_good(found)]
    bad.check_any_left(len(questions), path, "question")
    return questions


def stream_questions(
    source: Source, *, format: str | None = None, needs_answers: bool = True
) -> Iterator[ReadQuestion]:
    """Yield the questions of a file one by one, bad ones with their errors.

    Args: as `read_questions`.

    Raises:
        InputError: the file cannot be read at all.
    """
    path = source if isinstance(source, ListedExamples) else pathlib.Path(source)
    places = {}
    for one in _found(path, format, needs_answers):
        if one.error is None:
            question = one.question
            if (first := places.setdefault(question.id, question.place)) != question.place:
                error = (
                    f"{_Place(path, question.place)}: the id {quote(question.id)} is that of {first} too; expected an "
                    "id of its own: take one of the two out, or rename it"
                )
                one = ReadQuestion(None, InputError(error))
        yield one


def _found(path: pathlib.Path | ListedExamples, format: str | None, needs_answers: bool) -> Iterator[ReadQuestion]:
    if isinstance(path, ListedExamples):
        return _listed_questions(path, path.objects, needs_answers)
    if detect_format(path, format, {".json": "json", ".jsonl": "jsonl"}) == "jsonl":
        return _flat_questions(path, needs_answers)
    value = read_json_document(path)
    if isinstance(value, list):
        return _listed_questions(path, value, needs_answers)
    return _squad_questions(path, value, needs_answers)


class _Place(NamedTuple):
    """Where something is: a file, and where in it."""

    path: pathlib.Path | ListedExamples
    inside: str = ""

    def __str__(self) -> str:
        gap = "" if self.inside.startswith("[") else ", "
        return f"{self.path}{gap}{self.inside}" if self.inside else str(self.path)


def _squad_questions(path: pathlib.Path, value: object, needs_answers: bool) -> Iterator[ReadQuestion]:
    for article, at_article in _members(value, "data", _Place(path)):
        paragraphs = _members(article, "paragraphs", at_article)
        title = _title(article, at_article)
        for paragraph, at_paragraph in paragraphs:
            context = check_text(_field(paragraph, "context", at_paragraph), "context", at_paragraph)
            for qa, place in _members(paragraph, "qas", at_paragraph):
                try:
                    name = _name(_field(qa, "id", place), place)
                    question = _question(qa, name, title, context, place, needs_answers, is_impossible=False)
                    yield ReadQuestion(question, None)
                except InputError as error:
                    yield ReadQuestion(None, error)


def _flat_questions(path: pathlib.Path, needs_answers: bool) -> Iterator[ReadQuestion]:
    contexts: dict[str, str] = {}
    with open_lines(path) as (_, lines):
        for number, line, error in lines:
            place = _Place(path, f"line {number}")
            if error is not None:
                yield ReadQuestion(None, error)
            elif line.strip():
                try:
                    yield _flat_question(parse_json_object(line, place), number, place, contexts, needs_answers)
                except InputError as fault:
                    yield ReadQuestion(None, fault)


def _listed_questions(
    path: pathlib.Path | ListedExamples, objects: Sequence[object], needs_answers: bool
) -> Iterator[ReadQuestion]:
    contexts: dict[str, str] = {}
    for index, value in enumerate(objects):
        place = _Place(path, f"[{index}]")
        try:
            yield _flat_question(check_is_object(value, str(place)), index, place, contexts, needs_answers)
        except InputError as error:
            yield ReadQuestion(None, error)


def _flat_question(
    record: dict, number: int, place: _Place, contexts: dict[str, str], needs_answers: bool
) -> ReadQuestion:
    """Return the question of a flat object; `contexts` are those of the questions before."""
    context = check_text(_field(record, "context", place), "context", place)
    context = contexts.setdefault(context, context)
    name = _name(record.get("id", number), place)
    is_impossible = record.get("answers") in ([], {"text": [], "answer_start": []})
    question = _question(record, name, _title(record, place), context, place, needs_answers, is_impossible)
    return ReadQuestion(question, None)


def _question(
    record: dict, name: str, title: str, context: str, place: _Place, needs_answers: bool, is_impossible: bool
) -> Question:
    """Returns a question of a record; `is_impossible` if the record does not say."""
    where = f"{place}, question {quote(name)}"
    question = check_text(_field(record, "question", where), "question", where)
    is_impossible = record.get("is_impossible", is_impossible)
    if not isinstance(is_impossible, bool):
        raise InputError(f"{where}: is_impossible is {quote(is_impossible)}; expected true or false: correct it")
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
            raise InputError(f"{where}: {what}.answer_start is {quote(start)}; expected an integer: correct it")
        found = context[max(start, 0) : max(start, 0) + len(text)]
        if start < 0 or found != text:
            elsewhere = f"is at {context.index(text)}" if text in context else "is nowhere in it"
            raise InputError(
                f"{where}: {what} is {quote(text)} at character {quote(start)}, where the context has {quote(found)}; "
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
        raise InputError(f"{place}: {name} is {quote(value)}; expected a list: correct it")
    return value


def _field(owner: object, name: str, place: object) -> object:
    if not isinstance(owner, dict):
        raise InputError(f"{place}: the value is {quote(owner)}; expected an object with {quote(name)}: {_FORMS}")
    if name not in owner:
        raise InputError(f"{place}: there is no field {quote(name)}; the fields are {quote_names(owner)}: {_FORMS}")
    return owner[name]
