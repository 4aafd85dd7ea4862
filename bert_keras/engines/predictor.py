"""`Predictor`: answers texts with a fine-tuned checkpoint, or with an artifact of one.

Keras and TensorFlow are imported only for a checkpoint or a SavedModel.
"""

from __future__ import annotations

import copy
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bert_keras.checkpoints.checkpoint import Checkpoint, check_has_vocabulary
from bert_keras.checkpoints.task_loading import read_checkpoint_task, restore_task
from bert_keras.engines.artifact_files import Artifact, find_artifact
from bert_keras.engines.engine import Engine
from bert_keras.engines.sequence_runner import SequenceRunner
from bert_keras.errors import InputError
from bert_keras.heads.task import Task, convert_to_example
from bert_keras.pipelines.text.portable_tokenizer import PortableTokenizer

if TYPE_CHECKING:
    import keras

    from bert_keras.pipelines.text.tokenizer import BertTokenizer

EXAMPLES_PER_CHUNK = 4096  # answered together, so that batches have texts of similar length


class Predictor:
    """Answer texts with a fine-tuned model.

    Args:
        model: a Keras model with a task head; or the engine of an artifact, which needs `task`.
        tokenizer: its tokenizer.
        task: the task; None: inferred from the model's head, with texts as long as the model and the tokenizer allow.

    Attributes:
        model: the model, or the engine of an artifact.
        tokenizer: its tokenizer.
        task: the task.
        engine: what runs the model on batches of sequences.

    Raises:
        InputError: the model has no task head.

    Example:
        >>> model, tokenizer = bk.load("demo/classifier"), bk.load_tokenizer("demo/classifier")
        >>> predictor = bk.Predictor(model, tokenizer)  # or a model that you trained with `fit`
        >>> predictor(["The with statement wraps a block."])[0]["label"] in model.labels
        True
    """

    def __init__(
        self,
        model: keras.Model | Engine,
        tokenizer: BertTokenizer | PortableTokenizer,
        task: Task | None = None,
    ):
        task = restore_task(None, model, tokenizer) if task is None else task
        self.model = model
        self.tokenizer = tokenizer
        self.task = task
        self.engine = _get_engine(model)
        self._run = SequenceRunner(self.engine, is_token_level=task.is_token_level)

    @classmethod
    def from_checkpoint(cls, folder: str | os.PathLike | Checkpoint, **changes: object) -> Predictor:
        """Load a checkpoint folder.

        Args:
            folder: any folder that `bk.load` reads, with a task head and a vocabulary, or what `read_checkpoint`
                returned.
            **changes: settings of the task to override, such as `max_sequence_length`; None: as stored.

        Returns:
            A predictor.

        Raises:
            InputError: the folder cannot be read, its model has no task head, or the task has no such setting.

        Example:
            >>> predictor = bk.Predictor.from_checkpoint("demo/classifier", max_sequence_length=32)
            >>> list(predictor(["The with statement wraps a block."])[0])
            ['label', 'probability', 'probabilities']
        """
        from bert_keras.checkpoints.loading import load, load_tokenizer
        from bert_keras.checkpoints.reading import read_checkpoint

        checkpoint = read_checkpoint(folder)
        check_has_vocabulary(checkpoint)
        model, tokenizer = load(checkpoint), load_tokenizer(checkpoint)
        return cls(model, tokenizer, restore_task(checkpoint, model, tokenizer, **changes))

    @classmethod
    def from_artifact(
        cls,
        folder: str | os.PathLike | Artifact,
        engine: str | None = None,
        *,
        threads: int | None = None,
        instances: int = 1,
        **changes: object,
    ) -> Predictor:
        """Load an artifact that `bk.export_model` or another tool wrote.

        Answers are those of the checkpoint within the tolerance of its parity report. "tensorflow" runs a SavedModel
        and tokenizes as in training. "onnxruntime" and "openvino" run an ONNX file and do not import TensorFlow; they
        tokenize with Hugging Face's library, and `parity.json` counts the probe texts whose ids differ.

        Args:
            folder: an output folder of `export`, its `onnx/` or `saved_model/`, an ONNX file such as
                `onnx/model_quantized.onnx` in its folder, or any Hugging Face folder with an ONNX file. A folder stands
                for its float32 file.
            engine: "onnxruntime", "openvino" or "tensorflow"; None: onnxruntime if there is an ONNX file.
            threads: number of threads per instance; None: one per core, divided by the instances.
            instances: number of batches that run at the same time. On two cores two instances with one thread each
                answer more texts per second; one with two threads answers a single text sooner.
            **changes: settings of the task to override, as in `from_checkpoint`.

        Returns:
            A predictor.

        Raises:
            InputError: there is no artifact for the engine, it is damaged, or its folder describes no task.
            MissingExtraError: the engine is not installed.

        Example:
            >>> predictor = bk.Predictor.from_artifact("demo/artifacts")  # here a SavedModel
            >>> list(predictor(["The with statement wraps a block."], top=1)[0])
            ['label', 'probability']
        """
        artifact = folder if isinstance(folder, Artifact) else find_artifact(folder, engine)
        check_has_vocabulary(artifact.description)
        settings = artifact.description.tokenizer_settings
        task = read_checkpoint_task(artifact.description, **changes)
        opened = artifact.open(threads=threads, instances=instances)  # before TensorFlow runs, which fixes its threads
        if artifact.engine == "tensorflow":
            from bert_keras.pipelines.text.tokenizer import BertTokenizer

            tokenizer = BertTokenizer(**settings)
        else:
            tokenizer = PortableTokenizer(**settings)
        return cls(opened, tokenizer, task)

    def __call__(
        self,
        examples: Sequence,
        top: int | None = None,
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
    ) -> list[dict]:
        """Answer examples.

        Args:
            examples: texts; pairs of texts as tuples of two (such as question and context); lists of words, which a
                tagger does not split further; or examples of the task.
            top: list this many of the best classes or answers under `best`, instead of the probabilities of all
                classes, as `predict --top` does; 1: only the best, without a list. With several labels per text, the
                list has at least the predicted ones. There are at most `task.num_best` (default 5) answers to a
                question. Taggers, embedders and regression have no alternatives.
            prompt_name: for an embedder, the name of the prompt before each text; "": no prompt. Default: the model's
                default prompt, if it has one.
            prompt: for an embedder, a text to use as prompt.

        Returns:
            One dict per example, of plain Python values that `json.dumps` accepts.

        Raises:
            InputError: an example has another type, or the task needs a pair and got a single text (or the reverse);
                `top` is below 1, or the task has no alternatives; there is no such prompt.

        Example:
            >>> predictor = bk.Predictor.from_checkpoint("demo/classifier")
            >>> len(predictor(["The with statement wraps a block."], top=2)[0]["best"])
            2
        """
        _check_is_list(examples)
        if top is not None:
            top = self.task.check_top(top)
        if prompt_name is not None or prompt is not None:
            return self.with_prompt(prompt_name, prompt)(examples, top)
        answers = (answer for chunk in self.stream(map(self.make_example, examples)) for answer in chunk)
        return [_to_python(answer if top is None else self.task.to_json(answer, top)) for answer in answers]

    def with_prompt(self, name: str | None = None, text: str | None = None) -> Predictor:
        """Return a predictor of the same model with another prompt.

        Args:
            name: the name of a prompt of the model; "": no prompt.
            text: a text to use as prompt, instead of a name.

        Returns:
            A predictor that shares the model.

        Raises:
            InputError: there is no prompt of that name, both or neither of the arguments are given, or the task makes
                no sentence vectors.

        Example:
            >>> model = bk.BertEmbedder.from_checkpoint("demo/pretrained", prompts={"query": "query: "})
            >>> predictor = bk.Predictor(model, bk.load_tokenizer("demo/pretrained"))
            >>> len(predictor.with_prompt("query")(["a fine film"])[0]["embedding"])
            128
        """
        other = copy.copy(self)
        other.task = self.task.with_prompt(name, text)
        return other

    def stream(
        self, examples: Iterable, *, once: bool = False, progress: Callable[[int], None] | None = None
    ) -> Iterator[list[dict]]:
        """Yield the answers to examples of the task, in chunks of 4,096 and in their order.

        Args:
            examples: examples of the task.
            once: whether nothing else will be answered; a few examples then run eagerly, which takes half the time of
                tracing a graph.
            progress: called with the number of examples done, estimated from the sequences of the current chunk.

        Yields:
            Lists of answers, as `answer` returns them.

        Raises:
            InputError: the model outputs NaN or infinity.

        Example:
            >>> predictor = bk.Predictor.from_checkpoint("demo/classifier")
            >>> examples = map(predictor.make_example, ["The with statement.", "A socket."])
            >>> [len(answers) for answers in predictor.stream(examples, once=True)]
            [2]
        """
        examples, num_before = iter(examples), 0
        while chunk := list(itertools.islice(examples, EXAMPLES_PER_CHUNK)):
            is_only = num_before == 0 and len(chunk) < EXAMPLES_PER_CHUNK
            report = None if progress is None else _scale_progress(progress, num_before, len(chunk))
            yield self.answer(chunk, once=once and is_only, progress=report)
            num_before += len(chunk)

    def answer(
        self, examples: Sequence, *, once: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> list[dict]:
        """Answer examples of the task, all in one chunk.

        Args:
            examples: examples of the task.
            once: as in `stream`.
            progress: called with the number of sequences done, and with their total number.

        Returns:
            One answer per example; arrays stay arrays.

        Raises:
            InputError: the model outputs NaN or infinity.

        Example:
            >>> predictor = bk.Predictor.from_checkpoint("demo/classifier")
            >>> [answer] = predictor.answer([predictor.make_example("The with statement.")], once=True)
            >>> answer["probabilities"].shape
            (4,)
        """
        sequences = self.task.encode(self.tokenizer, examples)
        return self.task.decode(sequences, self._run(sequences, progress, once=once), examples)

    def make_example(self, given: object) -> object:
        """Return an example of the task: a text, a tuple of two texts or a list of words as one; an example as it is.

        Args:
            given: the text, texts, words or example.

        Returns:
            The example.

        Raises:
            InputError: the value is none of these, or not what the task needs.

        Example:
            >>> bk.Predictor.from_checkpoint("demo/classifier").make_example("The with statement.").text
            'The with statement.'
        """
        return convert_to_example(self.task, given)


def _scale_progress(progress: Callable[[int], None], num_before: int, number: int) -> Callable[[int, int], None]:
    """Return the `progress` of `Predictor.answer` for a chunk of `number` examples after `num_before` others."""
    return lambda done, total: progress(num_before + number * done // total)


def _get_engine(model: keras.Model | Engine) -> Engine:
    if isinstance(model, Engine):
        return model
    from bert_keras.engines.keras_engine import KerasEngine

    return KerasEngine(model)


def _check_is_list(examples: object) -> None:
    """Raise `InputError` for a single text, and for a data frame or a dict, which would yield their column names."""
    if isinstance(examples, str):
        raise InputError("one text was given; expected a list of texts: put it in brackets")
    is_frame = hasattr(examples, "columns")
    if is_frame or isinstance(examples, Mapping | bytes) or not isinstance(examples, Iterable):
        remedy = "pass its column of texts, such as frame['text']" if is_frame else "pass one, such as ['a text']"
        raise InputError(f"the examples are a {type(examples).__name__}; expected a list of texts: {remedy}")


def _to_python(value: object) -> object:
    """Convert NumPy arrays and numbers inside a value to lists and numbers of Python."""
    if isinstance(value, Mapping):
        return {name: _to_python(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_to_python(one) for one in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
