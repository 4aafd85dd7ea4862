"""The parts of a new WordPiece vocabulary: its first tokens, its alphabet, and the tokens that training adds."""

import bisect
import collections
import dataclasses
import functools
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.data_quality import compute_share
from bert_keras.pipelines.corpus.text_lines import NOT_TEXT
from bert_keras.pipelines.text.vocabulary import MAX_TOKEN_BYTES, SPECIAL_TOKENS, is_too_long

_BLOCK_WORDS = 1000  # words per string for the trainer, which queues 256; 10,000 take 48 MB more and as much time
_REPORT_WORDS = 100_000
MAX_SIZE = 10_000_000  # ten times the largest published vocabulary; the trainer allocates memory for all tokens first
_MAX_PROBLEMS = 10  # in one message

# Hugging Face's and Google's trainers have the 1,000 most frequent characters, too few for Chinese: 35,000 characters
# of news have 2,140 different ones. SentencePiece has as many as cover 99.95 % of the text.
_MIN_CHARACTERS = 1000
_COVERAGE = 0.9995


def make_leading_tokens(special_tokens: Sequence[str] = (), num_unused: int = 0, *, size: int = MAX_SIZE) -> list[str]:
    """Return the first tokens: `[PAD]`, the unused tokens, `[UNK] [CLS] [SEP] [MASK]`, then your own special tokens.

    This is Google's order: with 99 unused tokens, `[UNK]` to `[MASK]` have the ids of its models, 100 to 103.

    Args:
        special_tokens: your own special tokens.
        num_unused: the number of unused tokens `[unused0]`, `[unused1]`, ...
        size: the size of the vocabulary.

    Raises:
        InputError: a special token is empty, has white space, is too long, or is a duplicate (the message lists the
            first ten problems); or the vocabulary has no room for other tokens.
    """
    if size > MAX_SIZE:
        raise InputError(f"a vocabulary of {size:,} tokens was asked for; expected at most {MAX_SIZE:,}: lower --size")
    num_leading = len(SPECIAL_TOKENS) + num_unused + len(special_tokens)
    if num_leading >= size:
        raise InputError(
            f"a vocabulary of {size:,} tokens has no room after {num_leading:,} special and unused tokens; "
            "expected a larger size: raise --size"
        )
    pad, *others = SPECIAL_TOKENS
    tokens = dict.fromkeys([pad, *(f"[unused{number}]" for number in range(num_unused)), *others])
    problems = []
    for token in special_tokens:
        problems += _find_problems(token, tokens)
        tokens[token] = None
    if problems:
        more = [f"and {len(problems) - _MAX_PROBLEMS:,} more"] if len(problems) > _MAX_PROBLEMS else []
        raise InputError("; ".join([*problems[:_MAX_PROBLEMS], *more]))
    return list(tokens)


def _find_problems(token: str, tokens: Collection[str]) -> Iterator[str]:
    """Yield the problem of a special token that follows `tokens`, if it has one."""
    if token.split() != [token]:
        yield f"the special token {quote(token)} is empty or has white space; expected a token such as [E1]"
    elif is_too_long(token):
        yield (
            f"the special token {quote(token)} has {len(token):,} characters; expected at most {MAX_TOKEN_BYTES}, "
            f"or {MAX_TOKEN_BYTES // 4} outside ASCII: choose a shorter one"
        )
    elif NOT_TEXT.search(token):
        yield f"the special token {quote(token)} is not UTF-8; expected a token such as [E1]"
    elif token in tokens:
        yield (
            f"the special token {quote(token)} is a duplicate: give each token once, without {' '.join(SPECIAL_TOKENS)}"
        )


@dataclasses.dataclass(frozen=True)
class VocabularySettings:
    """The settings of a new vocabulary.

    Attributes:
        size: the maximum number of tokens.
        min_frequency: the number of occurrences that a pair of tokens needs to be merged.
        alphabet_size: the number of characters, whether they fit or not. None: see `choose_alphabet`.
        leading: the first tokens, from `make_leading_tokens`.
        tokenize_chinese_chars: whether each Chinese character is a word, so that it never continues one.
    """

    size: int
    min_frequency: int = 2
    alphabet_size: int | None = None
    leading: Sequence[str] = SPECIAL_TOKENS
    tokenize_chinese_chars: bool = True


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


def choose_alphabet(words: Mapping[str, int], settings: VocabularySettings) -> Alphabet:
    """Choose the alphabet of a vocabulary: the most frequent characters of the text.

    Each character is one token, and a character that can continue a word is a second one, with "##". By default the
    alphabet has 1,000 characters, or as many as cover 99.95 % of the text, or as many as fit. Characters have priority
    over longer tokens, because each word with a character outside the alphabet is [UNK]: in generated Korean with
    `size=3000`, 6.7 % of the tokens with 1,000 characters, and 0.5 % with 1,497.

    Args:
        words: the number of occurrences of each word.
        settings: the settings of the vocabulary.
    """
    counts: collections.Counter[str] = collections.Counter()
    for word, count in words.items():
        for character in word:
            counts[character] += count
    by_frequency = sorted(counts, key=lambda character: (-counts[character], character))
    num_covered = [0, *itertools.accumulate(counts[character] for character in by_frequency)]
    num_needed = bisect.bisect_left(num_covered, _COVERAGE * num_covered[-1])
    candidates = by_frequency[: max(num_needed, _MIN_CHARACTERS)]
    tokens = [_make_tokens(character, settings.tokenize_chinese_chars) for character in candidates]
    num_continuing = [0, *itertools.accumulate(len(own_tokens) - 1 for own_tokens in tokens)]
    leading = set(settings.leading)
    num_new = [len({*own_tokens} - leading) for own_tokens in tokens]
    num_tokens = [*itertools.accumulate(num_new, initial=len(settings.leading))]
    alphabet_size = settings.alphabet_size
    if alphabet_size is None:
        alphabet_size = max(bisect.bisect_right(num_tokens, settings.size) - 1, 1)
    chosen = by_frequency[:alphabet_size]
    coverage = compute_share(num_covered[len(chosen)], num_covered[-1])
    size_needed = num_tokens[num_needed] + 2 * num_continuing[num_needed]
    return Alphabet(sorted(chosen), coverage, num_needed, size_needed)


def _make_tokens(character: str, tokenize_chinese_chars: bool) -> list[str]:
    """Return the tokens of a character: itself and, if it can be inside a word, the token that continues one.

    Punctuation, and by default Chinese characters, are separate words.
    """
    normalizer, splitter = _make_splitter(tokenize_chinese_chars)
    continues = len(splitter.pre_tokenize_str(normalizer.normalize_str(f"a{character}"))) == 1
    return [character, f"##{character}"] if continues else [character]


@functools.cache
def _make_splitter(tokenize_chinese_chars: bool) -> tuple[normalizers.BertNormalizer, pre_tokenizers.BertPreTokenizer]:
    normalizer = normalizers.BertNormalizer(lowercase=False, handle_chinese_chars=tokenize_chinese_chars)
    return normalizer, pre_tokenizers.BertPreTokenizer()


def train_vocabulary(
    words: Mapping[str, int],
    alphabet: Sequence[str],
    settings: VocabularySettings,
    progress: Callable[[int, int], None] | None = None,
) -> list[str]:
    """Learn a vocabulary from the number of occurrences of each word.

    Hugging Face's trainer numbers "##a", "##b", ... in the order of a hash map, which differs in each run, and breaks
    ties by these numbers. Here they are numbered before it starts.

    Args:
        words: the counts of `count_words`.
        alphabet: the characters of the vocabulary, sorted, from `choose_alphabet`.
        settings: the settings of the vocabulary.
        progress: called with the number of words that the trainer has received, counting each occurrence, and the
            number of all words.

    Returns:
        The tokens in the order of their ids.

    Raises:
        InputError: there are no words, or the alphabet does not fit into `size` tokens.
    """
    if not words:
        raise InputError("there is no text to learn a vocabulary from: name files with words")
    tokens = [_make_tokens(character, settings.tokenize_chinese_chars) for character in alphabet]
    continuing = [token for own_tokens in tokens for token in own_tokens[1:]]
    first_tokens = list(dict.fromkeys([*settings.leading, *alphabet, *continuing]))
    if len(first_tokens) > settings.size:
        raise InputError(
            f"a vocabulary of {settings.size:,} tokens has no room for the text's alphabet of {len(alphabet):,} "
            f"characters, which takes {len(first_tokens):,} tokens with the special tokens: raise --size to "
            f"{len(first_tokens):,} or more, or ask for a smaller alphabet (--alphabet)"
        )
    known = set(alphabet)  # other words are always [UNK], and single characters have nothing to merge
    mergeable = {word: count for word, count in words.items() if len(word) > 1 and known.issuperset(word)}
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=settings.size,
        min_frequency=settings.min_frequency,
        show_progress=False,
        special_tokens=first_tokens,
    )
    tokenizer.train_from_iterator(_join_words(mergeable, progress), trainer)
    ids = tokenizer.get_vocab()
    # a repeated clause of a language without spaces becomes a token of up to 200 characters, which no tokenizer accepts
    return [token for token in sorted(ids, key=ids.__getitem__) if not is_too_long(token)]


def _join_words(words: Mapping[str, int], progress: Callable[[int, int], None] | None) -> Iterator[str]:
    """Yield each word as often as it was counted, many words per string, because the trainer accepts no counts.

    This takes 0.2 us per word and core, about a third of the total time, however large the text is.
    """
    total, done, reported, block = sum(words.values()), 0, 0, []
    for word, count in words.items():
        for start in range(0, count, _BLOCK_WORDS):
            block += [word] * min(count - start, _BLOCK_WORDS)
            if len(block) >= _BLOCK_WORDS:
                yield " ".join(block)
                done, block = done + len(block), []
                if progress is not None and done >= reported + _REPORT_WORDS:
                    progress(done, total)
                    reported = done
    if progress is not None:
        progress(total, total)
    yield " ".join(block)
