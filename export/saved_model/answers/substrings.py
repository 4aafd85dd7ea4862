"""Parts of texts by their characters, cut within a graph."""

from typing import NamedTuple

import tensorflow as tf


class TextCharacters(NamedTuple):
    """B texts, with the places of their characters. Bytes that are no UTF-8 became U+FFFD, as in Python's "replace".

    Attributes:
        texts: `(B,)` strings.
        row_starts: `(B,)` int32, the first place of each text in `byte_starts`.
        byte_starts: int32, where each character begins in its text, in bytes; behind the last one, where it ends.
        code_points: int32, like `byte_starts`; behind the last character of a text stands one of no text.
    """

    texts: tf.Tensor
    row_starts: tf.Tensor
    byte_starts: tf.Tensor
    code_points: tf.Tensor

    @classmethod
    def of(cls, texts: tf.Tensor) -> "TextCharacters":
        """Looks at `(B,)` strings."""
        texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")
        code_points, starts = tf.strings.unicode_decode_with_offsets(tf.strings.join([texts, "\n"]), "UTF-8")
        places = tf.cast(starts.row_starts(), tf.int32), tf.cast(starts.flat_values, tf.int32)
        return cls(texts, *places, code_points.flat_values)

    def cut(self, examples: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
        """Returns the strings `text[start:end]`, like `starts` and `ends`, of the texts with the numbers `examples`.

        They are put together from characters. `tf.strings.substr` wants a copy of the whole text for each of its
        parts: for the 28,572 words of a text of 100 kB that was 2.8 GB.
        """
        rows = tf.gather(self.row_starts, examples)
        places = tf.ragged.range(rows + starts, rows + ends)
        return tf.strings.unicode_encode(tf.gather(self.code_points, places), "UTF-8")

    def rest(self, examples: tf.Tensor, starts: tf.Tensor) -> tf.Tensor:
        """Returns the strings `text[start:]`."""
        begin = tf.gather(self.byte_starts, tf.gather(self.row_starts, examples) + starts)
        texts = tf.gather(self.texts, examples)
        return tf.strings.substr(texts, begin, tf.strings.length(texts) - begin)
