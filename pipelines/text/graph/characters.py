"""BERT's text rules for the characters of a batch of texts, in the graph.

A character is a code of a `CharacterTable`. The texts are concatenated, with a line end after each, so that no rule
applies across two texts.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import tensorflow as tf

from bert_keras.pipelines.text.graph.character_table import (
    CASED,
    COMPLEX,
    DROPPED,
    IGNORABLE,
    IN_WORD,
    LOW_BITS,
    MAX_RANK,
    NOT_STARTER,
    RANK_SHIFT,
    SEVERAL,
    SIGMA,
    CharacterTable,
)
from bert_keras.pipelines.text.graph.whole_tokens import WholeTokens

_BLOCK_BITS = 8  # 256 code points per block


class Characters(NamedTuple):
    """The C characters of R texts.

    Attributes:
        codes: `(C,)` int32.
        splits: `(R + 1,)` int64, the start of each text, and the end of the last one.
        origins: two tensors `(C,)` int32, the first and the last original character that became each character; or an
            empty tuple, if they are not needed.
    """

    codes: tf.Tensor
    splits: tf.Tensor
    origins: tuple[tf.Tensor, ...]

    def gather(self, indices: tf.Tensor) -> "Characters":
        """Return the characters at `indices`, with unchanged splits."""
        origins = tuple(tf.gather(origin, indices) for origin in self.origins)
        return Characters(tf.gather(self.codes, indices), self.splits, origins)

    def select_texts(self, texts: tf.Tensor) -> "Characters":
        """Return the characters of the texts with these int64 indices."""
        starts = tf.gather(self.splits, texts)
        indices = tf.ragged.range(starts, tf.gather(self.splits, texts + 1))
        return self.gather(indices.flat_values)._replace(splits=indices.row_splits)


class CharacterRules:
    """The rules of a `CharacterTable` as steps of the graph.

    Args:
        table: the character table.
        special_tokens: the tokens with stand-ins in `table`.
        max_word_length: longer words become [UNK].
        added_codes: the code of each added token, keyed by the stand-ins of its normalized text.
    """

    def __init__(
        self,
        table: CharacterTable,
        special_tokens: tuple[str, ...],
        max_word_length: int,
        added_codes: Mapping[tuple[int, ...], int],
    ):
        self._max_word_length = max_word_length
        self._unknown, self._final_sigma = table.unknown, table.final_sigma
        self._special_codes = dict(zip(special_tokens, table.special, strict=False))
        self._added_tokens = WholeTokens(added_codes.items()) if added_codes else None
        with tf.init_scope():  # constants outside of the graph, if the tokenizer is created in a traced function
            self._blocks = tf.constant(table.blocks)
            self._codes = tf.constant(table.codes.reshape(-1))
            self._sequence_starts = tf.constant(table.sequence_starts)
            self._sequence_codes = tf.constant(table.sequence_codes)

    def look_up(self, points: tf.RaggedTensor, *, with_origins: bool) -> Characters:
        """Return the characters of texts from their code points, `(R, characters)`."""
        blocks = tf.gather(self._blocks, tf.bitwise.right_shift(points.flat_values, _BLOCK_BITS))
        within = points.flat_values & (1 << _BLOCK_BITS) - 1
        codes = tf.gather(self._codes, tf.bitwise.left_shift(blocks, _BLOCK_BITS) | within)
        indices = tf.range(tf.size(codes))
        return Characters(codes, points.row_splits, (indices, indices) if with_origins else ())

    def with_special_tokens(self, characters: Characters, points: tf.Tensor, tokens: Collection[str]) -> Characters:
        """Replace each of these special tokens by one character, its stand-in."""
        matched = WholeTokens(([*map(ord, token)], self._special_codes[token]) for token in tokens)
        return _replace_tokens(characters, points, matched)

    def with_added_tokens(self, characters: Characters) -> Characters:
        """Replace each added token by one character, in texts that consist of stand-ins."""
        if self._added_tokens is None:
            return characters
        line_ends = characters.splits[1:] - 1  # no token continues in the next text
        values = _update(characters.codes & LOW_BITS, line_ends, -1)
        return _remove_dropped(_replace_tokens(characters, values, self._added_tokens))

    def apply_complex_rules(self, characters: Characters) -> Characters:
        """Apply the rules for characters that become none or several, or depend on their neighbours."""
        return _remove_dropped_and_sort_marks(self._spell_out(self._replace_final_sigmas(characters)))

    def mark_long_words(self, codes: tf.Tensor, places: tf.Tensor | None = None) -> tf.Tensor:
        """Put a letter outside the vocabulary into each word that is too long, so that it becomes [UNK].

        Args:
            codes: `(C,)` int32.
            places: `(C,)` int32, the start of each character in the unit of the maximum word length. None: characters.
        """
        bounds = tf.concat([[-1], tf.where(codes & IN_WORD == 0)[:, 0]], axis=0)
        starts, ends = bounds[:-1] + 1, bounds[1:]
        lengths = ends - starts if places is None else tf.gather(places, ends) - tf.gather(places, starts)
        starts = tf.boolean_mask(starts, lengths > self._max_word_length)
        return tf.cond(tf.size(starts) > 0, lambda: _update(codes, starts, self._unknown), lambda: codes)

    def _replace_final_sigmas(self, characters: Characters) -> Characters:
        """Replace each capital sigma at the end of a word by a final one, by Unicode's rule Final_Sigma."""
        codes = characters.codes
        is_sigma = codes & SIGMA != 0

        def replace():
            relevant = tf.where(codes & IGNORABLE == 0)[:, 0]
            is_cased = tf.gather(codes, relevant) & CASED != 0
            is_after_cased = tf.concat([[False], is_cased[:-1]], axis=0)
            is_before_cased = tf.concat([is_cased[1:], [False]], axis=0)
            is_final = tf.gather(is_sigma, relevant) & is_after_cased & ~is_before_cased
            return characters._replace(codes=_update(codes, tf.boolean_mask(relevant, is_final), self._final_sigma))

        return tf.cond(tf.reduce_any(is_sigma), replace, lambda: characters)

    def _spell_out(self, characters: Characters) -> Characters:
        """Replace each character that becomes several by its sequence."""
        codes = characters.codes
        are_several = codes & SEVERAL != 0

        def spell():
            size = tf.size(codes)
            sequence = tf.where(are_several, codes & LOW_BITS, 0)
            starts, ends = (tf.gather(self._sequence_starts, sequence + offset) for offset in (0, 1))
            indices = tf.ragged.range(
                tf.where(are_several, size + starts, tf.range(size)),
                tf.where(are_several, size + ends, tf.range(1, size + 1)),
            )
            spelled = characters.gather(indices.value_rowids()) if characters.origins else characters
            return spelled._replace(
                codes=tf.gather(tf.concat([codes, self._sequence_codes], axis=0), indices.flat_values),
                splits=tf.gather(indices.row_splits, characters.splits),
            )

        return tf.cond(tf.reduce_any(are_several), spell, lambda: characters)


def _replace_tokens(characters: Characters, values: tf.Tensor, tokens: WholeTokens) -> Characters:
    """Set the first character of each token to the token's code, and mark its other characters as dropped.

    Args:
        characters: C characters.
        values: `(C,)` int32, the values that are compared with the tokens.
        tokens: the tokens.
    """
    starts, lengths, codes_of_tokens = tokens.find(values)
    inside = tf.ragged.range(starts + 1, starts + lengths).flat_values
    codes = _update(characters.codes, inside, DROPPED)
    codes = tf.tensor_scatter_nd_update(codes, starts[:, tf.newaxis], codes_of_tokens)
    if not characters.origins:
        return characters._replace(codes=codes)
    firsts, lasts = characters.origins
    ends = tf.gather(lasts, starts + lengths - 1)
    return characters._replace(
        codes=codes, origins=(firsts, tf.tensor_scatter_nd_update(lasts, starts[:, tf.newaxis], ends))
    )


def find_complex_texts(characters: Characters) -> tf.Tensor:
    """Return the int64 indices of the texts that need `CharacterRules.apply_complex_rules`."""
    places = tf.where(characters.codes & COMPLEX != 0)[:, 0]
    return tf.unique(tf.searchsorted(characters.splits, places, side="right", out_type=tf.int64) - 1)[0]


def _remove_dropped(characters: Characters) -> Characters:
    remaining = tf.where(characters.codes & DROPPED == 0)[:, 0]
    splits = tf.searchsorted(remaining, characters.splits, out_type=tf.int64)
    return characters.gather(remaining)._replace(splits=splits)


def _remove_dropped_and_sort_marks(characters: Characters) -> Characters:
    """Remove dropped characters, and sort the marks after each letter by combining class, as NFD does.

    Real text hardly ever needs sorting. Dropped characters affect it: no mark moves across a character of class 0.
    """
    remaining = tf.where(characters.codes & DROPPED == 0)[:, 0]
    result = _remove_dropped(characters)
    ranks = tf.bitwise.right_shift(result.codes, RANK_SHIFT) & MAX_RANK

    def sort():
        is_starter = tf.cast(characters.codes & NOT_STARTER == 0, tf.int32)
        groups = tf.gather(tf.cumsum(is_starter), remaining)
        order = tf.argsort(groups * (MAX_RANK + 1) + ranks, stable=True)
        origins = tuple(tf.gather(origin, order) for origin in result.origins)
        if origins:  # marks that moved share the range of all marks that moved
            is_moved = order != tf.range(tf.size(order))
            firsts = tf.where(is_moved, origins[0], origins[0].dtype.max)
            lasts = tf.where(is_moved, origins[1], -1)
            num_groups = tf.reduce_max(groups) + 1
            firsts = tf.gather(tf.math.unsorted_segment_min(firsts, groups, num_groups), groups)
            lasts = tf.gather(tf.math.unsorted_segment_max(lasts, groups, num_groups), groups)
            origins = tf.where(is_moved, firsts, origins[0]), tf.where(is_moved, lasts, origins[1])
        return result._replace(codes=tf.gather(result.codes, order), origins=origins)

    return tf.cond(tf.math.count_nonzero(ranks) > 1, sort, lambda: result)


def _update(values: tf.Tensor, indices: tf.Tensor, value: int) -> tf.Tensor:
    """Return `values` with `value` at `indices` `(N,)`."""
    return tf.tensor_scatter_nd_update(values, indices[:, tf.newaxis], tf.fill(tf.shape(indices), value))
