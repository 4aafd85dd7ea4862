"""BERT's text rules on the characters of many texts at once, in the graph.

A character is a code of a `CharacterTable`. Texts stand one after the other, a line end after each, so that no rule
looks past the end of a text.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import tensorflow as tf

from bert_keras.pipelines.text.character_table import (
    CASED,
    DROPPED,
    IGNORABLE,
    IN_WORD,
    LOW_BITS,
    MAX_RANK,
    NOT_STARTER,
    ODD,
    RANK_SHIFT,
    SEVERAL,
    SIGMA,
    CharacterTable,
)
from bert_keras.pipelines.text.whole_tokens import WholeTokens

_BLOCK_BITS = 8  # 256 code points a block


class Characters(NamedTuple):
    """The C characters of R texts.

    Attributes:
        codes: `(C,)` int32.
        splits: `(R + 1,)` int64, where each text begins, and the end.
        origins: nothing where nobody asks; else two times `(C,)` int32, the first and the last character of the
            original texts that each stands for.
    """

    codes: tf.Tensor
    splits: tf.Tensor
    origins: tuple[tf.Tensor, ...]

    def picked(self, indices: tf.Tensor) -> "Characters":
        """Returns the characters at `indices`, with the splits as they were."""
        origins = tuple(tf.gather(origin, indices) for origin in self.origins)
        return Characters(tf.gather(self.codes, indices), self.splits, origins)

    def texts(self, rows: tf.Tensor) -> "Characters":
        """Returns the characters of some of the texts, `(rows,)` int64."""
        starts = tf.gather(self.splits, rows)
        picks = tf.ragged.range(starts, tf.gather(self.splits, rows + 1))
        return self.picked(picks.flat_values)._replace(splits=picks.row_splits)


class CharacterRules:
    """What a `CharacterTable` says, as constants of the graph and steps that use them.

    Args:
        table: what becomes of each character.
        special_tokens: the tokens that `table` has stand-ins for.
        max_word_length: a longer word becomes [UNK].
        added_codes: each added token as stand-ins of its normalized text, with its own code.
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
        with tf.init_scope():  # constants of their own, also when the tokenizer is made inside a traced function
            self._blocks = tf.constant(table.blocks)
            self._codes = tf.constant(table.codes.reshape(-1))
            self._sequence_starts = tf.constant(table.sequence_starts)
            self._sequence_codes = tf.constant(table.sequence_codes)

    def look_up(self, points: tf.RaggedTensor, *, with_origins: bool) -> Characters:
        """Returns the characters of texts given as code points, `(R, characters)`."""
        blocks = tf.gather(self._blocks, tf.bitwise.right_shift(points.flat_values, _BLOCK_BITS))
        within = points.flat_values & (1 << _BLOCK_BITS) - 1
        codes = tf.gather(self._codes, tf.bitwise.left_shift(blocks, _BLOCK_BITS) | within)
        places = tf.range(tf.size(codes))
        return Characters(codes, points.row_splits, (places, places) if with_origins else ())

    def with_special_tokens(self, characters: Characters, points: tf.Tensor, tokens: Collection[str]) -> Characters:
        """Makes one character of each of these special tokens: its first, which gets the token's stand-in."""
        wanted = WholeTokens(([*map(ord, token)], self._special_codes[token]) for token in tokens)
        return _with_whole_tokens(characters, points, wanted)

    def with_added_tokens(self, characters: Characters) -> Characters:
        """Makes one character of each added token in texts of which nothing but stand-ins is left."""
        if self._added_tokens is None:
            return characters
        line_ends = characters.splits[1:] - 1  # no token reaches over one, into the next text
        values = _updated(characters.codes & LOW_BITS, line_ends, -1)
        return _kept(_with_whole_tokens(characters, values, self._added_tokens))

    def by_odd_rules(self, characters: Characters) -> Characters:
        """Applies the rules by which a character becomes none or several, or depends on its neighbours."""
        return _kept_in_order(self._spelt_out(self._with_final_sigmas(characters)))

    def without_long_words(self, codes: tf.Tensor, places: tf.Tensor | None = None) -> tf.Tensor:
        """Puts a letter that no token holds into each word that is too long, so that it becomes [UNK].

        Args:
            codes: `(C,)` int32.
            places: `(C,)` int32, where each character begins; None: they count as one each.
        """
        borders = tf.concat([[-1], tf.where(codes & IN_WORD == 0)[:, 0]], axis=0)
        starts, ends = borders[:-1] + 1, borders[1:]
        lengths = ends - starts if places is None else tf.gather(places, ends) - tf.gather(places, starts)
        starts = tf.boolean_mask(starts, lengths > self._max_word_length)
        return tf.cond(tf.size(starts) > 0, lambda: _updated(codes, starts, self._unknown), lambda: codes)

    def _with_final_sigmas(self, characters: Characters) -> Characters:
        """Makes each capital sigma that ends a word a final one, by Unicode's rule Final_Sigma."""
        codes = characters.codes
        is_sigma = codes & SIGMA != 0

        def mend():
            relevant = tf.where(codes & IGNORABLE == 0)[:, 0]
            is_cased = tf.gather(codes, relevant) & CASED != 0
            is_after_cased = tf.concat([[False], is_cased[:-1]], axis=0)
            is_before_cased = tf.concat([is_cased[1:], [False]], axis=0)
            is_final = tf.gather(is_sigma, relevant) & is_after_cased & ~is_before_cased
            return characters._replace(codes=_updated(codes, tf.boolean_mask(relevant, is_final), self._final_sigma))

        return tf.cond(tf.reduce_any(is_sigma), mend, lambda: characters)

    def _spelt_out(self, characters: Characters) -> Characters:
        """Puts the sequence in the place of each character that becomes several."""
        codes = characters.codes
        are_several = codes & SEVERAL != 0

        def spell():
            size = tf.size(codes)
            sequence = tf.where(are_several, codes & LOW_BITS, 0)
            starts, ends = (tf.gather(self._sequence_starts, sequence + place) for place in (0, 1))
            picks = tf.ragged.range(
                tf.where(are_several, size + starts, tf.range(size)),
                tf.where(are_several, size + ends, tf.range(1, size + 1)),
            )
            spelt = characters.picked(picks.value_rowids()) if characters.origins else characters
            return spelt._replace(
                codes=tf.gather(tf.concat([codes, self._sequence_codes], axis=0), picks.flat_values),
                splits=tf.gather(picks.row_splits, characters.splits),
            )

        return tf.cond(tf.reduce_any(are_several), spell, lambda: characters)


def _with_whole_tokens(characters: Characters, values: tf.Tensor, tokens: WholeTokens) -> Characters:
    """Gives the first character of each token the token's code; its others are to be dropped.

    Args:
        characters: C characters.
        values: `(C,)` int32, what is compared with the tokens.
        tokens: the tokens.
    """
    starts, lengths, codes_of_tokens = tokens.find(values)
    inside = tf.ragged.range(starts + 1, starts + lengths).flat_values
    codes = _updated(characters.codes, inside, DROPPED)
    codes = tf.tensor_scatter_nd_update(codes, starts[:, tf.newaxis], codes_of_tokens)
    if not characters.origins:
        return characters._replace(codes=codes)
    firsts, lasts = characters.origins
    ends = tf.gather(lasts, starts + lengths - 1)
    return characters._replace(
        codes=codes, origins=(firsts, tf.tensor_scatter_nd_update(lasts, starts[:, tf.newaxis], ends))
    )


def odd_texts(characters: Characters) -> tf.Tensor:
    """Returns which texts have a character that `CharacterRules.by_odd_rules` is for, `(odd,)` int64."""
    places = tf.where(characters.codes & ODD != 0)[:, 0]
    return tf.unique(tf.searchsorted(characters.splits, places, side="right", out_type=tf.int64) - 1)[0]


def _kept(characters: Characters) -> Characters:
    """Leaves out what is dropped."""
    kept = tf.where(characters.codes & DROPPED == 0)[:, 0]
    return characters.picked(kept)._replace(splits=tf.searchsorted(kept, characters.splits, out_type=tf.int64))


def _kept_in_order(characters: Characters) -> Characters:
    """Leaves out what is dropped, and sorts the marks after each letter by combining class, as NFD does.

    Real text hardly ever needs the sorting. What is dropped has a say in it: nothing moves across a mark of class 0.
    """
    kept = tf.where(characters.codes & DROPPED == 0)[:, 0]
    result = _kept(characters)
    ranks = tf.bitwise.right_shift(result.codes, RANK_SHIFT) & MAX_RANK

    def ordered():
        is_starter = tf.cast(characters.codes & NOT_STARTER == 0, tf.int32)
        groups = tf.gather(tf.cumsum(is_starter), kept)
        order = tf.argsort(groups * (MAX_RANK + 1) + ranks, stable=True)
        origins = tuple(tf.gather(origin, order) for origin in result.origins)
        if origins:  # marks that changed places share the range of all that did
            is_moved = order != tf.range(tf.size(order))
            firsts = tf.where(is_moved, origins[0], origins[0].dtype.max)
            lasts = tf.where(is_moved, origins[1], -1)
            num_groups = tf.reduce_max(groups) + 1
            firsts = tf.gather(tf.math.unsorted_segment_min(firsts, groups, num_groups), groups)
            lasts = tf.gather(tf.math.unsorted_segment_max(lasts, groups, num_groups), groups)
            origins = tf.where(is_moved, firsts, origins[0]), tf.where(is_moved, lasts, origins[1])
        return result._replace(codes=tf.gather(result.codes, order), origins=origins)

    return tf.cond(tf.math.count_nonzero(ranks) > 1, ordered, lambda: result)


def _updated(values: tf.Tensor, indices: tf.Tensor, value: int) -> tf.Tensor:
    """Returns `values` with `value` at `indices` `(N,)`."""
    return tf.tensor_scatter_nd_update(values, indices[:, tf.newaxis], tf.fill(tf.shape(indices), value))
