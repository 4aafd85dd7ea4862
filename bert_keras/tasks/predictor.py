"""`Predictor`: a fine-tuned checkpoint that answers, in the terms of its task."""

import copy
import dataclasses
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

import keras
import numpy as np

from bert_keras.checkpoints.checkpoint import Checkpoint, check_has_vocabulary
from bert_keras.checkpoints.loading import load, load_tokenizer
from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.tasks.base import Task
from bert_keras.tasks.inference import SequenceRunner
from bert_keras.tasks.sentence_embedding import SentenceEmbedding
from bert_keras.tasks.task_loading import restore_task

EXAMPLES_PER_CHUNK = 1024  # answered at once, so that texts of like length meet


class Predictor:
    """Answers texts with a fine-tuned model.

    Args:
        model: a model with a head.
        tokenizer: its tokenizer.
        task: what it was fine-tuned for; default: what its head says (its kind, its labels), with texts as long as
            the model and the tokenizer allow.

    Raises:
        InputError: the model has no head that answers.

    Example:
        >>> # predictor = Predictor.from_checkpoint("classifier"), or of a model that was trained with `fit`:
        >>> # predictor = Predictor(model, tokenizer)
        >>> # predictor(["a fine film"])[0]["label"]
    """

    def __init__(self, model: keras.Model, tokenizer: BertTokenizer, task: Task | None = None):
        task = restore_task(None, model, tokenizer) if task is None else task
        self.model = model
        self.tokenizer = tokenizer
        self.task = task
        self._run = SequenceRunner(model, is_token_level=task.is_token_level)

    @classmethod
    def from_checkpoint(cls, folder: str | os.PathLike | Checkpoint, **changes) -> "Predictor":
        """Loads a checkpoint folder, of ours or of anybody's.

        Args:
            folder: any folder that `load` reads, with a head and a vocabulary, or what `read_checkpoint` returned.
            **changes: settings of the task that are to be others than the stored ones (`max_sequence_length`); None:
                as it is stored.

        Raises:
            InputError: the folder cannot be read, its model has no task, or the task has no such setting.
        """
        checkpoint = read_checkpoint(folder)
        check_has_vocabulary(checkpoint)
        model, tokenizer = load(checkpoint), load_tokenizer(checkpoint)
        return cls(model, tokenizer, restore_task(checkpoint, model, tokenizer, **changes))

    def __call__(
        self,
        examples: Sequence,
        top: int | None = None,
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
    ) -> list[dict]:
        """Return an answer to each example, of plain Python values, as `json.dumps` takes them.

        Args:
            examples: texts; pairs of texts, as tuples of two (question and context); lists of words, which a tagger
                tags as they are; or examples of the task.
            top: how many of the best classes or answers to list under `best`, instead of the probabilities of all
                classes, as `predict --top` does. 1: the best alone, without a list. Where a text has several labels,
                the list has at least those that the answer names. Of answers there are at most `task.num_best`, 5
                unless the folder says otherwise. Taggers, embedders and regression have no alternatives.
            prompt_name: of sentence vectors: which of the model's prompts stands before each text; "": none. Unless
                given, the model's default prompt, if it has one.
            prompt: of sentence vectors: the text that stands there, instead of one of the model's prompts.

        Raises:
            InputError: an example is nothing of that, or not what the task reads, `top` is below 1 or has nothing to
                list, or there is no such prompt.
        """
        _check_listed(examples)
        if top is not None:
            top = self.task.check_top(top)
        if prompt_name is not None or prompt is not None:
            return self.with_prompt(prompt_name, prompt)(examples, top)
        answers = (answer for chunk in self.stream(map(self._example, examples)) for answer in chunk)
        return [_plain(answer if top is None else self.task.to_json(answer, top)) for answer in answers]

    def with_prompt(self, name: str | None = None, text: str | None = None) -> "Predictor":
        """Return a predictor of the same model with another prompt; see `__call__`.

        Raises:
            InputError: there is no prompt of that name, both or none are given, or the task makes no sentence vectors.
        """
        if not isinstance(self.task, SentenceEmbedding):
            raise InputError(
                f"a prompt was given, and the task {self.task.name} takes none; expected the task embed: leave it out"
            )
        if (name is None) == (text is None):
            raise InputError("a prompt is either a name or a text; expected one of the two: leave the other out")
        other = copy.copy(self)
        other.task = self.task.with_prompt(name) if text is None else dataclasses.replace(self.task, prompt=text)
        return other

    def stream(self, examples: Iterable, *, once: bool = False) -> Iterator[list[dict]]:
        """Yields the answers to examples of the task, so many at a time, in their order.

        `once`: nothing else will be asked. A few examples are then answered without tracing a graph, in half the time.
        """
        examples, is_first = iter(examples), True
        while chunk := list(itertools.islice(examples, EXAMPLES_PER_CHUNK)):
            is_only = is_first and len(chunk) < EXAMPLES_PER_CHUNK
            yield self.answer(chunk, once=once and is_only)
            is_first = False

    def answer(self, examples: Sequence, *, once: bool = False) -> list[dict]:
        """Returns the answers to examples of the task, all at once; `once` as in `stream`."""
        rows = self.task.encode(self.tokenizer, examples)
        return self.task.decode(rows, self._run(rows, once=once), examples)

    def _example(self, given):
        if isinstance(given, self.task.example_class):
            return given
        texts = (given,) if isinstance(given, str) else given
        is_of_texts = isinstance(texts, tuple | list) and all(isinstance(text, str) for text in texts)
        if is_of_texts and isinstance(texts, list):
            return self.task.make_example_from_words(texts)
        if not is_of_texts or len(texts) not in (1, 2):
            kind = self.task.example_class.__name__
            raise InputError(
                f"an example is {quote(given)}; expected a text, a tuple of two texts, a list of words, or a {kind}"
            )
        return self.task.make_example(*texts)


def _check_listed(examples: object) -> None:
    """Raise `InputError` unless examples can be taken one by one: a data frame and a dict would give their names."""
    if isinstance(examples, str):
        raise InputError("one text was given; expected a list of texts: put it in brackets")
    is_frame = hasattr(examples, "columns")
    if is_frame or isinstance(examples, Mapping | bytes) or not isinstance(examples, Iterable):
        remedy = "pass its column of texts, such as frame['text']" if is_frame else "pass one, such as ['a text']"
        raise InputError(f"the examples are a {type(examples).__name__}; expected a list of texts: {remedy}")


def _plain(value):
    """Return a value with arrays and their numbers as lists and numbers of Python."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
