"""An answer cut from a context, or none."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from bert_keras.checks import check_integer
from bert_keras.errors import InputError
from bert_keras.metrics.squad import answer_scores, find_null_threshold
from bert_keras.pipelines.batches.encoding import EncodedSequences, encode, has_most_context
from bert_keras.pipelines.readers.questions import Question
from bert_keras.tasks.base import LabelledSequences, Task, softmax

NUM_LOGITS = 20  # of each window, how many of the best starts and ends are paired


@dataclasses.dataclass(frozen=True)
class QuestionAnswering(Task):
    """Where in a context the answer to a question begins and ends (Devlin et al. 2018, 4.2 and 4.3).

    Contexts are read in windows. The best answer is the pair of a start and an end, in one window, with the highest
    sum of logits: the end is not before the start, and the start has most context in this window. That there is no
    answer is scored by [CLS], in the window where this is least likely. All as in Google's run_squad.py.

    An answer is made of whole words: it begins where the word of its first token does, and ends where that of its last
    does, as in transformers' `question-answering` pipeline (`align_to_words`). A punctuation mark is a word.

    Args:
        max_question_length: longer questions are cut, in tokens.
        max_answer_length: the longest answer in tokens.
        num_best: how many different answers are given, the best first; their probabilities sum to 1.
        allows_null: whether there may be no answer (SQuAD 2.0).
        null_threshold: no answer is given where its score is above that of the best answer by more than this.

    Raises:
        InputError: a setting is out of range.
    """

    max_sequence_length: int = 384
    window_overlap: int | None = 128
    max_question_length: int = 64
    max_answer_length: int = 30
    num_best: int = 5
    allows_null: bool = False
    null_threshold: float = 0.0

    name: ClassVar[str] = "answer"
    model_class: ClassVar[str] = "BertQuestionAnswerer"
    example_class: ClassVar[type] = Question
    is_token_level: ClassVar[bool] = True

    def __post_init__(self):
        super().__post_init__()
        if self.window_overlap is None:
            raise InputError("contexts are read in windows; expected window_overlap as a number of tokens, 0 or more")
        for name in ("max_question_length", "max_answer_length", "num_best"):
            object.__setattr__(self, name, check_integer(name, getattr(self, name)))

    @property
    def main_score(self) -> str:
        return "f1"

    @property
    def has_alternatives(self) -> bool:
        return True

    @property
    def input_names(self) -> tuple[str, ...]:
        return ("question", "context")

    def make_example(self, text: str, second_text: str | None = None, line: int | None = None) -> Question:
        """Returns a question, the text, about a context, the second text."""
        if second_text is None:
            raise InputError("questions are asked about a context, and there is none; expected a pair: give both")
        place = "" if line is None else f"line {line}"
        return Question("" if line is None else str(line), text, second_text, "", (), False, place)

    def encode(self, tokenizer, examples: Sequence[Question]) -> EncodedSequences:
        return encode(
            tokenizer,
            [example.question for example in examples],
            [example.context for example in examples],
            max_sequence_length=self.max_sequence_length,
            window_overlap=self.window_overlap,
            max_first_length=self.max_question_length,
            with_offsets=True,
        )

    def add_labels(self, rows: EncodedSequences, examples: Sequence[Question]) -> LabelledSequences:
        """A window that does not hold the whole answer teaches that there is none."""
        positions = np.zeros((2, len(rows)), np.int32)  # 0 is [CLS]
        wanted = _token_ranges(rows, examples)
        for row in range(len(rows)):
            first, last = wanted[rows.examples[row]]
            begin, end = _context_of(rows, row)
            numbers = rows.text_positions[begin:end]
            if last >= first and len(numbers) and numbers[0] <= first and last <= numbers[-1]:
                positions[:, row] = begin - rows.row_splits[row] + np.array([first, last]) - numbers[0]
        return LabelledSequences(rows, dict(zip(("start_positions", "end_positions"), positions, strict=True)))

    def decode(self, rows, outputs, examples) -> list[dict]:
        starts, ends = outputs["start_logits"].astype(np.float64), outputs["end_logits"].astype(np.float64)
        best_row = has_most_context(rows)
        firsts = np.searchsorted(rows.examples, np.arange(len(examples) + 1))  # the first row of each example
        answers = []
        for example, begin, end in zip(examples, firsts[:-1], firsts[1:], strict=True):
            spans = [span for row in range(begin, end) for span in self._spans(rows, row, starts, ends, best_row)]
            cls = rows.row_splits[begin:end]
            answers.append(self._answer(example, spans, float((starts[cls] + ends[cls]).min())))
        return answers

    def score(self, answers: Sequence[Mapping], examples: Sequence[Question]) -> dict[str, float]:
        return answer_scores(dict(enumerate(answer["answer"] for answer in answers)), _accepted(examples))

    def calibrate(self, answers: Sequence[Mapping], examples: Sequence[Question]) -> "QuestionAnswering":
        """Returns the task with the threshold that gives the best F1; as it is where all have an answer."""
        # where no span is possible, none is given whatever the threshold
        found = [(answer, example) for answer, example in zip(answers, examples, strict=True) if answer["best"]]
        if not self.allows_null or not found:
            return self
        differences = dict(enumerate(_difference(answer) for answer, _ in found))
        best = dict(enumerate(answer["best"][0]["answer"] for answer, _ in found))
        threshold, *_ = find_null_threshold(differences, best, _accepted([example for _, example in found]))
        return dataclasses.replace(self, null_threshold=threshold)

    def apply_calibration(self, answers: Sequence[Mapping]) -> list[dict]:
        return [self._chosen(answer) for answer in answers]

    def to_json(self, answer: Mapping, num_best: int = 1) -> dict:
        given = {name: value for name, value in answer.items() if name != "best"}
        return given if num_best == 1 else {**given, "best": list(answer["best"][:num_best])}

    def _spans(self, rows: EncodedSequences, row: int, starts, ends, best_row) -> list[tuple[float, int, int]]:
        """Returns (score, start, end) of the possible spans of a window, in characters and whole words."""
        begin, end = _context_of(rows, row)
        first_of, last_of = (np.argsort(-logits[begin:end], kind="stable")[:NUM_LOGITS] for logits in (starts, ends))
        firsts, lasts = (places.ravel() for places in np.meshgrid(first_of + begin, last_of + begin, indexing="ij"))
        fits = (lasts >= firsts) & (lasts - firsts < self.max_answer_length) & best_row[firsts]
        firsts, lasts = firsts[fits], lasts[fits]
        scores = starts[firsts] + ends[lasts]
        return list(
            zip(scores.tolist(), rows.word_starts[firsts].tolist(), rows.word_ends[lasts].tolist(), strict=True)
        )

    def _answer(self, example: Question, spans: list[tuple[float, int, int]], null_score: float) -> dict:
        best = {}  # by their texts, the best first
        for score, start, end in sorted(spans, reverse=True):
            text = example.context[start:end]
            best.setdefault(text, {"answer": text, "score": score, "start": start, "end": end})
            if len(best) == self.num_best:
                break
        found = list(best.values())
        probabilities = softmax([answer["score"] for answer in found]).tolist() if found else []
        for answer, probability in zip(found, probabilities, strict=True):
            answer["probability"] = probability
        return self._chosen({"id": example.id, "best": found, "null_score": null_score})

    def _chosen(self, answer: Mapping) -> dict:
        """Returns an answer with the one that is given: the best one, or none."""
        best = answer["best"][0] if answer["best"] else None
        if best is None or (self.allows_null and _difference(answer) > self.null_threshold):
            best = {"answer": "", "score": answer["null_score"], "start": None, "end": None, "probability": None}
        return {**answer, **best}


def _difference(answer: Mapping) -> float:
    """Returns by how much the score of there being no answer is above that of the best answer."""
    return answer["null_score"] - answer["best"][0]["score"]


def _accepted(examples: Sequence[Question]) -> dict[int, list[str]]:
    """Returns the accepted texts of each question by its place; ids need be unlike within a file only."""
    return {place: [answer.text for answer in example.answers] for place, example in enumerate(examples)}


def _context_of(rows: EncodedSequences, row: int) -> tuple[int, int]:
    """Returns the range of a row's tokens of context, without [SEP], among all tokens."""
    return rows.row_splits[row] + rows.second_starts[row], rows.row_splits[row + 1] - 1


def _token_ranges(rows: EncodedSequences, examples: Sequence[Question]) -> list[tuple[int, int]]:
    """Returns the first and the last token of the first answer of each example; (0, -1) where there is none."""
    ranges = [(0, -1)] * len(examples)
    best = has_most_context(rows)  # each token of a context once
    of_tokens = rows.examples[rows.sequence_indices]
    splits = np.searchsorted(of_tokens, np.arange(len(examples) + 1))
    for index, example in enumerate(examples):
        if not example.answers:
            continue
        within = slice(splits[index], splits[index + 1])
        starts, ends = rows.starts[within][best[within]], rows.ends[within][best[within]]
        answer = example.answers[0]
        first = np.searchsorted(ends, answer.start, side="right")
        last = np.searchsorted(starts, answer.start + len(answer.text), side="left") - 1
        ranges[index] = (int(first), int(last))
    return ranges
