"""BERT's text rules as one number per character: its replacement, and its effect on its neighbours.

A `CharacterTable` applies `TextRules` to every code point once, for one vocabulary, so that the graph only looks up
characters. The texts of a batch are concatenated, with a line end after each, so that no rule applies across two texts.

The rewritten text has a separate alphabet: printable ASCII does not change, each other character of the vocabulary is
replaced by a stand-in, and all other characters share one stand-in that is in no token. The stand-ins of letters are in
Unicode's private use areas, which no library treats as spaces or marks; those of single-character words are Chinese
characters, which tensorflow-text splits off by fixed ranges. So the ids do not depend on any library's Unicode version.
"""

import functools
import itertools
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_keras.errors import InputError, UnsupportedTokenizerError
from bert_keras.pipelines.text.graph.whole_tokens import WholeTokens
from bert_keras.pipelines.text.portable_tokenizer import TokenizerSpec
from bert_keras.pipelines.text.text_rules import CHINESE, TextRules, unicode_table

# The code of a character has 31 bits. The low 21 are its stand-in or, with SEVERAL, the index of its sequence of codes.
LOW_BITS = (1 << 21) - 1
IN_WORD = 1 << 21  # part of a word: neither a space nor a single-character word
DROPPED = 1 << 22
SEVERAL = 1 << 23
NOT_STARTER = 1 << 24  # NFD may move characters across it
RANK_SHIFT, MAX_RANK = 25, 7  # rank of the canonical combining class, of the few marks that are not dropped
CASED = 1 << 28
IGNORABLE = 1 << 29  # skipped in the search for the next cased character
SIGMA = 1 << 30  # capital sigma: its lower case depends on its neighbours
COMPLEX = DROPPED | SEVERAL | SIGMA | MAX_RANK << RANK_SHIFT  # needs more than a replacement by its stand-in

_CAPITAL_SIGMA, _FINAL_SIGMA = 0x3A3, 0x3C2
_PRIVATE_USE = ((0xE000, 0xF8FF), (0xF0000, 0xFFFFD), (0x100000, 0x10FFFD))
_UNKNOWN_LETTER, _UNKNOWN_WORD = _PRIVATE_USE[0][0], CHINESE[0][0]  # the stand-ins of characters in no token
_UNKNOWN = _UNKNOWN_LETTER | IN_WORD
_BLOCK_BITS = 8
_BLOCK = 1 << _BLOCK_BITS  # code points


@functools.lru_cache(maxsize=4)  # takes 0.15 s; vocabularies with the same alphabet share it
def _make_arrays(rules: TextRules, stand_ins: tuple[tuple[int, int], ...]) -> tuple[np.ndarray, ...]:
    """Return the arrays of a `CharacterTable`, read-only.

    Args:
        rules: the text rules.
        stand_ins: each character of the vocabulary beyond printable ASCII, with its stand-in.

    Returns:
        `(4352,)` int32, the index of each block of 256 code points in the second array; `(different blocks, 256)`
        int32, the code of each character; `(sequences + 1,)` int32, the start of each sequence of characters in the
        last array; and `(codes of all sequences,)` int32.
    """
    codes, sequences = _make_codes(rules, dict(stand_ins))
    different: dict[bytes, int] = {}
    blocks = [different.setdefault(block.tobytes(), len(different)) for block in codes.reshape(-1, _BLOCK)]
    packed = (
        np.array(blocks, np.int32),
        np.frombuffer(b"".join(different), np.int32).reshape(-1, _BLOCK),
        np.cumsum([0, *map(len, sequences)]).astype(np.int32),
        np.array([*itertools.chain.from_iterable(sequences)], np.int32),
    )
    for array in packed:
        array.flags.writeable = False
    return packed


def _make_codes(rules: TextRules, stand_ins: dict[int, int]) -> tuple[np.ndarray, list[tuple[int, ...]]]:
    """Return the code of each code point, and the sequences of those that become several characters."""
    unicode, single_words = unicode_table(), rules.single_words()
    unchanged = np.where(single_words, _UNKNOWN_WORD, _UNKNOWN).astype(np.int32)
    for code in (*range(0x21, 0x7F), *stand_ins):
        unchanged[code] = _make_code(code, single_words, stand_ins)
    if rules.strip_accents:
        unchanged[unicode.mark] = DROPPED
        classes = np.where(unicode.mark, 0, unicode.combining_class)  # five different ones
        ranks = np.searchsorted(np.unique(classes), classes).astype(np.int32)
        unchanged |= np.where(unicode.combining_class > 0, NOT_STARTER, 0) | ranks << RANK_SHIFT
    codes = unchanged.copy()
    sequences: list[tuple[int, ...]] = [(_UNKNOWN,)]  # never used; a lookup needs a table that is not empty
    for code, becomes in rules.changes().items():
        codes[code] = _combine([int(unchanged[part]) for part in becomes], sequences)
    if rules.lowercase and not rules.is_mediapipe:
        codes |= np.where(unicode.cased, CASED, 0) | np.where(unicode.case_ignorable, IGNORABLE, 0)
        codes[_CAPITAL_SIGMA] |= SIGMA
    codes[rules.dropped()] = DROPPED | NOT_STARTER | IGNORABLE
    codes[rules.spaces()] = ord(" ")
    return codes, sequences


def _make_code(code: int, single_words: np.ndarray, stand_ins: dict[int, int]) -> int:
    """Return the code of a character that normalization does not change."""
    is_single_word = bool(single_words[code])
    unknown = _UNKNOWN_WORD if is_single_word else _UNKNOWN_LETTER
    stand_in = code if 0x21 <= code < 0x7F else stand_ins.get(code, unknown)
    return stand_in if is_single_word else stand_in | IN_WORD


def _combine(parts: list[int], sequences: list[tuple[int, ...]]) -> int:
    """Return the code of a character that becomes several, from their codes, and append to `sequences` if needed."""
    remaining = tuple(part for part in parts if not part & DROPPED)
    if len(remaining) == 1:
        return remaining[0]
    if not remaining:
        return DROPPED | (NOT_STARTER if all(part & NOT_STARTER for part in parts) else 0)
    sequences.append(remaining)
    return SEVERAL | (len(sequences) - 1)


def _choose_stand_ins(tokens: Sequence[str], single_words: np.ndarray, num_special: int) -> dict[int, int]:
    """Return a stand-in for each character of the vocabulary beyond printable ASCII."""
    alphabet = sorted({ord(character) for token in tokens for character in token if not "\x21" <= character <= "\x7e"})
    letters = itertools.islice(_expand_ranges(_PRIVATE_USE), 1, None)  # the first one is the unknown letter
    words = itertools.islice(_expand_ranges(CHINESE), 1 + num_special, None)
    try:
        return {code: next(words if single_words[code] else letters) for code in alphabet}
    except StopIteration:
        raise InputError(
            f"the vocabulary has {len(alphabet):,} different characters; expected at most 80,000 that are separate "
            "words and 137,000 others: this is not a WordPiece vocabulary, so name another file"
        ) from None


def _expand_ranges(ranges: Iterable[tuple[int, int]]) -> Iterable[int]:
    return itertools.chain.from_iterable(range(first, last + 1) for first, last in ranges)


def fold_letters(token: str) -> str:
    """Return every letter that the letters of a token can become: with folded case, with and without accents."""
    return unicodedata.normalize("NFD", token.lower()) + unicodedata.normalize("NFC", token.lower())


def _normalize_added_tokens(
    tokens: Sequence[str], rules: TextRules, arrays: tuple[np.ndarray, ...]
) -> dict[str, tuple[int, ...]]:
    """Return the stand-ins of each token in normalized text, where it must occur and differ from the others."""
    if tokens and rules.is_mediapipe:
        raise InputError(
            f"added_tokens has {tokens[0]!r}, which text_rules 'mediapipe' splits; expected no added tokens: remove it"
        )
    found: dict[tuple[int, ...], str] = {}
    for token in tokens:
        text = _normalize(token, *arrays)
        if not text or {_UNKNOWN_LETTER, _UNKNOWN_WORD} & set(text) or token.startswith("##"):
            raise UnsupportedTokenizerError(
                f"the added token {token!r} never occurs in normalized text; expected letters, marks that are not "
                "stripped or punctuation, without ## before them: remove it from added_tokens"
            )
        if (other := found.setdefault(text, token)) != token:
            raise UnsupportedTokenizerError(
                f"the added tokens {other!r} and {token!r} are equal in normalized text; expected different tokens: "
                "remove one"
            )
    return {token: text for text, token in found.items()}


def _normalize(
    text: str, blocks: np.ndarray, codes: np.ndarray, sequence_starts: np.ndarray, sequence_codes: np.ndarray
) -> tuple[int, ...]:
    """Return the stand-ins of a text, without the rules for a final sigma and the order of marks."""
    found = []
    for point in map(ord, text):
        code = int(codes[blocks[point // _BLOCK], point % _BLOCK])
        if code & SEVERAL:
            start, end = sequence_starts[code & LOW_BITS :][:2]
            found += sequence_codes[start:end].tolist()
        elif not code & DROPPED:
            found.append(code)
    return tuple(code & LOW_BITS for code in found)


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


class CharacterTable:
    """The code of every character, for the rules and the vocabulary of a tokenizer, and the steps of the graph with it.

    Args:
        spec: the arguments of the tokenizer. Its special and added tokens are matched before text is split.

    Attributes:
        added_tokens: the stand-ins of the normalized text of each added token.

    Raises:
        InputError: the tokens have more different characters than there are stand-ins, or an added token does not occur
            in normalized text or equals another one there.
    """

    def __init__(self, spec: TokenizerSpec):
        rules, single_words = spec.rules, spec.rules.single_words()
        self._max_word_length = rules.max_input_chars_per_word
        whole_tokens = (*spec.special_tokens, *spec.added_tokens)
        letters = (*spec.vocabulary, *map(fold_letters, spec.added_tokens))
        self._stand_ins = _choose_stand_ins(letters, single_words, len(whole_tokens))
        # whole tokens are single-character words
        self._whole_codes = {token: _UNKNOWN_WORD + 1 + index for index, token in enumerate(whole_tokens)}
        self._final_sigma = _make_code(_FINAL_SIGMA, single_words, self._stand_ins)
        arrays = _make_arrays(rules, tuple(self._stand_ins.items()))
        self.added_tokens = _normalize_added_tokens(spec.added_tokens, rules, arrays)
        added = [(text, self._whole_codes[token]) for token, text in self.added_tokens.items()]
        self._added = WholeTokens(added) if added else None
        with tf.init_scope():  # constants outside of the graph, if the tokenizer is created in a traced function
            blocks, codes, *sequences = map(tf.constant, arrays)
            self._blocks, self._codes = blocks, tf.reshape(codes, [-1])
            self._sequence_starts, self._sequence_codes = sequences

    def rewrite_vocabulary(self, vocabulary: Sequence[str]) -> list[str]:
        """Return the tokens in the alphabet of the rewritten text, followed by the stand-ins of whole tokens."""
        rewritten = [
            "".join(chr(self._stand_ins.get(ord(character), ord(character))) for character in token)
            for token in vocabulary
        ]
        return [*rewritten, *map(chr, self._whole_codes.values())]

    def look_up(self, points: tf.RaggedTensor, *, with_origins: bool) -> Characters:
        """Return the characters of texts from their code points, `(R, characters)`."""
        blocks = tf.gather(self._blocks, tf.bitwise.right_shift(points.flat_values, _BLOCK_BITS))
        within = points.flat_values & (1 << _BLOCK_BITS) - 1
        codes = tf.gather(self._codes, tf.bitwise.left_shift(blocks, _BLOCK_BITS) | within)
        indices = tf.range(tf.size(codes))
        return Characters(codes, points.row_splits, (indices, indices) if with_origins else ())

    def with_special_tokens(self, characters: Characters, points: tf.Tensor, tokens: Collection[str]) -> Characters:
        """Replace each of these special tokens by one character, its stand-in."""
        matched = WholeTokens(([*map(ord, token)], self._whole_codes[token]) for token in tokens)
        return _replace_tokens(characters, points, matched)

    def with_added_tokens(self, characters: Characters) -> Characters:
        """Replace each added token by one character, in texts that consist of stand-ins."""
        if self._added is None:
            return characters
        line_ends = characters.splits[1:] - 1  # no token continues in the next text
        values = _update(characters.codes & LOW_BITS, line_ends, -1)
        return _remove_dropped(_replace_tokens(characters, values, self._added))

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
        return tf.cond(tf.size(starts) > 0, lambda: _update(codes, starts, _UNKNOWN), lambda: codes)

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
    """Return the int64 indices of the texts that need `CharacterTable.apply_complex_rules`."""
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
