"""`bk.learn_vocabulary`: text in, a WordPiece vocabulary and its settings out."""

import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Sequence

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
from bert_keras.pipelines.text.vocabulary_settings import get_settings_path, write_vocabulary_and_settings
from bert_keras.pipelines.text.vocabulary_training import (
    Alphabet,
    VocabularySettings,
    choose_alphabet,
    make_leading_tokens,
    train_vocabulary,
)
from bert_keras.publishing import check_writable_file

Progress = Callable[[str, int, int | None], None]


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
    statistics = summarize_vocabulary(words, alphabet, len(tokens), settings, rules)
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


def summarize_vocabulary(
    words: WordCounts, alphabet: Alphabet, num_tokens: int, settings: VocabularySettings, rules: TextRules
) -> dict[str, object]:
    """Return statistics of how well a vocabulary fits its text, for `find_vocabulary_warnings`.

    Args:
        words: the result of `count_words`.
        alphabet: the result of `choose_alphabet`.
        num_tokens: the number of tokens learned.
        settings: the settings of the vocabulary.
        rules: how the text was split into words.
    """
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
