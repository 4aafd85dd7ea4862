"""`TextFunction`, a function of raw texts, and helpers that group values by text and cut substrings."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import tensorflow as tf

from bert_keras.heads.task import Task
from bert_keras.pipelines.text.tokenizer import BertTokenizer

RunModel = Callable[[dict[str, tf.Tensor]], dict[str, tf.Tensor]]  # from features to the model's outputs


class TextFunction(NamedTuple):
    """A function of raw texts.

    Attributes:
        inputs: the names of its inputs, each `(B,)` strings.
        answer: the function of the texts, in that order. It returns outputs `(B, ...)`, keyed by name.
    """

    inputs: tuple[str, ...]
    answer: Callable[..., dict[str, tf.Tensor]]


# Builds the function of a head. Its arguments are the function that runs the model, the tokenizer, the task, or None if
# the model has no task, and the number of tokens at which texts are cut without a task. A head may ignore some of them.
BuildAnswers = Callable[[RunModel, BertTokenizer, Task | None, int], TextFunction]


def accept_empty_batch(answer: Callable[..., dict[str, tf.Tensor]]) -> Callable[..., dict[str, tf.Tensor]]:
    """Wrap a function of texts so that B may be 0, which models do not accept: it then runs on one empty text."""

    def answer_any(*texts: tf.Tensor) -> dict[str, tf.Tensor]:
        num_texts = tf.size(texts[0])
        num_missing = tf.maximum(0, 1 - num_texts)
        answers = answer(*(tf.concat([column, tf.fill([num_missing], "")], axis=0) for column in texts))
        return {name: values[:num_texts] for name, values in answers.items()}

    return answer_any


def group_by_example(values: tf.Tensor, examples: tf.Tensor, num_examples: tf.Tensor, padding: object) -> tf.Tensor:
    """Group values by example, padded to the largest group.

    Args:
        values: `(K, ...)`.
        examples: `(K,)` int32, ascending: the example that each value belongs to.
        num_examples: B.
        padding: the value for unused places.

    Returns:
        `(B, L, ...)`, where L is the size of the largest group.
    """
    ragged = tf.RaggedTensor.from_value_rowids(values, tf.cast(examples, tf.int64), tf.cast(num_examples, tf.int64))
    return ragged.to_tensor(padding)


def group_outputs(
    outputs: Mapping[str, tuple[tf.Tensor, object]], examples: tf.Tensor, num_examples: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Group several outputs, given as (values, padding); see `group_by_example`."""
    return {name: group_by_example(values, examples, num_examples, fill) for name, (values, fill) in outputs.items()}


def count_per_example(examples: tf.Tensor, num_examples: tf.Tensor) -> tf.Tensor:
    """Return the number of values of each example, `(B,)` int32."""
    return tf.math.unsorted_segment_sum(tf.ones_like(examples), examples, num_examples)


class TextCharacters(NamedTuple):
    """The characters of B texts. Invalid UTF-8 becomes U+FFFD, as with Python's `errors="replace"`.

    Attributes:
        texts: `(B,)` strings.
        text_starts: `(B,)` int32, the index of each text's first character in `byte_starts`.
        byte_starts: int32, the byte at which each character begins in its text, followed by the byte at which the text
            ends.
        code_points: int32, the code points; each text is followed by a line break that does not belong to it.
    """

    texts: tf.Tensor
    text_starts: tf.Tensor
    byte_starts: tf.Tensor
    code_points: tf.Tensor

    @classmethod
    def decode(cls, texts: tf.Tensor) -> "TextCharacters":
        """Decode `(B,)` strings."""
        texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")
        code_points, starts = tf.strings.unicode_decode_with_offsets(tf.strings.join([texts, "\n"]), "UTF-8")
        text_starts, byte_starts = (tf.cast(x, tf.int32) for x in (starts.row_starts(), starts.flat_values))
        return cls(texts, text_starts, byte_starts, code_points.flat_values)

    def cut(self, examples: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
        """Return `text[start:end]` for each start and end, where `examples` is the index of the text.

        The strings are built from code points, because `tf.strings.substr` needs a copy of the whole text for each
        substring: 2.8 GB for the 28,572 words of a text of 100 kB.
        """
        offsets = tf.gather(self.text_starts, examples)
        indices = tf.ragged.range(offsets + starts, offsets + ends)
        return tf.strings.unicode_encode(tf.gather(self.code_points, indices), "UTF-8")

    def cut_to_end(self, examples: tf.Tensor, starts: tf.Tensor) -> tf.Tensor:
        """Return `text[start:]` for each start."""
        begin = tf.gather(self.byte_starts, tf.gather(self.text_starts, examples) + starts)
        texts = tf.gather(self.texts, examples)
        return tf.strings.substr(texts, begin, tf.strings.length(texts) - begin)
