"""Counting the words of a text, in bounded memory, on one core or several, always with the same result.

The text is split into blocks of fixed size, workers count blocks, and the counts are added up in the order of the text,
so that the number of workers only changes the time.
"""

import collections
import dataclasses
import functools
import itertools
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from tokenizers import normalizers, pre_tokenizers

from bert_keras.pipelines.corpus.text_lines import encode_sentence
from bert_keras.pipelines.process_pool import map_in_order
from bert_keras.pipelines.text.vocabulary import TokenSplitter

MAX_WORDS = 1_000_000  # with 8 letters each they take 0.9 GB, mostly in the trainer; 33 MB of novels have 55,000
MAX_WORD_LENGTH = 200  # characters; longer words are [UNK] in Google's tokenizer, so no token is learned from them
_LONG_WORD_LENGTH = 100  # longer words are [UNK] in Hugging Face's tokenizer and in ours

_LOG = logging.getLogger(__name__)
_BLOCK_CHARACTERS = 1 << 20  # affects which words are forgotten
_CACHED_WORDS = 1 << 16  # about 15 MB per worker
_ASCII_WORD = re.compile("[0-9A-Za-z]+|[!-/:-@[-`{-~]")  # every other character of ASCII is punctuation for BERT


@dataclasses.dataclass
class WordCounts:
    """The number of occurrences of each word of a text, or of one block of it.

    Attributes:
        counts: the count of each word in memory, keyed by word.
        characters: the count of each character beyond ASCII.
        num_characters: number of characters before normalization, without white space.
        num_long: number of characters in words that are so long that `BertTokenizer` makes them [UNK] by default.
        num_forgotten: number of words, counting each occurrence, that were forgotten to save memory.
        most_forgotten: an upper bound of the occurrences that one word lost.
        num_workers: number of processes that counted; always 1 for a text of one block.
    """

    counts: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    characters: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    num_characters: int = 0
    num_long: int = 0
    num_forgotten: int = 0
    most_forgotten: int = 0
    num_workers: int = dataclasses.field(default=1, compare=False)

    @property
    def num_words(self) -> int:
        """Number of words, counting each occurrence."""
        return self.counts.total() + self.num_forgotten


class Splitting(NamedTuple):
    """How text is split into words; see the arguments of `learn_vocabulary`. Special tokens are not counted."""

    lowercase: bool = True
    strip_accents: bool | None = None
    tokenize_chinese_chars: bool = True
    special_tokens: tuple[str, ...] = ()


DEFAULT_SPLITTING = Splitting()


def count_words(
    sentences: Iterable[str],
    splitting: Splitting = DEFAULT_SPLITTING,
    *,
    max_words: int = MAX_WORDS,
    num_workers: int = 1,
) -> WordCounts:
    """Count the words as BERT splits them: normalized, split at white space and around each punctuation mark.

    Words of more than 200 characters are left out. When there are more than `max_words` distinct words, the rarest are
    forgotten until half as many are left; of equally rare words, the last ones are.

    Args:
        sentences: the text, read once, in this process.
        splitting: how the text is split into words.
        max_words: maximum number of distinct words in memory, plus those of one block of a million characters.
        num_workers: number of processes that count. A script with more than one needs `if __name__ == "__main__":`,
            because each worker imports the script.

    Raises:
        InputError: a worker process ended early, or a sentence has half a surrogate pair.
    """
    blocks = _make_blocks(sentences)
    first = list(itertools.islice(blocks, 2))
    total = WordCounts(num_workers=num_workers if len(first) == 2 else 1)
    keyed_blocks = ((None, block) for block in itertools.chain(first, blocks))
    workers = {"num_workers": total.num_workers, "task": "counts words"}
    for _, block in map_in_order(keyed_blocks, _make_counter, (splitting,), **workers):
        total.num_characters += block.num_characters
        total.num_long += block.num_long
        total.counts.update(block.counts)
        total.characters.update(block.characters)
        if len(total.counts) > max_words:
            num_before = total.counts.total()
            total.most_forgotten += _forget_rarest(total.counts, keep=max(max_words // 2, 1))
            total.num_forgotten += num_before - total.counts.total()
    if total.num_forgotten:
        _LOG.warning(
            "the text has more than %s distinct words: %s of %s words were forgotten, of the rarest at most %s each",
            *(f"{n:,}" for n in (max_words, total.num_forgotten, total.num_words, total.most_forgotten)),
        )
    return total


def _forget_rarest(counts: collections.Counter[str], keep: int) -> int:
    """Delete all but the `keep` most frequent words, and return the highest deleted count."""
    room = keep
    num_words = collections.Counter(counts.values())
    for threshold in sorted(num_words, reverse=True):
        if num_words[threshold] > room:
            break
        room -= num_words[threshold]
    equals = itertools.islice((word for word, count in counts.items() if count == threshold), room, None)
    for word in [*equals, *(word for word, count in counts.items() if count < threshold)]:
        del counts[word]
    return threshold


def _make_blocks(sentences: Iterable[str]) -> Iterator[list[str]]:
    """Yield lists of whole sentences with a million characters or more.

    With strings instead of lists, heap fragmentation increased a worker from 45 to 108 MB over 1.4 GB of text.
    """
    block, length = [], 0
    for sentence in sentences:
        sentence.isascii() or encode_sentence(sentence)  # which raises an error
        block.append(sentence)
        length += len(sentence) + 1
        if length >= _BLOCK_CHARACTERS:
            yield block
            block, length = [], 0
    yield block


class _WordCounter:
    """Count words as BERT splits them, block by block.

    Hugging Face's splitting takes 6 us per word. So each distinct word of a block is split once; words of printable
    ASCII are split by an equivalent regular expression in 0.6 us, and recent other words are cached.
    """

    def __init__(self, splitting: Splitting):
        self._lowercase = splitting.lowercase
        splitter = pre_tokenizers.BertPreTokenizer()
        normalizer = normalizers.BertNormalizer(
            lowercase=splitting.lowercase,
            strip_accents=splitting.strip_accents,
            handle_chinese_chars=splitting.tokenize_chinese_chars,
        )
        self._special = TokenSplitter(splitting.special_tokens) if splitting.special_tokens else None
        self._split_other = functools.lru_cache(_CACHED_WORDS)(
            lambda word: [part for part, _ in splitter.pre_tokenize_str(normalizer.normalize_str(word))]
        )

    def count(self, block: list[str]) -> WordCounts:
        """Count the words and characters of a block."""
        found = WordCounts()
        raw_words = collections.Counter(itertools.chain.from_iterable(map(str.split, block)))
        if self._special is not None:
            raw_words = self._remove_special_tokens(raw_words)
        for raw_word, count in raw_words.items():
            found.num_characters += len(raw_word) * count
            for word in self._split(raw_word):
                if len(word) <= MAX_WORD_LENGTH:
                    found.counts[word] += count
                if len(word) > _LONG_WORD_LENGTH:
                    found.num_long += len(word) * count
            if not raw_word.isascii():
                for character in raw_word:
                    if character > "\x7f":
                        found.characters[character] += count
        return found

    def _remove_special_tokens(self, raw_words: collections.Counter[str]) -> collections.Counter[str]:
        parts: collections.Counter[str] = collections.Counter()
        for raw_word, count in raw_words.items():
            for part in self._special.split(raw_word):
                parts[part] += count
        return parts

    def _split(self, raw_word: str) -> list[str]:
        if raw_word.isascii() and raw_word.isprintable():
            return _ASCII_WORD.findall(raw_word.lower() if self._lowercase else raw_word)
        return self._split_other(raw_word)


def _make_counter(splitting: Splitting, *, num_threads: int | None) -> Callable[[list[str]], WordCounts]:
    """Return the function that counts a block, for `map_in_order`. It always has one thread."""
    return _WordCounter(splitting).count
