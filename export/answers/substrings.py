"""Parts of texts by their characters, cut within a graph."""

from typing import NamedTuple

import tensorflow as tf


class TextCharacters(NamedTuple):
    """B texts, with the places of their characters. Bytes that are no UTF-8 became U+FFFD, as in Python's "replace".

    Attributes:
        texts: `(B,)` strings.
        row_starts: `(B,)` int32, the first place of each text in `byte_starts`.
        byte_starts: int32, where each character begins in its text, in bytes; behind the last one, where it ends.
    """

    texts: tf.Tensor
    row_starts: tf.Tensor
    byte_starts: tf.Tensor

    @classmethod
    def of(cls, texts: tf.Tensor) -> "TextCharacters":
        """Looks at `(B,)` strings."""
        texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")
        _, starts = tf.strings.unicode_decode_with_offsets(tf.strings.join([texts, "\n"]), "UTF-8")
        return cls(texts, tf.cast(starts.row_starts(), tf.int32), tf.cast(starts.flat_values, tf.int32))

    def cut(self, examples: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
        """Returns the strings `text[start:end]`, like `starts` and `ends`, of the texts with the numbers `examples`."""
        rows = tf.gather(self.row_starts, examples)
        begin, end = (tf.gather(self.byte_starts, rows + places) for places in (starts, ends))
        return tf.strings.substr(tf.gather(self.texts, examples), begin, end - begin)

    def rest(self, examples: tf.Tensor, starts: tf.Tensor) -> tf.Tensor:
        """Returns the strings `text[start:]`."""
        begin = tf.gather(self.byte_starts, tf.gather(self.row_starts, examples) + starts)
        texts = tf.gather(self.texts, examples)
        return tf.strings.substr(texts, begin, tf.strings.length(texts) - begin)
