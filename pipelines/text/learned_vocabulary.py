"""`bk.learn_vocabulary`: text in, a WordPiece vocabulary and its settings out."""

import bisect
import collections
import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from bert_keras.checks import check_integer
from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.data_quality import (
    compute_dotless_share,
    compute_share,
    find_vocabulary_warnings,
    measure_stripped_characters,
)
from bert_keras.pipelines.corpus.default_corpus import read_python_lines
from bert_keras.pipelines.corpus.text_sources import Names, TextSource, find_sources, read_lines
from bert_keras.pipelines.corpus.word_counts import MAX_WORDS, Splitting, WordCounts, count_words
from bert_keras.pipelines.text.text_rules import TextRules
from bert_keras.pipelines.text.vocabulary import (
    SPECIAL_TOKENS,
    is_too_long,
    make_leading_tokens,
)
from bert_keras.pipelines.text.vocabulary_settings import get_settings_path, write_vocabulary_and_settings
from bert_keras.publishing import check_writable_file

Progress = Callable[[str, int, int | None], None]


_BLOCK_WORDS = 1000  # words per string for the trainer, which queues 256; 10,000 take 48 MB more and as much time
_REPORT_WORDS = 100_000

# Hugging Face's and Google's trainers have the 1,000 most frequent characters, too few for Chinese: 35,000 characters
# of news have 2,140 different ones. SentencePiece has as many as cover 99.95 % of the text.
_MIN_CHARACTERS = 1000
_COVERAGE = 0.9995


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


@dataclasses.dataclass(frozen=True)
class LearnedVocabulary:
    """A vocabulary learned from text, and how well it fits the text.

    Attributes:
        tokens: the tokens in the order of their ids.
        num_words: number of words in the text, counting each occurrence.
        num_distinct_words: number of distinct words that the vocabulary was learned from.
        num_forgotten: number of words, counting each occurrence, that were forgotten beyond `max_words`.
        num_workers: number of processes that counted words.
        statistics: the statistics in the settings file, such as `alphabet_coverage`, keyed by name.
        warnings: sentences about a text or settings that probably differ from what you meant, each with a fix.
    """

    tokens: list[str] = dataclasses.field(repr=False)
    num_words: int
    num_distinct_words: int
    num_forgotten: int
    num_workers: int
    statistics: dict[str, object]
    warnings: list[str]


def learn_vocabulary(
    text: Names | Sequence[TextSource] | None = None,
    out: str | os.PathLike | None = None,
    *,
    sentences: Iterable[str] | None = None,
    field: str = "text",
    size: int = 30522,
    min_frequency: int = 2,
    lowercase: bool = True,
    strip_accents: bool | None = None,
    tokenize_chinese_chars: bool = True,
    special_tokens: Sequence[str] = (),
    num_unused: int = 0,
    alphabet_size: int | None = None,
    max_words: int = MAX_WORDS,
    num_workers: int = 1,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> LearnedVocabulary:
    """Learn a WordPiece vocabulary from text, as `bert-keras learn-vocab` does.

    The vocabulary starts with the special tokens and the alphabet. Longer tokens are found by merging the most frequent
    pairs of tokens (Sennrich et al. 2016), as in Hugging Face's `WordPieceTrainer`. The same text and options give the
    same vocabulary, byte for byte, for any number of workers.

    Args:
        text: the text, one sentence per line: files, folders, patterns such as "books/**/*.txt", or "-" for standard
            input; gzip and JSON lines are read too. None: the English prose that ships with Python.
        out: the vocabulary file to write, "vocab.txt" for example. The settings of its tokenizer are written next to
            it, as "vocab.tokenizer_config.json". None: nothing is written.
        sentences: sentences in memory, in place of `text`; read once, and only distinct words are held in memory.
        field: the field of a JSON record with the text.
        size: the maximum number of tokens, at most 10 million. A small text can give fewer.
        min_frequency: the number of occurrences that a pair of tokens needs to be merged.
        lowercase: fold case and strip accents first ("uncased" BERT).
        strip_accents: strip accents and non-spacing vowel signs first. None: as `lowercase`.
        tokenize_chinese_chars: whether each Chinese character is a word.
        special_tokens: your own tokens that are never split, "[E1]" for example.
        num_unused: the number of tokens `[unused0]`, `[unused1]`, ... for later use.
        alphabet_size: the number of characters, the most frequent ones; words with others become [UNK]. None: 1,000,
            or as many as cover 99.95 % of the text, or as many as fit.
        max_words: the maximum number of distinct words in memory (0.9 GB per million). Beyond it the rarest words are
            forgotten.
        num_workers: the number of processes that count words. A script with more than one needs
            `if __name__ == "__main__":`.
        overwrite: replace `out` if it exists.
        progress: called with "reading", the bytes read so far and the bytes of all files (None if unknown); then with
            "learning", the number of words processed and the number of all words.

    Returns:
        The tokens, with statistics of the text and warnings about it.

    Raises:
        InputError: the text cannot be read or has no words, `out` exists or cannot be written, a setting is invalid, or
            the special tokens or the alphabet do not fit into `size` tokens.

    Example:
        >>> learned = bk.learn_vocabulary(out="my/vocab.txt", sentences=["low lower lowest"] * 3, size=20)
        >>> learned.tokens[:5]
        ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]']
    """
    counts = {"size": size, "min_frequency": min_frequency, "max_words": max_words, "num_workers": num_workers}
    for name, value in (counts if alphabet_size is None else counts | {"alphabet_size": alphabet_size}).items():
        check_integer(name, value)
    check_integer("num_unused", num_unused, 0)
    rules = TextRules(lowercase=lowercase, strip_accents=strip_accents, tokenize_chinese_chars=tokenize_chinese_chars)
    leading = make_leading_tokens(special_tokens, num_unused, size=size)
    settings = VocabularySettings(size, min_frequency, alphabet_size, leading, tokenize_chinese_chars)
    words = count_words(
        _read_text(text, out, sentences, field, overwrite, progress and functools.partial(progress, "reading")),
        Splitting(lowercase, strip_accents, tokenize_chinese_chars, tuple(special_tokens)),
        max_words=max_words,
        num_workers=num_workers,
    )
    alphabet = choose_alphabet(words.counts, settings)
    learning = progress and functools.partial(progress, "learning")
    tokens = train_vocabulary(words.counts, alphabet.characters, settings, learning)
    statistics = _summarize(words, alphabet, len(tokens), settings, rules)
    if out is not None:
        write_vocabulary_and_settings(out, tokens, rules, special_tokens=special_tokens, facts=statistics)
    return LearnedVocabulary(
        tokens,
        num_words=words.num_words,
        num_distinct_words=len(words.counts),
        num_forgotten=words.num_forgotten,
        num_workers=words.num_workers,
        statistics=statistics,
        warnings=list(find_vocabulary_warnings(statistics)),
    )


def _summarize(
    words: WordCounts, alphabet: Alphabet, num_tokens: int, settings: VocabularySettings, rules: TextRules
) -> dict[str, object]:
    """Return statistics of how well a vocabulary of `num_tokens` tokens fits its text."""
    stripped = {"stripped_share": 0.0, "stripped_scripts": {}, "hangul_share": 0.0}
    if rules.strip_accents:
        stripped = measure_stripped_characters(words.characters, words.num_characters)
    return {
        "vocabulary_size": num_tokens,
        "vocabulary_size_asked": settings.size,
        "min_frequency": settings.min_frequency,
        "alphabet_size": len(alphabet.characters),
        "alphabet_needed": alphabet.num_needed,
        "size_needed": alphabet.size_needed,
        "alphabet_coverage": alphabet.coverage,
        "long_word_share": compute_share(words.num_long, words.num_characters),
        "lowercase": rules.lowercase,
        "dotless_share": compute_dotless_share(words.characters, words.num_characters),
        **stripped,
    }


def _read_text(
    text: Names | Sequence[TextSource] | None,
    out: str | os.PathLike | None,
    sentences: Iterable[str] | None,
    field: str,
    overwrite: bool,
    progress: Callable[[int, int | None], None] | None,
) -> Iterable[str]:
    """Check that the text can be read and `out` be written, then return the lines of the text."""
    if text is not None and sentences is not None:
        raise InputError("text and sentences are both given; expected one of them: leave one out")
    sources = None if text is None else find_sources(text)
    if out is not None:
        paths = [source.path for source in sources or () if source.path is not None]
        for path in (out, get_settings_path(out)):
            check_writable_file(path, overwrite=overwrite, inputs=paths)
    if sentences is not None:
        return sentences
    return read_python_lines(progress) if sources is None else read_lines(sources, field=field, progress=progress)
