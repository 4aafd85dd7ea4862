"""Substrings of texts by character positions, in the graph."""

from typing import NamedTuple

import tensorflow as tf


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
