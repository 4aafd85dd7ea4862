"""Files to the examples of a task: labelled ones to learn from and to score, others to be answered one by one."""

import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from bert_keras.errors import InputError
from bert_keras.metrics.tag_schemes import is_tag, label_of, scheme_of, to_iob2
from bert_keras.pipelines.task_files.column_names import Columns, guess_columns
from bert_keras.pipelines.task_files.json_values import check_text
from bert_keras.pipelines.task_files.json_words import check_words, word_and_span_fields
from bert_keras.pipelines.task_files.labelled_texts import SEPARATOR, check_classes, read_labelled_texts, text_rows
from bert_keras.pipelines.task_files.lines import open_lines
from bert_keras.pipelines.task_files.questions import read_questions
from bert_keras.pipelines.task_files.table_rows import Row
from bert_keras.pipelines.task_files.tables import TableReader, open_table, strict_rows
from bert_keras.pipelines.task_files.tagged_sentences import TaggedSentence, check_tags
from bert_keras.pipelines.task_files.tagged_words import read_tagged_words, stream_tagged_words
from bert_keras.pipelines.text_sources import STANDARD_INPUT
from bert_keras.tasks.base import Task, check_choice, listed
from bert_keras.tasks.question_answering import QuestionAnswering
from bert_keras.tasks.sentence_embedding import SentenceEmbedding
from bert_keras.tasks.text_classification import TextClassification, TextExample
from bert_keras.tasks.token_classification import TokenClassification


@dataclasses.dataclass(frozen=True)
class FileOptions:
    """How files are read; None: by their endings and the usual names.

    Attributes:
        format: "csv", "tsv", "jsonl", "conll", "conllu", "json" or "txt".
        columns: the names of all columns of a table without a header line.
        text_column, second_text_column, label_column: of texts, pairs of texts and their labels.
        separator: between several labels of a text.
        word_column, tag_column: of words and their tags.
    """

    format: str | None = None
    columns: Sequence[str] | None = None
    text_column: str | None = None
    second_text_column: str | None = None
    label_column: str | None = None
    separator: str = SEPARATOR
    word_column: str | None = None
    tag_column: str | None = None


class Example(NamedTuple):
    """What was read of one place of a file: an example of the task, or what is wrong with it."""

    line: int | None
    example: object | None
    error: InputError | None


def read_to_learn(
    name: str, train: os.PathLike, dev: os.PathLike, options: FileOptions, **settings
) -> tuple[Task, list, list]:
    """Reads the examples to learn from and those to score on, and makes the task that they are of.

    Args:
        name: the task's: "classify", "tag", "answer" or "embed".
        train, dev: files.
        options: how they are read.
        **settings: arguments of the task; what the files say themselves (labels, for example) is added.

    Raises:
        InputError: a file cannot be used, or the two do not fit together.
    """
    check_choice("the task", name, tuple(_LEARNING))
    return _LEARNING[name](train, dev, options, settings)


def read_to_score(task: Task, path: os.PathLike, options: FileOptions) -> list:
    """Reads labelled examples of a task that is known.

    Raises:
        InputError: the file cannot be used, or has a label that the task does not have.
    """
    if isinstance(task, QuestionAnswering):
        return read_questions(path, format=options.format)
    if isinstance(task, TokenClassification):
        sentences = _in_iob2(_sentences(path, options), task.scheme, path)
        lines = {tag: sentence.line for sentence in reversed(sentences) for tag in sentence.tags}
        if task.scheme != "none":  # a model may spell them otherwise, or know no I of a label
            known = {label_of(tag) for tag in task.labels}
            lines = {tag: line for tag, line in lines.items() if label_of(tag) not in known}
        _check_known(lines, task, path)
        return sentences
    if isinstance(task, SentenceEmbedding):
        return _pairs(path, options, "regression")
    examples = _examples(_labelled(path, options, task.problem))
    if task.problem != "regression":
        several = task.problem == "multi_label"
        _check_known(
            {name: e.line for e in reversed(examples) for name in (e.label if several else [e.label])}, task, path
        )
    return examples


def read_to_answer(task: Task, source: str | os.PathLike, options: FileOptions) -> Iterator[Example]:
    """Yields the examples of a file, or of standard input ("-"), one by one, bad ones with their errors.

    Raises:
        InputError: the file cannot be read at all.
    """
    form = options.format or _ending(source)
    if form in ("json", "conll", "conllu"):
        yield from _of_own_format(task, source, options)
    elif form == "txt":
        yield from _of_lines(task, source)
    else:
        yield from _of_table(task, source, options)


def columns_to_learn(
    task: Task, path: os.PathLike, options: FileOptions, *, needs_label: bool = True
) -> Columns | None:
    """Returns the columns that are read of labelled examples; None: the file is no table, or can be read only once."""
    if isinstance(task, QuestionAnswering | TokenClassification) or not os.path.isfile(path):
        return None
    with open_table(path, columns=options.columns, format=options.format) as table:
        return _columns_to_learn(table, options, needs_label=needs_label)


def columns_to_answer(task: Task, source: str | os.PathLike, options: FileOptions) -> Columns | None:
    """Returns the columns that are read of a file to be answered; None: it is no table, or can be read only once."""
    if (options.format or _ending(source)) in ("json", "conll", "conllu", "txt") or not os.path.isfile(source):
        return None
    with open_table(source, columns=options.columns, format=options.format) as table:
        if isinstance(task, TokenClassification) and (name := _column_of_words(table, options)):
            return Columns(name, None, None)
        return _columns_to_answer(task, table, options)


def _of_own_format(task: Task, source, options: FileOptions) -> Iterator[Example]:
    if isinstance(task, QuestionAnswering):
        if os.fspath(source) == STANDARD_INPUT:
            raise InputError("standard input is read line by line; expected jsonl, csv or tsv: write it to a file")
        questions = read_questions(source, format=options.format, needs_answers=False)
        yield from (Example(None, question, None) for question in questions)
    elif isinstance(task, TokenClassification):
        yield from map(Example._make, stream_tagged_words(source, **_word_options(options), needs_tags=False))
    else:
        raise InputError(
            f"{source} is of a form that holds no texts; expected .txt, .csv, .tsv or .jsonl: see --format"
        )


def _of_lines(task: Task, source) -> Iterator[Example]:
    if isinstance(task, QuestionAnswering):
        raise InputError(
            f"{source}: lines of text hold no contexts; expected .json, .jsonl, .csv or .tsv: see --format"
        )
    with open_lines(source) as (name, lines):
        for number, text, error in lines:
            if error is None and not text.strip():
                error = InputError(f"{name}, line {number}: the line is empty; expected a text: take the line out")
            yield Example(number, None if error else task.example(text.rstrip("\r\n"), line=number), error)


def _of_table(task: Task, source, options: FileOptions) -> Iterator[Example]:
    with open_table(source, columns=options.columns, format=options.format) as table:
        if isinstance(task, TokenClassification) and (name := _column_of_words(table, options)):
            yield from (_of_words(task, row, name, f"{table.name}, line {row.line}") for row in table.rows([name]))
            return
        columns = _columns_to_answer(task, table, options)
        for row in text_rows(table, columns):
            yield Example(row.line, None if row.error else _of_row(task, row), row.error)


def _columns_to_answer(task: Task, table: TableReader, options: FileOptions) -> Columns:
    """Returns the columns of texts or pairs, and that of the ids of questions in the place of the labels."""
    is_asked = isinstance(task, QuestionAnswering)
    usual = ("question", "context") if is_asked else (None, None)
    columns = guess_columns(
        table.columns,
        text=options.text_column or usual[0],
        second_text=options.second_text_column or usual[1],
        label="id" if is_asked and "id" in table.columns else None,
        needs_label=False,
        place=table.place,
    )
    if isinstance(task, TokenClassification) and columns.second_text is not None:
        raise InputError(
            f"{table.place}: the columns {columns.text!r} and {columns.second_text!r} hold pairs of texts, and "
            "words of single texts are tagged: name the column that is meant with --text-column"
        )
    return columns


def _of_row(task: Task, row: Row):
    """Returns the example of a row of a text, perhaps a second one, and perhaps the id of a question."""
    example = task.example(*row.fields[:2], line=row.line)
    ids = row.fields[2:]
    return dataclasses.replace(example, id=str(ids[0])) if ids else example


def _column_of_words(table: TableReader, options: FileOptions) -> str | None:
    """Returns the column that holds lists of words, if any does, by the rule of the files to learn from."""
    if options.word_column or options.text_column:
        return options.word_column
    return word_and_span_fields(table.columns, None, options.tag_column)[0]


def _of_words(task: TokenClassification, row: Row, name: str, place: str) -> Example:
    """Returns the example of a row with a list of words, or with a text where one was expected."""
    if row.error:
        return Example(row.line, None, row.error)
    [words] = row.fields
    try:
        if isinstance(words, str):
            return Example(row.line, task.example(check_text(words, repr(name), place), line=row.line), None)
        return Example(row.line, TaggedSentence.of_words(check_words(words, name, place), None, row.line), None)
    except InputError as error:
        return Example(row.line, None, error)


def _learn_to_classify(train, dev, options: FileOptions, settings: dict) -> tuple[Task, list, list]:
    problem = settings.get("problem", "single_label")
    learnt = _labelled(train, options, problem)
    held_out = _labelled(dev, _with_columns(options, learnt.columns), problem)
    classes = () if problem == "regression" else tuple(check_classes(learnt, held_out))
    task = TextClassification(**settings, labels=classes, of_pairs=learnt.columns.second_text is not None)
    return task, _examples(learnt), _examples(held_out)


def _learn_to_tag(train, dev, options: FileOptions, settings: dict) -> tuple[Task, list, list]:
    learnt, held_out = _sentences(train, options), _sentences(dev, options)
    scheme = scheme_of([sentence.tags for sentence in learnt])
    if scheme == "none":
        _check_no_entities(learnt, train)
    learnt, held_out = _in_iob2(learnt, scheme, train), _in_iob2(held_out, scheme, dev)
    tags = tuple(check_tags(learnt, held_out, train, dev))
    task = TokenClassification(**settings, labels=tags, scheme="none" if scheme == "none" else "IOB2")
    return task, learnt, held_out


def _learn_to_answer(train, dev, options: FileOptions, settings: dict) -> tuple[Task, list, list]:
    learnt, held_out = (read_questions(path, format=options.format) for path in (train, dev))
    allows_null = any(question.is_impossible for question in learnt)
    if not allows_null and (impossible := next((one for one in held_out if one.is_impossible), None)):
        raise InputError(
            f"{dev}, {impossible.place}: the question has no answer, and all of {train} have one; expected questions "
            "of one kind: train with some that have none, or take them out"
        )
    return QuestionAnswering(**settings, allows_null=allows_null), learnt, held_out


def _learn_to_embed(train, dev, options: FileOptions, settings: dict) -> tuple[Task, list, list]:
    objective = settings.get("objective", "regression")
    learnt, held_out = _pairs(train, options, objective), _pairs(dev, options, "regression")
    highest = max((example.label for example in [*learnt, *held_out] if example.label is not None), default=1.0)
    task = SentenceEmbedding(**settings, highest_score=max(1.0, highest))
    return task, learnt, held_out


def _check_no_entities(sentences: list[TaggedSentence], path) -> None:
    """Raises `InputError` if some tags mark entities, and some are neither that nor O: a slip would pass unseen."""
    lines = {tag: sentence.line for sentence in reversed(sentences) for tag in sentence.tags}
    marking = {tag for tag in lines if tag[:2] in ("B-", "I-") and tag[2:]}
    stray = {tag: line for tag, line in lines.items() if not is_tag(tag)}
    if {tag[0] for tag in marking} == {"B", "I"} and "O" in lines:
        tag, line = min(stray.items(), key=lambda item: item[1])
        raise InputError(
            f"{path}, line {line}: the tag {tag!r} marks no entity, and others do, such as {min(marking)!r}; expected "
            "O, or a letter and a label: correct the tag, or name another column with --tag-column"
        )


_LEARNING: dict[str, Callable] = {
    "classify": _learn_to_classify,
    "tag": _learn_to_tag,
    "answer": _learn_to_answer,
    "embed": _learn_to_embed,
}


def _labelled(path, options: FileOptions, problem: str):
    return read_labelled_texts(
        path,
        problem=problem,
        text_column=options.text_column,
        second_text_column=options.second_text_column,
        label_column=options.label_column,
        columns=options.columns,
        separator=options.separator,
        format=options.format,
    )


def _examples(texts) -> list[TextExample]:
    seconds = texts.second_texts or [None] * len(texts)
    return list(map(TextExample, texts.texts, seconds, texts.labels, texts.lines))


def _with_columns(options: FileOptions, columns) -> FileOptions:
    """Returns options that ask for the columns that another file has."""
    return dataclasses.replace(
        options, text_column=columns.text, second_text_column=columns.second_text, label_column=columns.label
    )


def _pairs(path, options: FileOptions, objective: str) -> list[TextExample]:
    """Reads pairs of texts, with their scores if the objective needs them."""
    if objective == "contrastive":
        with open_table(path, columns=options.columns, format=options.format) as table:
            columns = _columns_to_learn(table, options, needs_label=False)
            rows = strict_rows(text_rows(table, columns), table.name)
        examples = [TextExample(*row.fields, line=row.line) for row in rows]
    else:
        examples = _examples(_labelled(path, options, "regression"))
    if examples[0].second_text is None:
        raise InputError(f"{path} has no pairs of texts; expected two columns: name them with --second-text-column too")
    return examples


def _columns_to_learn(table: TableReader, options: FileOptions, *, needs_label: bool) -> Columns:
    return guess_columns(
        table.columns,
        text=options.text_column,
        second_text=options.second_text_column,
        label=options.label_column if needs_label else None,
        needs_label=needs_label,
        place=table.place,
    )


def _sentences(path, options: FileOptions) -> list[TaggedSentence]:
    return read_tagged_words(path, **_word_options(options))


def _word_options(options: FileOptions) -> dict[str, str | None]:
    return {"word_column": options.word_column, "tag_column": options.tag_column, "format": options.format}


def _in_iob2(sentences: list[TaggedSentence], scheme: str, path) -> list[TaggedSentence]:
    """Returns sentences with the tags that a model learns; those of no scheme stay as they are."""
    converted = []
    for sentence in sentences:
        try:
            converted.append(dataclasses.replace(sentence, tags=tuple(to_iob2(sentence.tags, scheme))))
        except InputError as error:
            raise InputError(f"{path}, line {sentence.line}: {error}") from None
    return converted


def _check_known(first_lines: dict[str, int], task: Task, path) -> None:
    """Raises `InputError` if a label is none of the task's; `first_lines` says where each occurs first."""
    unknown = {name: line for name, line in first_lines.items() if name not in task.labels}
    if unknown:
        name, line = min(unknown.items(), key=lambda item: item[1])
        raise InputError(
            f"{path}, line {line}: the label {name!r} is none of the model's, which are {listed(task.labels)}: correct "
            "the label, or score with a model that was trained with it"
        )


def _ending(source) -> str | None:
    endings = {".json": "json", ".conll": "conll", ".iob": "conll", ".bio": "conll", ".conllu": "conllu", ".txt": "txt"}
    name = os.fspath(source).lower().removesuffix(".gz")
    return endings.get(os.path.splitext(name)[1], "txt" if os.fspath(source) == STANDARD_INPUT else None)
