"""`Answering`: turns the texts of jobs into sequences, and the model's outputs into the results of jobs."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bert_keras.checks import quote
from bert_keras.engines.predictor import Predictor
from bert_keras.errors import InputError
from bert_keras.heads.task import Task
from bert_keras.pipelines.batches.encoding import EncodedSequences
from bert_keras.serving.worker.jobs import ANSWERS, SIGNATURE, Job

_UNLIMITED = 10**9  # tokens
_LEFT_OUT = ("[PAD]", "[CLS]", "[SEP]")  # of the text of token ids


class Token(NamedTuple):
    """A token of a text.

    Attributes:
        id: its id.
        text: its characters in the text; the name of a special token.
        is_special: whether it is [CLS] or [SEP].
        start, end: its range in the text, in characters; None for special tokens.
    """

    id: int
    text: str
    is_special: bool
    start: int | None
    end: int | None


def describe_tokens(tokenizer: object, texts: Sequence[str], *, add_special_tokens: bool = True) -> list[list[Token]]:
    """Return the tokens of each text, not truncated.

    Args:
        tokenizer: a `BertTokenizer` or a `PortableTokenizer`.
        texts: the texts.
        add_special_tokens: whether [CLS] and [SEP] are added.
    """
    arrays = tokenizer.tokenize_to_arrays(texts, with_offsets=True)
    ids, starts, ends = arrays.token_ids.tolist(), arrays.starts.tolist(), arrays.ends.tolist()
    vocabulary = tokenizer.vocabulary
    described = []
    for text, begin, end in zip(texts, arrays.row_splits[:-1], arrays.row_splits[1:], strict=True):
        tokens = [Token(ids[n], text[starts[n] : ends[n]], False, starts[n], ends[n]) for n in range(begin, end)]
        if add_special_tokens:
            first, last = (Token(n, vocabulary[n], True, None, None) for n in (tokenizer.cls_id, tokenizer.sep_id))
            tokens = [first, *tokens, last]
        described.append(tokens)
    return described


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedJob:
    """A job whose texts are tokenized.

    Attributes:
        task: the task with the options of the job.
        examples: one example per text or pair.
        sequences: their sequences.
    """

    task: Task
    examples: Sequence
    sequences: EncodedSequences


class TooLongError(InputError):
    """A text is longer than the model accepts, and the request does not allow to cut it."""


class Answering:
    """Encode and decode the jobs of a model.

    Args:
        predictor: the model.
    """

    def __init__(self, predictor: Predictor):
        self._predictor = predictor
        self._tokenizer = predictor.tokenizer

    def encode(self, jobs: Sequence[Job]) -> list[EncodedJob | InputError]:
        """Tokenize the texts of jobs of the kinds `ANSWERS` and `SIGNATURE`.

        Options: `prompt_name` or `prompt`, see `Predictor.with_prompt`; `truncate` (default True), whether longer
        texts are cut.

        Returns:
            For each job its sequences, or what is wrong with it.
        """
        results: list[EncodedJob | InputError | None] = [None] * len(jobs)
        groups: dict[object, list[tuple]] = {}  # jobs with the same options are tokenized together, which is faster
        for index, job in enumerate(jobs):
            try:
                task = self._select_task(job)
                examples = [self._predictor.make_example(self._read_text(given)) for given in job.inputs]
            except InputError as error:
                results[index] = error
            else:
                # pairs and single texts are not tokenized together
                is_pair = bool(examples) and getattr(examples[0], "second_text", None) is not None
                options = (job.options.get(name) for name in ("prompt_name", "prompt"))
                key = (job.kind, *options, job.options.get("truncate", True), is_pair)
                groups.setdefault(key, []).append((index, task, examples, job.options))
        for (kind, *_), group in groups.items():
            encoded = self._encode_together(kind, [rest for _, *rest in group])
            for (index, *_), result in zip(group, encoded, strict=True):
                results[index] = result
        return results

    def decode(self, job: Job, encoded: EncodedJob, outputs: Mapping[str, np.ndarray]) -> object:
        """Return the result of a job from the outputs of its sequences.

        Options of `ANSWERS`: `top`, see `Predictor`.

        Returns:
            `ANSWERS`: one answer per example. `SIGNATURE`: arrays `(B, ...)`, keyed by name.
        """
        if job.kind == SIGNATURE:
            return encoded.task.compute_signature(encoded.sequences, outputs, encoded.examples)
        answers = encoded.task.decode(encoded.sequences, outputs, encoded.examples)
        return _select_best(encoded.task, answers, job.options.get("top"))

    def is_plain(self, job: Job, encoded: EncodedJob) -> bool:
        """Whether a job can be decoded by `decode_together`: answers of one sequence, without a prompt of its own."""
        return job.kind == ANSWERS and len(encoded.sequences) == 1 and encoded.task is self._predictor.task

    def decode_together(
        self, jobs: Sequence[tuple[Job, EncodedJob]], sequences: EncodedSequences, outputs: Mapping[str, np.ndarray]
    ) -> list[list]:
        """Return the results of plain jobs, in a fraction of the time that one after the other takes.

        Args:
            jobs: jobs for which `is_plain` is true.
            sequences: the sequence of each.
            outputs: the outputs of all.
        """
        task = self._predictor.task
        answers = task.decode(sequences, outputs, [encoded.examples[0] for _, encoded in jobs])
        return [
            _select_best(task, [answer], job.options.get("top")) for (job, _), answer in zip(jobs, answers, strict=True)
        ]

    def _select_task(self, job: Job) -> Task:
        name, text, top = map(job.options.get, ("prompt_name", "prompt", "top"))
        has_prompt = name is not None or text is not None
        task = self._predictor.with_prompt(name, text).task if has_prompt else self._predictor.task
        if job.kind == ANSWERS and top is not None:
            task.check_top(top)
        return task

    def _read_text(self, given: object) -> object:
        """Return the text of a list of token ids, WordPieces joined to words; anything else as it is."""
        if not isinstance(given, list) or not given or not all(isinstance(number, int) for number in given):
            return given
        size, vocabulary = self._tokenizer.vocabulary_size, self._tokenizer.vocabulary
        if wrong := [number for number in given if not 0 <= number < size]:
            raise InputError(f"the token id {quote(wrong[0])} is not in the vocabulary; expected 0 to {size - 1}")
        return " ".join(token for number in given if (token := vocabulary[number]) not in _LEFT_OUT).replace(" ##", "")

    def _encode_together(
        self, kind: str, jobs: Sequence[tuple[Task, list, Mapping[str, object]]]
    ) -> list[EncodedJob | InputError]:
        """Tokenize the examples of jobs with the same options in one call."""
        task, _, options = jobs[0]
        examples = [example for _, own, _ in jobs for example in own]
        is_cut = task.window_overlap is None  # otherwise long texts are read in windows
        limit = task.max_sequence_length if is_cut and not options.get("truncate", True) else None
        encode_task = task if limit is None else dataclasses.replace(task, max_sequence_length=_UNLIMITED)
        encode = encode_task.encode_truncated if kind == SIGNATURE else encode_task.encode
        try:
            sequences = encode(self._tokenizer, examples)
        except InputError as error:
            if len(jobs) == 1:
                return [error]
            return [result for job in jobs for result in self._encode_together(kind, [job])]  # only the wrong one fails
        results, begin, first = [], 0, 0
        for own_task, own, _ in jobs:
            count = sum(map(task.count_inputs, own))
            end = int(np.searchsorted(sequences.examples, first + count))
            part, begin, first = sequences.slice(begin, end), end, first + count
            result: EncodedJob | InputError = EncodedJob(own_task, own, part)
            if limit is not None and (longest := int(part.lengths.max(initial=0))) > limit:
                result = TooLongError(
                    f"one text has {longest:,} tokens with special tokens; expected at most {limit:,}: shorten it, or "
                    "allow that it is cut (truncate)"
                )
            results.append(result)
        return results


def _select_best(task: Task, answers: list, top: int | None) -> list:
    """Return answers as JSON values with the `top` best ones of each; None: the answers themselves."""
    return answers if top is None else [task.to_json(answer, top) for answer in answers]
