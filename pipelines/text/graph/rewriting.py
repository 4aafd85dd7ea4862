"""Text rewritten in the graph, so that tensorflow-text's fast WordPiece gives BERT's exact ids.

In printable ASCII without overlong words, nearly all of English, only the case is folded. Any other text is split into
characters and rewritten in the alphabet of a `CharacterTable`.
"""

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

import tensorflow as tf
import tensorflow_text as tf_text

from bert_keras.errors import InputError
from bert_keras.pipelines.text.graph.characters import LOW_BITS, Characters, CharacterTable, find_complex_texts
from bert_keras.pipelines.text.portable_tokenizer import TokenizerSpec
from bert_keras.pipelines.text.vocabulary import MAX_TOKEN_BYTES

_MAX_PATTERN_CHARACTERS = 5_000  # RE2 has memory for at least 10,000
_REPLACEMENT_CHARACTER, _NONCHARACTER = 0xFFFD, 0x10FFFF  # BERT drops the first; a word with the second is [UNK]


class Writing(NamedTuple):
    """R rewritten texts of C characters in total, concatenated.

    Attributes:
        text_starts: `(R,)` int32, the start of each text in bytes.
        ends: `(C,)` int32, the end of each character in bytes.
        firsts, lasts: `(C,)` int32, the first and the last original character that became each character.
    """

    text_starts: tf.Tensor
    ends: tf.Tensor
    firsts: tf.Tensor
    lasts: tf.Tensor

    def concat(self, other: "Writing") -> "Writing":
        """Return these texts, followed by those of `other`."""
        size = self.ends[-1]
        other = other._replace(text_starts=other.text_starts + size, ends=other.ends + size)
        return Writing(*[tf.concat(parts, axis=0) for parts in zip(self, other, strict=True)])


class Sources(NamedTuple):
    """The map from the B rewritten texts of a batch to the originals, which have O characters in the split texts.

    Attributes:
        indices: `(B,)` int32, the index of each text in `writing`; -1: the text was not split, so its bytes are the
            original ones.
        writing: R texts.
        original_text_starts: `(R,)` int32, the index of the first original character of each text.
        original_starts: `(O,)` int32, the start of each original character in its text, in bytes.
    """

    indices: tf.Tensor
    writing: Writing
    original_text_starts: tf.Tensor
    original_starts: tf.Tensor


class Rewriter:
    """Rewrite texts by the rules of a tokenizer, in the alphabet of a character table.

    Args:
        spec: the arguments of the tokenizer.

    Raises:
        InputError: see `CharacterTable`.
    """

    def __init__(self, spec: TokenizerSpec):
        self._spec, self._rules = spec, spec.rules
        self._never_split = () if spec.rules.is_mediapipe else spec.additional_special_tokens
        self._table = CharacterTable(spec)
        added_tokens = ("".join(map(chr, token)) for token in self._table.added_tokens.values())
        # in folded text; a space is any white space of plain text
        self._added_pattern = _make_plain_pattern(
            added_tokens, lambda text: re.escape(text).replace(r"\ ", r"[\t\n\r ]")
        )
        self._special_patterns = {
            tokens: _make_plain_pattern(tokens, re.escape) for tokens in {spec.special_tokens, self._never_split}
        }
        self._not_utf8 = _NONCHARACTER if spec.rules.is_mediapipe else _REPLACEMENT_CHARACTER
        word = f"[0-9A-Za-z]{{0,{spec.rules.max_input_chars_per_word}}}"
        self._plain_pattern = rf"({word}[\t\n\r -/:-@\[-`{{-~])*{word}"

    def make_word_piece(self) -> tf_text.FastWordpieceTokenizer:
        """Return tensorflow-text's WordPiece for rewritten text.

        Its vocabulary is that of the tokenizer, followed by the stand-ins of special and added tokens.

        Raises:
            InputError: a token of the vocabulary is too long.
        """
        rewritten = self._table.rewrite_vocabulary(self._spec.vocabulary)
        for token, in_bytes in zip(self._spec.vocabulary, map(str.encode, rewritten), strict=False):
            if len(in_bytes.removeprefix(b"##")) > MAX_TOKEN_BYTES:
                raise InputError(
                    f"the vocabulary's token {token[:20]!r}... has {len(token)} characters; expected at most "
                    f"{MAX_TOKEN_BYTES}, or {MAX_TOKEN_BYTES // 4} outside ASCII: learn a vocabulary of shorter tokens"
                )
        return tf_text.FastWordpieceTokenizer(
            rewritten,
            unknown_token="[UNK]",
            max_bytes_per_word=4 * self._rules.max_input_chars_per_word,
            token_out_type=tf.int32,
        )

    def unsplit_tokens(self, keep_special_tokens: bool) -> tuple[str, ...]:
        """Return the special tokens that are not split."""
        return self._spec.special_tokens if keep_special_tokens else self._never_split

    def rewrite(
        self, texts: tf.Tensor, keep_special_tokens: bool, *, with_sources: bool
    ) -> tuple[tf.Tensor, Sources | tuple]:
        """Rewrite texts; each special token that is not split becomes one character.

        Args:
            texts: `(B,)` strings.
            keep_special_tokens: whether no special token is split, or only the tokens `never_split` are not.
            with_sources: whether to return the map to the original texts; otherwise it is empty.
        """
        is_plain = tf.strings.regex_full_match(texts, self._plain_pattern)
        unsplit = self.unsplit_tokens(keep_special_tokens)
        if special_pattern := self._special_patterns[unsplit]:
            is_plain &= ~tf.strings.regex_full_match(texts, f"(?s).*({special_pattern}).*")
        folded = tf.strings.lower(texts) if self._rules.lowercase else texts
        if self._added_pattern:
            is_plain &= ~tf.strings.regex_full_match(folded, f"(?s).*({self._added_pattern}).*")

        def keep_all():
            if not with_sources:
                return folded, ()
            nothing = tf.zeros([0], tf.int32)
            return folded, Sources(tf.fill(tf.shape(texts), -1), Writing(*[nothing] * 4), nothing, nothing)

        def rewrite_others():
            others = tf.where(~is_plain)[:, 0]
            rewritten, sources = self._rewrite_selected(texts, others, unsplit, with_sources)
            return tf.tensor_scatter_nd_update(folded, others[:, tf.newaxis], rewritten), sources

        return tf.cond(tf.reduce_all(is_plain), keep_all, rewrite_others)

    def _rewrite_selected(
        self, texts: tf.Tensor, selected: tf.Tensor, unsplit: tuple[str, ...], with_sources: bool
    ) -> tuple[tf.Tensor, Sources | tuple]:
        """Rewrite the texts at the indices `selected` `(R,)`: all by the simple rules, then some by all rules."""
        points, starts = self._decode(tf.gather(texts, selected))
        with_origins = with_sources or self._rules.is_mediapipe
        characters = self._table.look_up(points, with_origins=with_origins)
        if unsplit:
            characters = self._table.with_special_tokens(characters, points.flat_values, unsplit)
        complex_texts = find_complex_texts(characters)
        strings, writing = self._write(characters, starts.flat_values)

        def write_complex():
            rewritten = self._table.apply_complex_rules(characters.select_texts(complex_texts))
            complex_strings, complex_writing = self._write(rewritten, starts.flat_values)
            all_strings = tf.tensor_scatter_nd_update(strings, complex_texts[:, tf.newaxis], complex_strings)
            return all_strings, writing.concat(complex_writing) if with_sources else ()

        strings, writing = tf.cond(
            tf.size(complex_texts) > 0, write_complex, lambda: (strings, writing if with_sources else ())
        )
        if not with_sources:
            return strings, ()
        original_text_starts = tf.cast(points.row_starts(), tf.int32)
        indices = tf.tensor_scatter_nd_update(
            tf.range(tf.size(selected)),
            complex_texts[:, tf.newaxis],
            tf.size(selected) + tf.range(tf.size(complex_texts)),
        )
        sources = Sources(
            indices=tf.tensor_scatter_nd_update(tf.fill(tf.shape(texts), -1), selected[:, tf.newaxis], indices),
            writing=writing,
            original_text_starts=tf.concat(
                [original_text_starts, tf.gather(original_text_starts, complex_texts)], axis=0
            ),
            original_starts=starts.flat_values,
        )
        return strings, sources

    def _decode(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Return code points, with a line end after each text, and their starts in bytes: `(R, points)` each."""
        if self._rules.is_mediapipe:
            texts = tf.strings.regex_replace(texts, r"\x00\C*", "")  # NUL ends a C string
        points, starts = tf.strings.unicode_decode_with_offsets(
            tf.strings.join([texts, "\n"]), "UTF-8", replacement_char=self._not_utf8
        )
        return points, tf.cast(starts, tf.int32)

    def _write(self, characters: Characters, starts: tf.Tensor) -> tuple[tf.Tensor, Writing | tuple]:
        """Return texts `(R,)`, and their `Writing` if the characters have origins."""
        in_bytes = self._rules.is_mediapipe
        characters = self._table.with_added_tokens(characters)
        places = tf.gather(starts, characters.origins[0]) if in_bytes else None
        codes = self._table.mark_long_words(characters.codes, places)
        stand_ins = codes & LOW_BITS
        ragged = tf.RaggedTensor.from_row_splits(stand_ins, characters.splits, validate=False)
        strings = tf.strings.unicode_encode(ragged, "UTF-8")
        if not characters.origins:
            return strings, ()
        # a stand-in has three or four bytes; none is between U+0080 and U+07FF
        lengths = 1 + 2 * tf.cast(stand_ins > 0x7F, tf.int32) + tf.cast(stand_ins > 0xFFFF, tf.int32)
        ends = tf.cumsum(lengths)
        text_starts = tf.gather(tf.concat([[0], ends], axis=0), characters.splits[:-1])
        return strings, Writing(text_starts, ends, *characters.origins)


def _make_plain_pattern(tokens: Iterable[str], escape: Callable[[str], str]) -> str:
    """Return a pattern of the tokens that can occur in plain text, which is ASCII, or of their prefixes.

    A text with only a prefix is split without need, with the same result. RE2 falls back to a slow search if a pattern
    is too large for its memory: 10,000 tokens took 3.4 s in 6,400 short texts.

    Args:
        tokens: tokens in the alphabet of the text that is searched.
        escape: function that escapes characters for a pattern.
    """
    tokens = [token for token in tokens if token.isascii()]
    prefixes: set[str] = set()
    for length in range(1, max(map(len, tokens), default=0) + 1):
        longer = {token[:length] for token in tokens}
        if length > 1 and sum(map(len, longer)) > _MAX_PATTERN_CHARACTERS:
            break
        prefixes = longer
    return "|".join(map(escape, sorted(prefixes)))


def map_to_original(
    sources: Sources, text_indices: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor, *, unit: str
) -> tuple[tf.Tensor, tf.Tensor]:
    """Map P ranges of bytes in rewritten texts to ranges in the original texts.

    Args:
        sources: the map to the original texts.
        text_indices: `(P,)` int64, the index in the batch of the text of each range.
        starts, ends: `(P,)` int32, in bytes.
        unit: "characters" (code points) or "bytes" of UTF-8.

    Returns:
        `(P,)` int32 starts and ends. Ranges in texts that were not split do not change.
    """
    writing = sources.writing

    def look_up():
        indices = tf.gather(sources.indices, text_indices)
        moved = tf.where(indices >= 0)
        indices = tf.gather_nd(indices, moved)
        text_starts = tf.gather(writing.text_starts, indices)
        first_bytes = text_starts + tf.gather_nd(starts, moved)
        last_bytes = text_starts + tf.gather_nd(ends, moved) - 1
        firsts = tf.gather(writing.firsts, tf.searchsorted(writing.ends, first_bytes, side="right"))
        lasts = tf.gather(writing.lasts, tf.searchsorted(writing.ends, last_bytes, side="right"))
        if unit == "bytes":
            new_starts, new_ends = (tf.gather(sources.original_starts, index) for index in (firsts, lasts + 1))
        else:
            base = tf.gather(sources.original_text_starts, indices)
            new_starts, new_ends = firsts - base, lasts + 1 - base
        return (
            tf.tensor_scatter_nd_update(starts, moved, new_starts),
            tf.tensor_scatter_nd_update(ends, moved, new_ends),
        )

    return tf.cond(tf.size(writing.text_starts) > 0, look_up, lambda: (starts, ends))
