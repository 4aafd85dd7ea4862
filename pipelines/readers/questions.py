"""Read questions about texts from SQuAD 1.1 and 2.0 or from flat JSON objects; every answer is checked."""

import dataclasses
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from bert_keras.checks import format_count, quote
from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.text_lines import open_lines, parse_json_object
from bert_keras.pipelines.readers.bad_examples import BadExamples, attempt, collect_bad
from bert_keras.pipelines.readers.option_spelling import Spell, spell_flag
from bert_keras.pipelines.readers.tables.json_examples import check_is_object, check_text, read_json_document
from bert_keras.pipelines.readers.tables.raw_examples import ListedExamples, Source, detect_format, quote_names

_FORMS = "SQuAD has data[].paragraphs[].qas[] in a .json file; in a .jsonl file each line is one question"


class Answer(NamedTuple):
    """Part of a context, `context[start : start + len(text)] == text`, in characters (Unicode code points)."""

    text: str
    start: int


@dataclasses.dataclass(frozen=True)
class Question:
    """A question about a text.

    Attributes:
        id: its identifier, unique in the file.
        question: the question.
        context: the text; questions about the same text share one object.
        title: the title of the article; "" if it has none.
        answers: accepted answers, with duplicates; empty if the question is impossible or is to be answered.
        is_impossible: whether the context has no answer (SQuAD 2.0).
        place: its place in the file, such as "data[0].paragraphs[3].qas[1]", "line 7" or "[3]".
    """

    id: str
    question: str
    context: str
    title: str
    answers: tuple[Answer, ...]
    is_impossible: bool
    place: str


class ReadQuestion(NamedTuple):
    """A question of a file, or the error of an invalid one."""

    question: Question | None
    error: InputError | None


def read_questions(
    path: Source,
    *,
    format: str | None = None,
    needs_answers: bool = True,
    bad: BadExamples | None = None,
    spell: Spell = spell_flag,
) -> list[Question]:
    """Read the questions of a file.

    - `.json`: SQuAD 1.1 or 2.0, or an array of flat objects. In SQuAD a question without answers must set
      `is_impossible` to true.
    - `.jsonl`: one flat object per line, as in Hugging Face datasets: "question", "context", "answers" (an object
      with the lists "text" and "answer_start", or a list of objects), and optionally "id" (default: the line number),
      "title" and "is_impossible" (default: true if "answers" is empty, as in squad_v2).

    Args:
        path: a file in UTF-8, plain or gzip; or examples in memory, as flat objects.
        format: "json" or "jsonl"; None: the ending of the file's name decides.
        needs_answers: whether a question that is not impossible must have an answer. Answers are always checked.
        bad: collects invalid questions for the caller; None: they are an error.
        spell: spells options in messages.

    Returns:
        The questions in order, at least one.

    Raises:
        InputError: the file cannot be read or does not have its format, an id is not unique, or an answer differs from
            the context at its position. The message names the file and the place.
    """
    with collect_bad(bad) as bad:
        found = stream_questions(path, format=format, needs_answers=needs_answers, spell=spell)
        questions = [one.question for one in bad.keep_good(found)]
    bad.check_any_left(len(questions), path, "questions")
    return questions


def stream_questions(
    source: Source, *, format: str | None = None, needs_answers: bool = True, spell: Spell = spell_flag
) -> Iterator[ReadQuestion]:
    """Yield the questions of a file one by one, invalid ones with their errors.

    Args:
        source, format, needs_answers, spell: as in `read_questions`.

    Raises:
        InputError: the file cannot be read.
    """
    path = source if isinstance(source, ListedExamples) else pathlib.Path(source)
    places = {}
    for one in _QuestionReader(path, needs_answers).read(format, spell):
        if one.error is None:
            question = one.question
            if (first := places.setdefault(question.id, question.place)) != question.place:
                error = (
                    f"{_Place(path, question.place)}: the id {quote(question.id)} is also that of {first}; expected "
                    "unique ids: remove one of the two, or rename it"
                )
                one = ReadQuestion(None, InputError(error))
        yield one


class _Place(NamedTuple):
    """A file and a place in it."""

    path: pathlib.Path | ListedExamples
    inside: str = ""

    def __str__(self) -> str:
        gap = "" if self.inside.startswith("[") else ", "
        return f"{self.path}{gap}{self.inside}" if self.inside else str(self.path)


class _QuestionReader:
    """Reader of the questions of a file or of examples in memory. Equal contexts of flat objects share one object."""

    def __init__(self, path: pathlib.Path | ListedExamples, needs_answers: bool):
        self._path, self._needs_answers = path, needs_answers
        self._contexts: dict[str, str] = {}

    def read(self, format: str | None, spell: Spell) -> Iterator[ReadQuestion]:
        """Return the questions, read one by one; see `read_questions`."""
        if isinstance(self._path, ListedExamples):
            return self._read_flat_objects(self._path.objects)
        if detect_format(self._path, format, {".json": "json", ".jsonl": "jsonl"}, spell=spell) == "jsonl":
            return self._read_flat_lines()
        value = read_json_document(self._path, spell=spell)
        return self._read_flat_objects(value) if isinstance(value, list) else self._read_squad(value)

    def _read_squad(self, value: object) -> Iterator[ReadQuestion]:
        for article, at_article in _list_items(value, "data", _Place(self._path)):
            paragraphs = _list_items(article, "paragraphs", at_article)
            title = _get_title(article, at_article)
            for paragraph, at_paragraph in paragraphs:
                context = check_text(_get_field(paragraph, "context", at_paragraph), "context", at_paragraph)
                for qa, place in _list_items(paragraph, "qas", at_paragraph):
                    yield ReadQuestion(*attempt(self._make_question, qa, None, title, context, place))

    def _read_flat_lines(self) -> Iterator[ReadQuestion]:
        with open_lines(self._path) as (_, lines):
            for number, line, error in lines:
                place = _Place(self._path, f"line {number}")
                if error is not None:
                    yield ReadQuestion(None, error)
                elif line.strip():
                    yield ReadQuestion(*attempt(self._parse_flat, parse_json_object, line, number, place))

    def _read_flat_objects(self, objects: Sequence[object]) -> Iterator[ReadQuestion]:
        for index, value in enumerate(objects):
            place = _Place(self._path, f"[{index}]")
            yield ReadQuestion(*attempt(self._parse_flat, check_is_object, value, index, place))

    def _parse_flat(
        self, load: Callable[[object, _Place], dict], value: object, number: int, place: _Place
    ) -> Question:
        record = load(value, place)
        context = check_text(_get_field(record, "context", place), "context", place)
        context = self._contexts.setdefault(context, context)
        return self._make_question(record, number, _get_title(record, place), context, place)

    def _make_question(self, record: dict, number: int | None, title: str, context: str, place: _Place) -> Question:
        """Return the question of a record; `number` is the default of its id, or None in SQuAD, which has none."""
        is_impossible = number is not None and record.get("answers") in ([], {"text": [], "answer_start": []})
        identity = _get_id(_get_field(record, "id", place) if number is None else record.get("id", number), place)
        where = f"{place}, question {quote(identity)}"
        question = check_text(_get_field(record, "question", where), "question", where)
        is_impossible = record.get("is_impossible", is_impossible)
        if not isinstance(is_impossible, bool):
            raise InputError(f"{where}: is_impossible is {quote(is_impossible)}; expected true or false: correct it")
        if record.get("answers") is None and (is_impossible or not self._needs_answers):
            answers = ()
        else:
            answers = tuple(_check_answers(record, context, where))
        if is_impossible and answers:
            raise InputError(
                f"{where}: is_impossible is true, but the question has {format_count(len(answers), 'answer')}; "
                "expected none: correct one of the two, or move the answers to plausible_answers"
            )
        if self._needs_answers and not answers and not is_impossible:
            raise InputError(
                f"{where}: there is no answer; expected at least one, or is_impossible = true: correct the question, "
                "or remove it"
            )
        return Question(identity, question, context, title, answers, is_impossible, place.inside)


def _check_answers(record: dict, context: str, where: str) -> Iterator[Answer]:
    for index, (text, start) in enumerate(_list_answers(record, where)):
        what = f"answers[{index}]"
        text = check_text(text, f"{what}.text", where)
        if type(start) is not int:
            raise InputError(f"{where}: {what}.answer_start is {quote(start)}; expected an integer: correct it")
        found = context[max(start, 0) : max(start, 0) + len(text)]
        if start < 0 or found != text:
            elsewhere = f"is at {context.index(text)}" if text in context else "is not in the context"
            raise InputError(
                f"{where}: {what} is {quote(text)} at character {quote(start)}, where the context has {quote(found)}; "
                f"expected the same text, which {elsewhere} (characters are Unicode code points): correct answer_start "
                "or the text"
            )
        yield Answer(text, start)


def _list_answers(record: dict, where: str) -> list[tuple[object, object]]:
    """Return the (text, start) pairs of a list of objects, or of an object with two lists."""
    answers = _get_field(record, "answers", where)
    if not isinstance(answers, dict):
        return [
            tuple(_get_field(answer, name, f"{where}, answers[{index}]") for name in ("text", "answer_start"))
            for index, answer in enumerate(_get_list(record, "answers", where))
        ]
    texts, starts = (_get_list(answers, name, f"{where}, answers") for name in ("text", "answer_start"))
    if len(texts) != len(starts):
        raise InputError(
            f"{where}: the answers have {len(texts)} text and {len(starts)} answer_start; expected as many of both: "
            "correct them"
        )
    return list(zip(texts, starts, strict=True))


def _get_id(value: object, place: _Place) -> str:
    return str(value) if type(value) is int else check_text(value, "id", place)


def _get_title(record: dict, place: _Place) -> str:
    title = record.get("title")
    return "" if title in (None, "") else check_text(title, "title", place)


def _list_items(owner: object, name: str, place: _Place) -> list[tuple[object, _Place]]:
    """Return the items of a list, each with its place."""
    inside = f"{place.inside}.{name}".lstrip(".")
    items = _get_list(owner, name, place)
    return [(value, _Place(place.path, f"{inside}[{index}]")) for index, value in enumerate(items)]


def _get_list(owner: object, name: str, place: object) -> list:
    value = _get_field(owner, name, place)
    if not isinstance(value, list):
        raise InputError(f"{place}: {name} is {quote(value)}; expected a list: correct it")
    return value


def _get_field(owner: object, name: str, place: object) -> object:
    if not isinstance(owner, dict):
        raise InputError(f"{place}: the value is {quote(owner)}; expected an object with {quote(name)}: {_FORMS}")
    if name not in owner:
        raise InputError(f"{place}: there is no field {quote(name)}; the fields are {quote_names(owner)}: {_FORMS}")
    return owner[name]
