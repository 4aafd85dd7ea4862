"""How often each word of a text occurs, in bounded memory, on one core or several, always with the same result.

The text is cut into blocks of fixed size, blocks are counted by whoever is free, and the counts are
added up in the order of the text: so the number of workers changes nothing but the time.
"""

import collections
import dataclasses
import functools
import itertools
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from tokenizers import normalizers, pre_tokenizers

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.pipelines.process_pool import map_in_order
from bert_keras.pipelines.text.token_splitter import TokenSplitter

MAX_WORDS = 1_000_000  # of 8 letters each they take 0.9 GB, most of it in the trainer; 33 MB of novels have 55,000
MAX_WORD_LENGTH = 200  # characters; Google's tokenizer reads longer words as [UNK], so no token is learnt from them
_LONG_WORD_LENGTH = 100  # as Hugging Face's tokenizer and ours read longer ones as [UNK]

_LOG = logging.getLogger(__name__)
_BLOCK_CHARACTERS = 1 << 20  # part of the result where words are forgotten
_CACHED_WORDS = 1 << 16  # about 15 MB a worker
_ASCII_WORD = re.compile("[0-9A-Za-z]+|[!-/:-@[-`{-~]")  # BERT takes every other sign of ASCII for punctuation


@dataclasses.dataclass(frozen=True)
class WordCounts:
    """How often each word occurs.

    Attributes:
        counts: the words that are held, with their counts.
        num_words: words that were read, each occurrence counted.
        num_characters: characters that were read, before anything was folded, white space left out.
        characters: those of them beyond ASCII, with their counts.
        num_long: characters of words that `BertTokenizer` reads as [UNK] for their length, unless it is told otherwise.
        num_forgotten: how many of those were forgotten for want of room.
        most_forgotten: no word lost more occurrences than this.
        num_workers: processes that counted; 1 is this one, for a text of one block whatever was asked for.
    """

    counts: dict[str, int]
    num_words: int
    num_characters: int
    characters: dict[str, int]
    num_long: int
    num_forgotten: int
    most_forgotten: int
    num_workers: int = dataclasses.field(default=1, compare=False)


class Splitting(NamedTuple):
    """How text is split into words, as the arguments of `count_words` say."""

    lowercase: bool = True
    strip_accents: bool | None = None
    tokenize_chinese_chars: bool = True
    special_tokens: tuple[str, ...] = ()


class BlockCounts(NamedTuple):
    """What a block of text holds; see `WordCounts`."""

    words: collections.Counter[str]
    num_characters: int
    characters: collections.Counter[str]
    num_long: int


def count_words(
    sentences: Iterable[str],
    *,
    lowercase: bool = True,
    strip_accents: bool | None = None,
    tokenize_chinese_chars: bool = True,
    special_tokens: Sequence[str] = (),
    max_words: int = MAX_WORDS,
    num_workers: int = 1,
) -> WordCounts:
    """Counts the words as BERT splits them: normalized, cut at white space and around each punctuation mark.

    Words of more than 200 characters are left out. When more than `max_words` distinct ones have been
    seen, the rarest are forgotten until half as many are left, of equally rare ones those seen last.

    Args:
        sentences: the text, read once, in this process.
        lowercase: fold case first.
        strip_accents: strip accents first. None: as `lowercase`.
        tokenize_chinese_chars: whether each Chinese character is a word.
        special_tokens: tokens of your own, which are no words and are left out.
        max_words: distinct words held, plus those of one block of a million characters.
        num_workers: processes that count. With more than one, a script must hold its work under
            `if __name__ == "__main__":`, since each worker imports it.

    Raises:
        InputError: a worker could not start.
    """
    blocks = _blocks(sentences)
    first = list(itertools.islice(blocks, 2))
    blocks = itertools.chain(first, blocks)
    splitting = Splitting(lowercase, strip_accents, tokenize_chinese_chars, tuple(special_tokens))
    if len(first) < 2:
        num_workers = 1
    keyed_blocks = ((None, block) for block in blocks)
    results = map_in_order(keyed_blocks, _make_counter, (splitting,), num_workers=num_workers, task="counts words")
    counted = (block_counts for _, block_counts in results)
    return dataclasses.replace(_sum_of(counted, max_words), num_workers=num_workers)


def _sum_of(counted: Iterable[BlockCounts], max_words: int) -> WordCounts:
    counts: collections.Counter[str] = collections.Counter()
    characters: collections.Counter[str] = collections.Counter()
    num_words = num_characters = num_long = num_forgotten = most_forgotten = 0
    for block in counted:
        num_words += block.words.total()
        num_characters += block.num_characters
        num_long += block.num_long
        counts.update(block.words)
        characters.update(block.characters)
        if len(counts) > max_words:
            held = counts.total()
            most_forgotten += _forget_rarest(counts, keep=max(max_words // 2, 1))
            num_forgotten += held - counts.total()
    if num_forgotten:
        _LOG.warning(
            "there was room for %s distinct words, so %s of %s occurrences were forgotten, those of the rarest "
            "words: none lost more than %s",
            *(f"{n:,}" for n in (max_words, num_forgotten, num_words, most_forgotten)),
        )
    return WordCounts(counts, num_words, num_characters, characters, num_long, num_forgotten, most_forgotten)


def _forget_rarest(counts: collections.Counter[str], keep: int) -> int:
    """Deletes all but the `keep` most frequent words, and returns the highest count that was deleted."""
    room = keep
    how_many = collections.Counter(counts.values())
    for threshold in sorted(how_many, reverse=True):
        if how_many[threshold] > room:
            break
        room -= how_many[threshold]
    equals = itertools.islice((word for word, count in counts.items() if count == threshold), room, None)
    for word in [*equals, *(word for word, count in counts.items() if count < threshold)]:
        del counts[word]
    return threshold


def _blocks(sentences: Iterable[str]) -> Iterator[list[str]]:
    """Yields the sentences in blocks of a million characters and the rest of a sentence.

    Lists, not long strings: with those a worker grew from 45 to 108 MB over 1.4 GB, fragments of its heap.
    """
    block, length = [], 0
    for sentence in sentences:
        _check_unicode(sentence)
        block.append(sentence)
        length += len(sentence) + 1
        if length >= _BLOCK_CHARACTERS:
            yield block
            block, length = [], 0
    yield block


def _check_unicode(sentence: str) -> None:
    """Raise `InputError` if a sentence holds half a surrogate pair, which no file can, but a Python string."""
    try:
        sentence.isascii() or sentence.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"the sentence {quote(sentence)} holds half a surrogate pair, which UTF-8 cannot hold: repair the text"
        ) from None


class _WordCounter:
    """Counts words as BERT splits them, block by block.

    Hugging Face's splitting takes 6 us a word, so each distinct word of a block is split once, plain ASCII by a
    pattern that says the same in 0.6 us, and of the others those that were split lately are kept.
    """

    def __init__(self, splitting: Splitting):
        self._lowercase = splitting.lowercase
        self._normalizer = normalizers.BertNormalizer(
            lowercase=splitting.lowercase,
            strip_accents=splitting.strip_accents,
            handle_chinese_chars=splitting.tokenize_chinese_chars,
        )
        self._special = TokenSplitter(splitting.special_tokens) if splitting.special_tokens else None
        self._pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        self._split_other = functools.lru_cache(_CACHED_WORDS)(self._split_any)

    def count(self, block: list[str]) -> BlockCounts:
        words: collections.Counter[str] = collections.Counter()
        characters: collections.Counter[str] = collections.Counter()
        raw_words = collections.Counter(itertools.chain.from_iterable(map(str.split, block)))
        if self._special is not None:
            raw_words = self._without_special_tokens(raw_words)
        num_long = 0
        for raw_word, count in raw_words.items():
            for word in self._split(raw_word):
                if len(word) <= MAX_WORD_LENGTH:
                    words[word] += count
                if len(word) > _LONG_WORD_LENGTH:
                    num_long += len(word) * count
            if not raw_word.isascii():
                for character in raw_word:
                    if character > "\x7f":
                        characters[character] += count
        num_characters = sum(len(raw_word) * count for raw_word, count in raw_words.items())
        return BlockCounts(words, num_characters, characters, num_long)

    def _without_special_tokens(self, raw_words: collections.Counter[str]) -> collections.Counter[str]:
        left: collections.Counter[str] = collections.Counter()
        for raw_word, count in raw_words.items():
            for part in self._special.split(raw_word):
                left[part] += count
        return left

    def _split(self, raw_word: str) -> list[str]:
        if raw_word.isascii() and raw_word.isprintable():
            return _ASCII_WORD.findall(raw_word.lower() if self._lowercase else raw_word)
        return self._split_other(raw_word)

    def _split_any(self, raw_word: str) -> list[str]:
        return [word for word, _ in self._pre_tokenizer.pre_tokenize_str(self._normalizer.normalize_str(raw_word))]


def _make_counter(splitting: Splitting, *, num_threads: int | None) -> Callable[[list[str]], BlockCounts]:
    """Return the function that counts a block, for `map_in_order`. Counting has one thread in any case."""
    return _WordCounter(splitting).count
