"""`TextFunction`: a function of raw texts by their names."""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf


class TextFunction(NamedTuple):
    """A function of texts.

    Attributes:
        inputs: the names of its inputs, each `(B,)` strings.
        answer: the function of the texts, in that order; its answers by name, each `(B, ...)`.
    """

    inputs: tuple[str, ...]
    answer: Callable[..., dict[str, tf.Tensor]]


def of_no_text_too(answer: Callable[..., dict[str, tf.Tensor]]) -> Callable[..., dict[str, tf.Tensor]]:
    """Returns a function of texts so that it takes B = 0, which no model does: an empty text stands in for none."""

    def answer_any(*texts):
        num_texts = tf.size(texts[0])
        missing = tf.maximum(0, 1 - num_texts)
        answers = answer(*(tf.concat([column, tf.fill([missing], "")], axis=0) for column in texts))
        return {name: values[:num_texts] for name, values in answers.items()}

    return answer_any


def padded(values: tf.Tensor, examples: tf.Tensor, num_examples: tf.Tensor, padding) -> tf.Tensor:
    """Returns values `(K,)` as a row for each example `(B, L)`, padded to the longest.

    `examples` `(K,)` int32, ascending, says which example each belongs to.
    """
    ragged = tf.RaggedTensor.from_value_rowids(values, tf.cast(examples, tf.int64), tf.cast(num_examples, tf.int64))
    return ragged.to_tensor(padding)


def counts_of(examples: tf.Tensor, num_examples: tf.Tensor) -> tf.Tensor:
    """Returns how many values each example has `(B,)` int32."""
    return tf.math.unsorted_segment_sum(tf.ones_like(examples), examples, num_examples)
