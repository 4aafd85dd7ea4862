"""Text rewritten in the graph, so that tensorflow-text's fast WordPiece gives BERT's exact ids.

Printable ASCII without over-long words, nearly all of English, only has its case folded. Any other text is taken apart
into characters and put together again in the alphabet of a `CharacterTable`.
"""

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

import tensorflow as tf

from bert_keras.pipelines.text.character_table import LOW_BITS, CharacterTable
from bert_keras.pipelines.text.characters import CharacterRules, Characters, odd_texts
from bert_keras.pipelines.text.text_rules import TextRules

_MAX_PATTERN_CHARACTERS = 5_000  # RE2 has memory for 10,000 and more
_REPLACEMENT_CHARACTER, _NONCHARACTER = 0xFFFD, 0x10FFFF  # BERT drops the first; a word with the other is [UNK]


class Writing(NamedTuple):
    """R texts of C characters, written one after the other.

    Attributes:
        row_starts: `(R,)` int32, where each text begins, in bytes.
        ends: `(C,)` int32, where each character ends, in bytes.
        firsts, lasts: `(C,)` int32, the first and the last original character that each stands for.
    """

    row_starts: tf.Tensor
    ends: tf.Tensor
    firsts: tf.Tensor
    lasts: tf.Tensor

    def followed_by(self, other: "Writing") -> "Writing":
        """Returns both, one after the other."""
        size = self.ends[-1]
        row_starts, ends = other.row_starts + size, other.ends + size
        other = other._replace(row_starts=row_starts, ends=ends)
        return Writing(*[tf.concat(parts, axis=0) for parts in zip(self, other, strict=True)])


class Sources(NamedTuple):
    """Where the rewritten texts of a batch of B come from. O characters stood in those that were taken apart.

    Attributes:
        places: `(B,)` int32, which text of `writing` it is; -1: its bytes stand for themselves.
        writing: R texts.
        original_row_starts: `(R,)` int32, the first original character of each text.
        original_starts: `(O,)` int32, where each original character begins in its text, in bytes.
    """

    places: tf.Tensor
    writing: Writing
    original_row_starts: tf.Tensor
    original_starts: tf.Tensor


class Rewriter:
    """Rewrites texts by `rules`, in the alphabet of `table`, which was made for the same rules.

    Args:
        rules: how text becomes words.
        table: what becomes of each character.
        special_tokens: the tokens that `table` has stand-ins for.
        always_whole: those of them that are never split.
        added_tokens: the tokens, with stand-ins behind those of the special ones, that are looked for after the text
            was normalized.
    """

    def __init__(
        self,
        rules: TextRules,
        table: CharacterTable,
        special_tokens: tuple[str, ...],
        always_whole: tuple[str, ...] = (),
        added_tokens: tuple[str, ...] = (),
    ):
        self._rules, self._special_tokens, self._always_whole = rules, special_tokens, always_whole
        normalized = [table.normalized(token) for token in added_tokens]
        added_codes = dict(zip(normalized, table.special[len(special_tokens) :], strict=True))
        self._rules_of_characters = CharacterRules(table, special_tokens, rules.max_input_chars_per_word, added_codes)
        self._added_pattern = _pattern_of_plain(("".join(map(chr, token)) for token in normalized), _character_pattern)
        self._special_patterns = {
            tokens: _pattern_of_plain(tokens, re.escape) for tokens in {special_tokens, always_whole}
        }
        self._not_utf8 = _NONCHARACTER if rules.is_mediapipe else _REPLACEMENT_CHARACTER
        word = f"[0-9A-Za-z]{{0,{rules.max_input_chars_per_word}}}"
        self._plain_pattern = rf"({word}[\t\n\r -/:-@\[-`{{-~])*{word}"

    def rewrite(self, texts: tf.Tensor, *, keep_special_tokens: bool) -> tf.Tensor:
        """Rewrites `(B,)` strings; each special token that stays whole becomes one character.

        `keep_special_tokens`: that all of them stay whole, not only those that always do.
        """
        return self._rewrite(texts, keep_special_tokens, with_sources=False)[0]

    def rewrite_with_sources(self, texts: tf.Tensor, *, keep_special_tokens: bool) -> tuple[tf.Tensor, Sources]:
        """Rewrites `(B,)` strings, and says where the characters come from."""
        return self._rewrite(texts, keep_special_tokens, with_sources=True)

    def kept(self, keep_special_tokens: bool) -> tuple[str, ...]:
        """Returns the special tokens that stay whole."""
        return self._special_tokens if keep_special_tokens else self._always_whole

    def _rewrite(self, texts, keep_special_tokens: bool, *, with_sources: bool):
        is_plain = tf.strings.regex_full_match(texts, self._plain_pattern)
        kept = self.kept(keep_special_tokens)
        if special_pattern := self._special_patterns[kept]:
            is_plain &= ~tf.strings.regex_full_match(texts, f"(?s).*({special_pattern}).*")
        folded = tf.strings.lower(texts) if self._rules.lowercase else texts
        if self._added_pattern:
            is_plain &= ~tf.strings.regex_full_match(folded, f"(?s).*({self._added_pattern}).*")

        def keep_all():
            nothing = tf.zeros([0], tf.int32)
            return folded, Sources(_nowhere(texts), Writing(*[nothing] * 4), nothing, nothing) if with_sources else ()

        def rewrite_others():
            rows = tf.where(~is_plain)[:, 0]
            rewritten, sources = self._rewrite_rows(texts, rows, kept, with_sources)
            return tf.tensor_scatter_nd_update(folded, rows[:, tf.newaxis], rewritten), sources

        return tf.cond(tf.reduce_all(is_plain), keep_all, rewrite_others)

    def _rewrite_rows(self, texts, rows, kept: tuple[str, ...], with_sources: bool):
        """Takes the texts `rows` `(R,)` apart: all of them by the simple rules, then the odd ones by all rules."""
        points, starts = self._decoded(tf.gather(texts, rows))
        with_origins = with_sources or self._rules.is_mediapipe
        characters = self._rules_of_characters.look_up(points, with_origins=with_origins)
        if kept:
            characters = self._rules_of_characters.with_special_tokens(characters, points.flat_values, kept)
        odd = odd_texts(characters)

        def write_odd():
            mended = self._rules_of_characters.by_odd_rules(characters.texts(odd))
            odd_strings, odd_writing = self._written(mended, starts.flat_values)
            rewritten = tf.tensor_scatter_nd_update(strings, odd[:, tf.newaxis], odd_strings)
            return rewritten, writing.followed_by(odd_writing) if with_sources else ()

        strings, writing = self._written(characters, starts.flat_values)
        strings, writing = tf.cond(tf.size(odd) > 0, write_odd, lambda: (strings, writing if with_sources else ()))
        if not with_sources:
            return strings, ()
        original_row_starts = tf.cast(points.row_starts(), tf.int32)
        places = tf.tensor_scatter_nd_update(
            tf.range(tf.size(rows)), odd[:, tf.newaxis], tf.size(rows) + tf.range(tf.size(odd))
        )
        sources = Sources(
            places=tf.tensor_scatter_nd_update(_nowhere(texts), rows[:, tf.newaxis], places),
            writing=writing,
            original_row_starts=tf.concat([original_row_starts, tf.gather(original_row_starts, odd)], axis=0),
            original_starts=starts.flat_values,
        )
        return strings, sources

    def _decoded(self, texts):
        """Returns code points, a line end after each text, and where they begin in bytes: `(R, points)` each."""
        if self._rules.is_mediapipe:
            texts = tf.strings.regex_replace(texts, r"\x00\C*", "")  # a string of C ends there
        points, starts = tf.strings.unicode_decode_with_offsets(
            tf.strings.join([texts, "\n"]), "UTF-8", replacement_char=self._not_utf8
        )
        return points, tf.cast(starts, tf.int32)

    def _written(self, characters: Characters, starts: tf.Tensor):
        """Returns texts `(R,)`, and with origins their `Writing`."""
        in_bytes = self._rules.is_mediapipe
        characters = self._rules_of_characters.with_added_tokens(characters)
        places = tf.gather(starts, characters.origins[0]) if in_bytes else None
        codes = self._rules_of_characters.without_long_words(characters.codes, places)
        stand_ins = codes & LOW_BITS
        ragged = tf.RaggedTensor.from_row_splits(stand_ins, characters.splits, validate=False)
        strings = tf.strings.unicode_encode(ragged, "UTF-8")
        if not characters.origins:
            return strings, ()
        # a stand-in takes three bytes or four; none lies between U+0080 and U+07FF
        lengths = 1 + 2 * tf.cast(stand_ins > 0x7F, tf.int32) + tf.cast(stand_ins > 0xFFFF, tf.int32)
        ends = tf.cumsum(lengths)
        row_starts = tf.gather(tf.concat([[0], ends], axis=0), characters.splits[:-1])
        return strings, Writing(row_starts, ends, *characters.origins)


def _pattern_of_plain(tokens: Iterable[str], escape: Callable[[str], str]) -> str:
    """Return a pattern of the tokens that can stand in plain text, which is ASCII, or of what they begin with.

    A text that holds only a beginning is taken apart in vain, and comes out the same. RE2 falls back to a slow search
    where a pattern is too large for its memory: 10,000 tokens took 3.4 s in 6,400 short texts.

    Args:
        tokens: in the alphabet of the text that is searched.
        escape: makes a pattern of characters.
    """
    tokens = [token for token in tokens if token.isascii()]
    beginnings: set[str] = set()
    for length in range(1, max(map(len, tokens), default=0) + 1):
        longer = {token[:length] for token in tokens}
        if length > 1 and sum(map(len, longer)) > _MAX_PATTERN_CHARACTERS:
            break
        beginnings = longer
    return "|".join(map(escape, sorted(beginnings)))


def _character_pattern(text: str) -> str:
    """Return the pattern of a normalized token in folded text; a space stands for all that plain text has."""
    return "".join(r"[\t\n\r ]" if character == " " else re.escape(character) for character in text)


def _nowhere(texts: tf.Tensor) -> tf.Tensor:
    return tf.fill(tf.shape(texts), -1)


def original_ranges(sources: Sources, rows: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor, *, unit: str):
    """Turns ranges of bytes in rewritten texts into ranges in the original ones.

    Args:
        sources: what the rewritten texts come from.
        rows: `(P,)` int64, which text of the batch each range lies in.
        starts, ends: `(P,)` int32, in bytes.
        unit: "characters" (code points) or "bytes" of UTF-8.

    Returns:
        `(P,)` int32 starts and ends. Ranges in texts that were not taken apart stay what they are.
    """
    writing = sources.writing

    def looked_up():
        places = tf.gather(sources.places, rows)
        moved = tf.where(places >= 0)
        places = tf.gather_nd(places, moved)
        row_starts = tf.gather(writing.row_starts, places)
        first_bytes = row_starts + tf.gather_nd(starts, moved)
        last_bytes = row_starts + tf.gather_nd(ends, moved) - 1
        firsts = tf.gather(writing.firsts, tf.searchsorted(writing.ends, first_bytes, side="right"))
        lasts = tf.gather(writing.lasts, tf.searchsorted(writing.ends, last_bytes, side="right"))
        if unit == "bytes":
            new_starts, new_ends = (tf.gather(sources.original_starts, place) for place in (firsts, lasts + 1))
        else:
            base = tf.gather(sources.original_row_starts, places)
            new_starts, new_ends = firsts - base, lasts + 1 - base
        return (
            tf.tensor_scatter_nd_update(starts, moved, new_starts),
            tf.tensor_scatter_nd_update(ends, moved, new_ends),
        )

    return tf.cond(tf.size(writing.row_starts) > 0, looked_up, lambda: (starts, ends))
