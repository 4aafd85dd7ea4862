"""A model and its tokenizer as one SavedModel that takes raw strings and answers in the terms of its task."""

import contextlib
import os
from collections.abc import Iterator, Mapping

import keras
import tensorflow as tf

from bert_keras.export.ids_graph import ids_function
from bert_keras.export.saved_model.answers.classes import classifying
from bert_keras.export.saved_model.answers.fillings import filling_masks
from bert_keras.export.saved_model.answers.served import TextFunction, of_no_text_too
from bert_keras.export.saved_model.answers.spans import answering
from bert_keras.export.saved_model.answers.tags import tagging
from bert_keras.export.saved_model.answers.vectors import embedding, encoding
from bert_keras.modeling import BertClassifier, BertEmbedder, BertEncoder, BertQuestionAnswerer, BertTokenClassifier
from bert_keras.modeling.masked_lm import MaskedLMModel
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.tasks.base import Task

DEFAULT, IDS = "serving_default", "ids"  # names of signatures
_ROWS_AT_ONCE = 16  # windows of long texts: base's attention scores of 16 x 384 take 113 MB a layer


def write_saved_model(model, tokenizer: BertTokenizer, task: Task | None, folder: str | os.PathLike) -> None:
    """Saves a model for TensorFlow Serving, or plain TensorFlow with tensorflow-text.

    `serving_default` takes raw strings and answers in the terms of the task (see `answers/` in this folder);
    `ids` takes `input_ids`, `attention_mask` and `token_type_ids`, int32 (B, S), and gives logits or vectors. A model
    that answers no text (ELECTRA's discriminator) has `ids` as its default. Each batch is as long as its longest
    text, and what its other texts lack of that is not computed, but for the scores of attention.

    Args:
        model: an encoder, with a head or without.
        tokenizer: its tokenizer.
        task: what it was fine-tuned for; None where it has none.
        folder: where to.
    """
    served = ServedModel(model, tokenizer, task)
    tf.saved_model.save(served, str(folder), signatures=served.signatures())


class ServedModel(tf.Module):
    """What the SavedModel holds: the model's variables, and the functions over them."""

    def __init__(self, model: keras.Model, tokenizer: BertTokenizer, task: Task | None):
        super().__init__(name="bert_keras")
        self._weights = [variable.value for variable in model.variables]  # a root must own what its functions read
        self._model = _Hidden(model)
        self._of_text = _Hidden(text_function(model, self._call, tokenizer, task))

    def signatures(self) -> dict:
        """Returns the functions by the names of their signatures."""
        ids = ids_function(self._model.value)
        return {IDS: ids, DEFAULT: self._text_signature() if self._of_text.value else ids}

    def _text_signature(self):
        function = self._of_text.value

        def from_texts(**texts):
            with _skipping_padding(self._model.value):
                return of_no_text_too(function.answer)(*(texts[name] for name in function.inputs))

        specs = {name: tf.TensorSpec([None], tf.string, name=name) for name in function.inputs}
        return tf.function(from_texts, autograph=False).get_concrete_function(**specs)

    def _call(self, features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return self._model.value(features, training=False)


def text_function(model, run, tokenizer: BertTokenizer, task: Task | None) -> TextFunction | None:
    """Returns what a model answers to raw text, with `run` to run it on features; None: it answers none.

    Args:
        model: decides what it is.
        run: from features to the model's outputs.
        tokenizer: its tokenizer.
        task: its task, where it has one.
    """
    length = text_length(model, tokenizer)
    if isinstance(model, BertClassifier):
        return classifying(run if task.window_overlap is None else in_chunks(run), tokenizer, task)
    if isinstance(model, BertTokenClassifier):
        return tagging(in_chunks(run), tokenizer, task)
    if isinstance(model, BertQuestionAnswerer):
        return answering(in_chunks(run), tokenizer, task)
    if isinstance(model, BertEmbedder):
        return embedding(run, tokenizer, task)
    if isinstance(model, MaskedLMModel):
        return filling_masks(run, tokenizer, length)
    return encoding(run, tokenizer, length) if isinstance(model, BertEncoder) else None


def text_length(model: keras.Model, tokenizer: BertTokenizer) -> int:
    """Returns where texts are cut: at the model's last position, or sooner if the tokenizer says so."""
    limit = getattr(model, "encoder", model).config.max_sequence_length
    return min(limit, tokenizer.max_sequence_length or limit)


def in_chunks(run):
    """Returns `run` so that it takes any number of rows in bounded memory: so many at once, one after the other."""

    def run_in_chunks(features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        specs = {name: tf.TensorSpec([None, None], values.dtype) for name, values in features.items()}
        traced = tf.function(run, input_signature=[specs], autograph=False).get_concrete_function()  # once
        is_short = tf.shape(features["token_ids"])[0] <= _ROWS_AT_ONCE
        return tf.cond(is_short, lambda: traced(features), lambda: _chunk_by_chunk(traced, features))

    return run_in_chunks


def _chunk_by_chunk(traced, features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    num_rows = tf.shape(features["token_ids"])[0]
    num_chunks = (num_rows + _ROWS_AT_ONCE - 1) // _ROWS_AT_ONCE
    arrays = {
        name: tf.TensorArray(spec.dtype, num_chunks, infer_shape=False, element_shape=spec.shape)
        for name, spec in traced.structured_outputs.items()
    }

    def step(number, arrays):
        rows = slice(number * _ROWS_AT_ONCE, (number + 1) * _ROWS_AT_ONCE)
        outputs = traced({name: values[rows] for name, values in features.items()})
        return number + 1, {name: array.write(number, outputs[name]) for name, array in arrays.items()}

    _, arrays = tf.while_loop(lambda number, _: number < num_chunks, step, (0, arrays), parallel_iterations=1)
    return {name: array.concat() for name, array in arrays.items()}


@contextlib.contextmanager
def _skipping_padding(model: keras.Model) -> Iterator[None]:
    encoder = getattr(model, "encoder", model)
    before, encoder.unpad_in_inference = encoder.unpad_in_inference, True
    try:
        yield
    finally:
        encoder.unpad_in_inference = before


class _Hidden:
    """Keeps a value from being tracked: what is saved are variables and functions, not Keras's own objects."""

    def __init__(self, value):
        self.value = value
