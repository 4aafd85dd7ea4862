"""`QuestionAnswering`: an answer extracted from a context, or no answer."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bert_keras.checks import check_integer
from bert_keras.errors import InputError
from bert_keras.heads.signatures import Arrays, TensorSpec, make_specs, make_strings, pad_rows
from bert_keras.heads.task import LabelledSequences, Row, Task, softmax
from bert_keras.metrics.squad import answer_scores, find_null_threshold
from bert_keras.pipelines.batches.encoding import EncodedSequences, encode, has_most_context
from bert_keras.pipelines.readers.questions import Question

if TYPE_CHECKING:
    from bert_keras.pipelines.text.tokenizer import BertTokenizer

NUM_LOGITS = 20  # number of best starts and of best ends per window that are combined


@dataclasses.dataclass(frozen=True)
class QuestionAnswering(Task):
    """Extraction of an answer from a context (Devlin et al. 2018, 4.2 and 4.3).

    Contexts are split into windows. The best answer has the highest sum of start and end logits in one window, where
    the end is not before the start and the start token has the most context of all windows. The score of having no
    answer is that of [CLS], the lowest over the windows. All this is as in Google's run_squad.py.

    An answer is extended to whole words, as in transformers' `question-answering` pipeline (`align_to_words`). A
    punctuation mark is a word.

    Args:
        max_question_length: maximum length of questions in tokens; longer ones are cut.
        max_answer_length: maximum length of answers in tokens.
        num_best: number of different answers, the best first; their probabilities sum to 1.
        allows_null: whether a question may have no answer (SQuAD 2.0).
        null_threshold: no answer is given if its score exceeds that of the best answer by more than this.

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
    example_class: ClassVar[type] = Question
    is_token_level: ClassVar[bool] = True
    has_default_length: ClassVar[bool] = True
    scores_in_percent: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window_overlap is None:
            raise InputError("contexts are split into windows; expected window_overlap as a number of tokens from 0")
        for name in ("max_question_length", "max_answer_length", "num_best"):
            object.__setattr__(self, name, check_integer(name, getattr(self, name)))

    @property
    def main_score(self) -> str:
        """F1 of the words of answers."""
        return "f1"

    @property
    def has_alternatives(self) -> bool:
        """True: answers are ranked."""
        return True

    @property
    def input_names(self) -> tuple[str, ...]:
        """A question and its context."""
        return ("question", "context")

    def make_example(self, text: str, second_text: str | None = None, line: int | None = None) -> Question:
        """Create a question (the text) about a context (the second text)."""
        if second_text is None:
            raise InputError("a question needs a context, and there is none; expected a pair of texts: give both")
        place = "" if line is None else f"line {line}"
        return Question("" if line is None else str(line), text, second_text, "", (), False, place)

    def list_texts(self, example: Question) -> tuple[str, ...]:
        """Return the question and its context."""
        return example.question, example.context

    def fill_label(self, example: Question) -> Question:
        """Return a question without an answer."""
        return dataclasses.replace(example, answers=(), is_impossible=True)

    def encode(self, tokenizer: "BertTokenizer", examples: Sequence[Question]) -> EncodedSequences:
        """Tokenize questions with their contexts, in windows."""
        return encode(
            tokenizer,
            [example.question for example in examples],
            [example.context for example in examples],
            max_sequence_length=self.max_sequence_length,
            window_overlap=self.window_overlap,
            max_first_length=self.max_question_length,
            with_offsets=True,
        )

    def add_labels(self, sequences: EncodedSequences, examples: Sequence[Question]) -> LabelledSequences:
        """Add the start and end positions; those of a window without the whole answer are [CLS], as for no answer."""
        positions = np.zeros((2, len(sequences)), np.int32)  # 0 is [CLS]
        answers = _find_answer_tokens(sequences, examples)
        for index in range(len(sequences)):
            first, last = answers[sequences.examples[index]]
            begin, end = _find_context(sequences, index)
            tokens = sequences.text_positions[begin:end]
            if last >= first and len(tokens) and tokens[0] <= first and last <= tokens[-1]:
                positions[:, index] = begin - sequences.row_splits[index] + np.array([first, last]) - tokens[0]
        return LabelledSequences(sequences, dict(zip(("start_positions", "end_positions"), positions, strict=True)))

    def decode(
        self, sequences: EncodedSequences, outputs: Mapping[str, np.ndarray], examples: Sequence[Question]
    ) -> list[dict]:
        """Return the best answers of each question, under `best`, and the chosen one."""
        starts, ends = outputs["start_logits"].astype(np.float64), outputs["end_logits"].astype(np.float64)
        is_best = has_most_context(sequences)
        firsts = np.searchsorted(sequences.examples, np.arange(len(examples) + 1))  # the first window of each example
        answers = []
        for example, begin, end in zip(examples, firsts[:-1], firsts[1:], strict=True):
            windows = range(begin, end)
            spans = [span for index in windows for span in self._find_spans(sequences, index, starts, ends, is_best)]
            cls = sequences.row_splits[begin:end]
            answers.append(self._make_answer(example, spans, float((starts[cls] + ends[cls]).min())))
        return answers

    def score(self, answers: Sequence[Mapping], examples: Sequence[Question]) -> dict[str, float]:
        """Compute SQuAD's scores in percent."""
        return answer_scores(dict(enumerate(answer["answer"] for answer in answers)), _get_accepted_texts(examples))

    def calibrate(self, answers: Sequence[Mapping], examples: Sequence[Question]) -> "QuestionAnswering":
        """Return the task with the threshold of the best F1; unchanged if all questions have an answer."""
        # a question without a possible span gets no answer, whatever the threshold
        found = [(answer, example) for answer, example in zip(answers, examples, strict=True) if answer["best"]]
        if not self.allows_null or not found:
            return self
        differences = dict(enumerate(_compute_difference(answer) for answer, _ in found))
        best = dict(enumerate(answer["best"][0]["answer"] for answer, _ in found))
        threshold, *_ = find_null_threshold(differences, best, _get_accepted_texts([example for _, example in found]))
        return dataclasses.replace(self, null_threshold=threshold)

    def apply_calibration(self, answers: Sequence[Mapping]) -> list[dict]:
        """Return the answers with the threshold of this task."""
        return [self._apply_threshold(answer) for answer in answers]

    def describe_for_clients(self) -> dict[str, object]:
        """Return all settings, and the number of starts and ends that are combined."""
        return {**self.settings(), "num_logits": NUM_LOGITS}

    def shorten_for_clients(self, answer: Mapping) -> dict[str, object]:
        """Return the chosen answer."""
        names = ("answer", "start", "end", "score", "null_score", "probability")
        return {name: answer[name] for name in names}

    def make_row(self, example: Question, answer: Mapping) -> Row:
        """Return the row of a question in a table of answers."""
        accepted = list(dict.fromkeys(one.text for one in example.answers))
        probability = "" if answer["probability"] is None else f"{answer['probability']:.3f}"
        cells = [example.question, " / ".join(accepted), answer["answer"], probability]
        return answer["answer"] not in (accepted or [""]), cells

    def to_json(self, answer: Mapping, num_best: int = 1) -> dict:
        """Convert an answer to JSON values, with up to `num_best` alternatives."""
        best = {name: value for name, value in answer.items() if name != "best"}
        return best if num_best == 1 else {**best, "best": list(answer["best"][:num_best])}

    def describe_signature(self, num_dimensions: int | None) -> list[TensorSpec]:
        """Return the chosen answer, and the best answers, padded, with their number."""
        types = {"answer": "string", "start": "int32", "end": "int32", "score": "float32", "null_score": "float32"}
        lists = {"best_answers": "string", "best_scores": "float32", "best_probabilities": "float32"}
        lists |= {"best_starts": "int32", "best_ends": "int32"}
        return [*make_specs(types), *make_specs(lists, (-1, -1)), *make_specs({"num_best": "int32"})]

    def describe_ids_signature(self, num_dimensions: int | None) -> list[TensorSpec]:
        """Return the two logits of each token."""
        return make_specs({"start_logits": "float32", "end_logits": "float32"}, (-1, -1))

    def compute_signature(
        self, sequences: EncodedSequences, outputs: Mapping[str, np.ndarray], examples: Sequence
    ) -> Arrays:
        """Return the chosen answer, and the best answers, padded, with their number."""
        answers = self.decode(sequences, outputs, examples)
        best = [answer["best"] for answer in answers]
        lists: dict[str, tuple[str, object, type]] = {"best_answers": ("answer", "", object)}
        lists |= {"best_scores": ("score", 0.0, np.float32), "best_probabilities": ("probability", 0.0, np.float32)}
        lists |= {"best_starts": ("start", -1, np.int32), "best_ends": ("end", -1, np.int32)}
        return {
            "answer": make_strings([answer["answer"] for answer in answers]),
            **{
                name: np.array([-1 if answer[name] is None else answer[name] for answer in answers], np.int32)
                for name in ("start", "end")
            },
            **{name: np.array([answer[name] for answer in answers], np.float32) for name in ("score", "null_score")},
            **{
                name: pad_rows([[span[key] for span in spans] for spans in best], padding, dtype, 1)
                for name, (key, padding, dtype) in lists.items()
            },
            "num_best": np.array([*map(len, best)], np.int32),
        }

    def _find_spans(
        self, sequences: EncodedSequences, index: int, starts: np.ndarray, ends: np.ndarray, is_best: np.ndarray
    ) -> list[tuple[float, int, int]]:
        """Return the possible answers in a window as (score, start, end), in characters and whole words."""
        begin, end = _find_context(sequences, index)
        top_starts, top_ends = (
            begin + np.argsort(-logits[begin:end], kind="stable")[:NUM_LOGITS] for logits in (starts, ends)
        )
        firsts, lasts = (tokens.ravel() for tokens in np.meshgrid(top_starts, top_ends, indexing="ij"))
        is_valid = (lasts >= firsts) & (lasts - firsts < self.max_answer_length) & is_best[firsts]
        firsts, lasts = firsts[is_valid], lasts[is_valid]
        columns = (starts[firsts] + ends[lasts], sequences.word_starts[firsts], sequences.word_ends[lasts])
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def _make_answer(self, example: Question, spans: list[tuple[float, int, int]], null_score: float) -> dict:
        best = {}  # keyed by text, the best first
        for score, start, end in sorted(spans, reverse=True):
            text = example.context[start:end]
            best.setdefault(text, {"answer": text, "score": score, "start": start, "end": end})
            if len(best) == self.num_best:
                break
        found = list(best.values())
        probabilities = softmax([answer["score"] for answer in found]).tolist() if found else []
        for answer, probability in zip(found, probabilities, strict=True):
            answer["probability"] = probability
        return self._apply_threshold({"id": example.id, "best": found, "null_score": null_score})

    def _apply_threshold(self, answer: Mapping) -> dict:
        """Return an answer with the best span, or without one if the score of no answer is above the threshold."""
        best = answer["best"][0] if answer["best"] else None
        if best is None or (self.allows_null and _compute_difference(answer) > self.null_threshold):
            best = {"answer": "", "score": answer["null_score"], "start": None, "end": None, "probability": None}
        return {**answer, **best}


def _compute_difference(answer: Mapping) -> float:
    """Return the score of no answer minus the score of the best answer."""
    return answer["null_score"] - answer["best"][0]["score"]


def _get_accepted_texts(examples: Sequence[Question]) -> dict[int, list[str]]:
    """Return the accepted texts of each question, keyed by index, because ids are unique only within a file."""
    return {index: [answer.text for answer in example.answers] for index, example in enumerate(examples)}


def _find_context(sequences: EncodedSequences, index: int) -> tuple[int, int]:
    """Return the range of the context tokens of a sequence, without [SEP], among all tokens."""
    return sequences.row_splits[index] + sequences.second_starts[index], sequences.row_splits[index + 1] - 1


def _find_answer_tokens(sequences: EncodedSequences, examples: Sequence[Question]) -> list[tuple[int, int]]:
    """Return the first and the last token of the first answer of each example; (0, -1) for no answer."""
    ranges = [(0, -1)] * len(examples)
    best = has_most_context(sequences)  # selects each token of a context once
    token_examples = sequences.examples[sequences.sequence_indices]
    splits = np.searchsorted(token_examples, np.arange(len(examples) + 1))
    for index, example in enumerate(examples):
        if not example.answers:
            continue
        within = slice(splits[index], splits[index + 1])
        starts, ends = sequences.starts[within][best[within]], sequences.ends[within][best[within]]
        answer = example.answers[0]
        first = np.searchsorted(ends, answer.start, side="right")
        last = np.searchsorted(starts, answer.start + len(answer.text), side="left") - 1
        ranges[index] = (int(first), int(last))
    return ranges
