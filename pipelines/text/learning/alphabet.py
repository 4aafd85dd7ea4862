"""The alphabet of a vocabulary: the characters that are tokens."""

import bisect
import collections
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tokenizers import normalizers, pre_tokenizers

from bert_keras.pipelines.corpus.data_quality import compute_share
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS

# Hugging Face's and Google's trainers have the 1,000 most frequent characters, too few for Chinese: 35,000 characters
# of news have 2,140 different ones. SentencePiece has as many as cover 99.95 % of the text.
_MIN_CHARACTERS = 1000
_COVERAGE = 0.9995


class Alphabet(NamedTuple):
    """The characters of a vocabulary, each of which is a token.

    Attributes:
        characters: the most frequent characters of the text, sorted.
        coverage: their share of the text's characters. Words with other characters become [UNK].
        num_needed: the number of characters that cover 99.95 % of the text.
        size_needed: the size of a vocabulary with those characters and as much room for longer tokens.
    """

    characters: list[str]
    coverage: float
    num_needed: int
    size_needed: int


def choose_alphabet(
    words: Mapping[str, int],
    *,
    size: int,
    leading: Sequence[str] = SPECIAL_TOKENS,
    tokenize_chinese_chars: bool = True,
    alphabet_size: int | None = None,
) -> Alphabet:
    """Choose the alphabet of a vocabulary: the most frequent characters of the text.

    Each character is one token, and a character that can continue a word is a second one, with "##". By default the
    alphabet has 1,000 characters, or as many as cover 99.95 % of the text, or as many as fit. Characters have priority
    over longer tokens, because each word with a character outside the alphabet is [UNK]: in generated Korean with
    `size=3000`, 6.7 % of the tokens with 1,000 characters, and 0.5 % with 1,497.

    Args:
        words: the number of occurrences of each word.
        size: the size of the vocabulary.
        leading: the first tokens of the vocabulary, from `make_leading_tokens`.
        tokenize_chinese_chars: whether each Chinese character is a word.
        alphabet_size: the number of characters, whether they fit or not. None: the default.
    """
    counts: collections.Counter[str] = collections.Counter()
    for word, count in words.items():
        for character in word:
            counts[character] += count
    by_frequency = sorted(counts, key=lambda character: (-counts[character], character))
    num_covered = [0, *itertools.accumulate(counts[character] for character in by_frequency)]
    num_needed = bisect.bisect_left(num_covered, _COVERAGE * num_covered[-1])
    candidates, leading_set = by_frequency[: max(num_needed, _MIN_CHARACTERS)], set(leading)
    continues = [can_continue_word(character, tokenize_chinese_chars) for character in candidates]
    num_continuing = [0, *itertools.accumulate(continues)]
    num_new = [len({*_make_tokens(*pair)} - leading_set) for pair in zip(candidates, continues, strict=True)]
    num_tokens = [*itertools.accumulate(num_new, initial=len(leading))]
    if alphabet_size is None:
        alphabet_size = max(bisect.bisect_right(num_tokens, size) - 1, 1)
    chosen = by_frequency[:alphabet_size]
    coverage = compute_share(num_covered[len(chosen)], num_covered[-1])
    size_needed = num_tokens[num_needed] + 2 * num_continuing[num_needed]
    return Alphabet(sorted(chosen), coverage, num_needed, size_needed)


def can_continue_word(character: str, tokenize_chinese_chars: bool) -> bool:
    """Whether a character can be inside a word. Punctuation, and by default Chinese characters, are separate words."""
    normalizer, splitter = _make_splitter(tokenize_chinese_chars)
    return len(splitter.pre_tokenize_str(normalizer.normalize_str(f"a{character}"))) == 1


def _make_tokens(character: str, continues: bool) -> tuple[str, ...]:
    return (character, f"##{character}") if continues else (character,)


@functools.cache
def _make_splitter(tokenize_chinese_chars: bool) -> tuple[normalizers.BertNormalizer, pre_tokenizers.BertPreTokenizer]:
    normalizer = normalizers.BertNormalizer(lowercase=False, handle_chinese_chars=tokenize_chinese_chars)
    return normalizer, pre_tokenizers.BertPreTokenizer()
