"""Read the questions of question answering."""

import dataclasses
import os
from collections.abc import Iterator

from bert_keras.errors import InputError
from bert_keras.heads.answer.task import QuestionAnswering
from bert_keras.heads.examples.labelled_files import (
    ScoringInputs,
    TaskExamples,
    TrainingInputs,
)
from bert_keras.heads.examples.prediction_data import Example, PredictionReader
from bert_keras.pipelines.corpus.text_lines import STANDARD_INPUT
from bert_keras.pipelines.readers.questions import read_questions, stream_questions
from bert_keras.pipelines.readers.tables.column_names import Columns
from bert_keras.pipelines.readers.tables.raw_examples import RawExample, TableReader


def read_to_answer(inputs: TrainingInputs) -> TaskExamples:
    """Read questions with their answers."""
    train_source, dev_source, options, settings, bad, spell = inputs
    train, dev = (
        None if source is None else read_questions(source, format=options.format, bad=bad, spell=spell)
        for source in (train_source, dev_source)
    )
    bad.check()
    allows_null = any(question.is_impossible for question in train)
    if not allows_null and (impossible := next((one for one in dev or () if one.is_impossible), None)):
        raise InputError(
            f"{dev_source}, {impossible.place}: the question has no answer, but all questions of {train_source} have "
            "one; expected questions of one kind: train with some that have no answer, or remove them"
        )
    return TaskExamples(QuestionAnswering(**settings, allows_null=allows_null), train, dev)


def read_questions_to_score(inputs: ScoringInputs) -> list:
    """Read questions with their answers."""
    return read_questions(inputs.source, format=inputs.options.format, bad=inputs.bad, spell=inputs.spell)


class QuestionReader(PredictionReader):
    """Reads questions with their contexts."""

    special_formats = ("json", "conll", "conllu")
    text_columns = ("question", "context")

    def read_special(self, source: str | os.PathLike) -> Iterator[Example]:
        """Yield the questions of a file in the format of SQuAD."""
        if os.fspath(source) == STANDARD_INPUT:
            raise InputError("standard input is read line by line; expected jsonl, csv or tsv: write it to a file")
        for question, error in stream_questions(source, format=self.options.format, needs_answers=False):
            yield Example(None, question, error)

    def read_lines(self, source: str | os.PathLike) -> Iterator[Example]:
        """Raise `InputError`: lines have no contexts."""
        raise InputError(
            f"{source}: lines of text have no contexts; expected .json, .jsonl, .csv or .tsv: see --format"
        )

    def choose_columns(self, table: TableReader) -> Columns:
        """Return the columns of questions and contexts, with the column of ids, if there is one, as the label."""
        columns = super().choose_columns(table)
        return dataclasses.replace(columns, label="id" if "id" in table.columns else None)

    def convert(self, raw: RawExample) -> object:
        """Return the question of a row, with its id if there is one."""
        ids = raw.fields[2:]
        example = self.task.make_example(*raw.fields[:2], line=raw.line)
        return dataclasses.replace(example, id=str(ids[0])) if ids else example
