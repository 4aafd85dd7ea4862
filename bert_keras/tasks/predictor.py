"""`Predictor`: a fine-tuned checkpoint that answers, in the terms of its task."""

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence

import keras

from bert_keras.checkpoints.checkpoint import Checkpoint, check_has_vocabulary
from bert_keras.checkpoints.loading import load, load_tokenizer
from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.errors import InputError
from bert_keras.pipelines.tokenizer import BertTokenizer
from bert_keras.tasks.base import Task
from bert_keras.tasks.inference import RowRunner
from bert_keras.tasks.stored import task_of

EXAMPLES_A_CHUNK = 1024  # answered at once, so that texts of like length meet


class Predictor:
    """Answers texts with a fine-tuned model.

    Args:
        model: a model with a head.
        tokenizer: its tokenizer.
        task: what it was fine-tuned for.

    Example:
        >>> # predictor = Predictor.from_checkpoint("classifier")
        >>> # predictor(["a fine film"])[0]["label"]
    """

    def __init__(self, model: keras.Model, tokenizer: BertTokenizer, task: Task):
        self.model = model
        self.tokenizer = tokenizer
        self.task = task
        self._run = RowRunner(model, of_pieces=task.of_pieces)

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
        return cls(model, tokenizer, task_of(checkpoint, model, tokenizer, **changes))

    def __call__(self, examples: Sequence) -> list[dict]:
        """Returns an answer to each example.

        Args:
            examples: texts; pairs of texts, as tuples of two (question and context); or examples of the task.

        Raises:
            InputError: an example is nothing of that, or not what the task reads.
        """
        if isinstance(examples, str):
            raise InputError("one text was given; expected a list of texts: put it in brackets")
        return [answer for chunk in self.stream(map(self._example, examples)) for answer in chunk]

    def stream(self, examples: Iterable, *, once: bool = False) -> Iterator[list[dict]]:
        """Yields the answers to examples of the task, so many at a time, in their order.

        `once`: nothing else will be asked. A few examples are then answered without tracing a graph, in half the time.
        """
        examples, is_first = iter(examples), True
        while chunk := list(itertools.islice(examples, EXAMPLES_A_CHUNK)):
            is_only = is_first and len(chunk) < EXAMPLES_A_CHUNK
            yield self.answers(chunk, once=once and is_only)
            is_first = False

    def answers(self, examples: Sequence, *, once: bool = False) -> list[dict]:
        """Returns the answers to examples of the task, all at once; `once` as in `stream`."""
        rows = self.task.encode(self.tokenizer, examples)
        return self.task.answers(rows, self._run(rows, once=once), examples)

    def _example(self, given):
        if isinstance(given, self.task.example_class):
            return given
        texts = (given,) if isinstance(given, str) else given
        if not isinstance(texts, tuple) or len(texts) not in (1, 2) or not all(isinstance(text, str) for text in texts):
            kind = self.task.example_class.__name__
            raise InputError(f"an example is {given!r}; expected a text, a tuple of two texts, or a {kind}")
        return self.task.example(*texts)
