"""Convert a model and its tokenizer to a SavedModel that accepts raw strings and returns the answers of its task."""

import contextlib
import functools
import os
from collections.abc import Iterator, Mapping

import keras
import tensorflow as tf

from bert_keras.checkpoints.building import get_encoder
from bert_keras.export.ids_graph import build_ids_function, call_model
from bert_keras.export.saved_model.short_texts import (
    count_real_tokens,
    count_tokens,
    rewrite_saved_model,
    separate_few_rows,
)
from bert_keras.heads.known_heads import get_head
from bert_keras.heads.task import Task
from bert_keras.heads.text_function import RunModel, TextFunction, accept_empty_batch
from bert_keras.pipelines.text.tokenizer import BertTokenizer

SERVING_DEFAULT, IDS = "serving_default", "ids"  # names of signatures
_CHUNK_SIZE = 16  # windows of long texts; base's attention scores of 16 x 384 take 113 MB per layer


def write_saved_model(
    model: keras.Model, tokenizer: BertTokenizer, task: Task | None, folder: str | os.PathLike
) -> None:
    """Write a SavedModel for TensorFlow Serving, or for TensorFlow with tensorflow-text.

    `serving_default` accepts raw strings and returns the answers of the task (see the folder `answers/`); `ids` accepts
    `input_ids`, `attention_mask` and `token_type_ids`, int32 (B, S), and returns logits or vectors. A model without
    answers to texts (ELECTRA's discriminator) has `ids` as its default. Each batch is padded to its longest text, and
    nothing but attention scores is computed for the padding.

    Args:
        model: an encoder, with or without a head.
        tokenizer: its tokenizer.
        task: the task that it was fine-tuned for, if any.
        folder: the folder to write to.
    """
    owner = tf.Module()  # the root must own all variables in use, but no Keras objects
    owner.weights = [variable.value for variable in model.variables]
    tf.saved_model.save(owner, str(folder), signatures=build_signatures(model, tokenizer, task))
    rewrite_saved_model(folder)


def build_signatures(
    model: keras.Model, tokenizer: BertTokenizer, task: Task | None
) -> dict[str, tf.types.experimental.ConcreteFunction]:
    """Trace the functions of a SavedModel, keyed by the names of their signatures; see `write_saved_model`."""
    call = functools.partial(call_model, model)
    ids = build_ids_function(model, run=separate_few_rows(call, count_tokens))
    function = build_text_function(model, separate_few_rows(call, count_real_tokens), tokenizer, task)
    if function is None:
        return {IDS: ids, SERVING_DEFAULT: ids}

    def from_texts(**texts: tf.Tensor) -> dict[str, tf.Tensor]:
        with _skip_padding(model):
            return accept_empty_batch(function.answer)(*(texts[name] for name in function.inputs))

    specs = {name: tf.TensorSpec([None], tf.string, name=name) for name in function.inputs}
    return {IDS: ids, SERVING_DEFAULT: tf.function(from_texts, autograph=False).get_concrete_function(**specs)}


def build_text_function(
    model: keras.Model, run: RunModel | None, tokenizer: BertTokenizer, task: Task | None
) -> TextFunction | None:
    """Build the function from raw texts to the answers of a model; None if the model has no answers to texts.

    Args:
        model: determines the kind of answers.
        run: runs the model on features; may be None if the function is not called.
        tokenizer: the model's tokenizer.
        task: the model's task, if any.
    """
    head = get_head(type(model).__name__)
    if head.graph is None:
        return None
    has_windows = task is not None and (task.window_overlap is not None or task.is_token_level)
    run = run_in_chunks(run) if has_windows else run
    return head.load("graph")(run, tokenizer, task, get_text_length(model, tokenizer))


def get_text_length(model: keras.Model, tokenizer: BertTokenizer) -> int:
    """Return the number of tokens to which texts are cut: the model's maximum, or the tokenizer's if it is lower."""
    limit = get_encoder(model).config.max_sequence_length
    return min(limit, tokenizer.max_sequence_length or limit)


def run_in_chunks(run: RunModel) -> RunModel:
    """Wrap a function of features so that any number of sequences runs in bounded memory, 16 at a time."""

    def run_all(features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        specs = {name: tf.TensorSpec([None, None], values.dtype) for name, values in features.items()}
        traced = tf.function(run, input_signature=[specs], autograph=False).get_concrete_function()  # once
        num_chunks = (tf.shape(features["token_ids"])[0] + _CHUNK_SIZE - 1) // _CHUNK_SIZE

        def run_chunk(number, arrays):
            chunk = slice(number * _CHUNK_SIZE, (number + 1) * _CHUNK_SIZE)
            outputs = traced({name: values[chunk] for name, values in features.items()})
            return number + 1, {name: array.write(number, outputs[name]) for name, array in arrays.items()}

        def run_chunk_by_chunk() -> dict[str, tf.Tensor]:
            arrays = {
                name: tf.TensorArray(spec.dtype, num_chunks, infer_shape=False, element_shape=spec.shape)
                for name, spec in traced.structured_outputs.items()
            }
            _, arrays = tf.while_loop(
                lambda number, _: number < num_chunks, run_chunk, (0, arrays), parallel_iterations=1
            )
            return {name: array.concat() for name, array in arrays.items()}

        return tf.cond(num_chunks <= 1, lambda: traced(features), run_chunk_by_chunk)

    return run_all


@contextlib.contextmanager
def _skip_padding(model: keras.Model) -> Iterator[None]:
    """Let the encoder skip padding in inference while a function is traced."""
    encoder = get_encoder(model)
    before, encoder.unpad_in_inference = encoder.unpad_in_inference, True
    try:
        yield
    finally:
        encoder.unpad_in_inference = before
