"""WordPiece vocabularies: learnt from text with Hugging Face `tokenizers`, and kept as `vocab.txt`.

A vocabulary is a list of tokens; a token's id is its place in the list. "##" marks a
token that continues a word.
"""

import bisect
import collections
import functools
import itertools
import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.data_quality import (
    compute_dotless_share,
    compute_share,
    find_vocabulary_warnings,
    measure_stripped_characters,
)
from bert_keras.pipelines.corpus.text_lines import NOT_TEXT, read_vocabulary_lines
from bert_keras.pipelines.corpus.word_counts import MAX_WORDS, WordCounts, count_words
from bert_keras.publishing import publish_file

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

MAX_TOKEN_BYTES = 256  # tensorflow-text's; a character outside ASCII takes four at most
MAX_SIZE = 10_000_000  # ten times the largest published one; the trainer allocates for so many before it begins

_LOG = logging.getLogger(__name__)
# Characters of the alphabet. Hugging Face's and Google's trainers take the 1,000 most frequent ones, too few for
# Chinese: 35,000 characters of news have 2,140 different ones. SentencePiece takes as many as cover 99.95 %.
_ALPHABET = 1000
_ALPHABET_COVERAGE = 0.9995
_BLOCK_WORDS = (
    1000  # words handed to the trainer at a time, which queues 256 blocks: 10,000 take 48 MB more, no less time
)
_REPORT_WORDS = 100_000
_MAX_PROBLEMS = 10  # told in one message


def learn_vocabulary(
    sentences: Iterable[str],
    *,
    size: int,
    lowercase: bool = True,
    strip_accents: bool | None = None,
    tokenize_chinese_chars: bool = True,
    min_frequency: int = 2,
    special_tokens: Sequence[str] = (),
    num_unused: int = 0,
    alphabet_size: int | None = None,
    max_words: int = MAX_WORDS,
    num_workers: int = 1,
) -> list[str]:
    """Learns a WordPiece vocabulary from text: the special tokens, the alphabet, then the most useful tokens.

    The tokens are found by byte-pair merging of the most frequent neighbours (Sennrich et al. 2016),
    as Hugging Face's `WordPieceTrainer` does. The same text and options give the same vocabulary, byte
    for byte, whatever the number of workers.

    Args:
        sentences: the text, read once; only its distinct words are kept in memory.
        size: tokens wanted, all kinds together, 10 million at most. A small text can give fewer; it is never more.
        lowercase: fold case first ("uncased" BERT).
        strip_accents: strip accents and non-spacing vowel signs first. None: as `lowercase`.
        tokenize_chinese_chars: whether each Chinese character is a word.
        min_frequency: how often a pair of tokens must occur to be merged.
        special_tokens: tokens of your own that are never split, "[E1]" for example.
        num_unused: how many slots `[unused0]`, `[unused1]`, ... to keep for later (see `make_leading_tokens`).
        alphabet_size: how many characters to have, the most frequent ones. None: see `choose_alphabet`.
        max_words: distinct words kept in memory; beyond it the rarest are forgotten (see `count_words`).
        num_workers: processes that count words; more than one needs `if __name__ == "__main__":` in a script.

    Returns:
        The tokens in the order of their ids; `[PAD]` has id 0.

    Raises:
        InputError: there is no text, the alphabet asked for is larger than `size`, or the special tokens are no tokens
            or more than `size`.

    Example:
        >>> learn_vocabulary(["low lower lowest"] * 3, size=20)[:5]
        ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]']
    """
    leading = make_leading_tokens(special_tokens, num_unused, size=size)
    words = count_words(
        sentences,
        lowercase=lowercase,
        strip_accents=strip_accents,
        tokenize_chinese_chars=tokenize_chinese_chars,
        special_tokens=special_tokens,
        max_words=max_words,
        num_workers=num_workers,
    )
    splitting = {"leading": leading, "tokenize_chinese_chars": tokenize_chinese_chars}
    alphabet = choose_alphabet(words.counts, size=size, alphabet_size=alphabet_size, **splitting)
    vocabulary = vocabulary_of_words(
        words.counts,
        size=size,
        min_frequency=min_frequency,
        alphabet=alphabet.characters,
        **splitting,
    )
    strips = lowercase if strip_accents is None else strip_accents
    facts = summarize_vocabulary(
        words, alphabet, len(vocabulary), size=size, min_frequency=min_frequency, lowercase=lowercase, strips=strips
    )
    for warning in find_vocabulary_warnings(facts):
        _LOG.warning("%s", warning)
    return vocabulary


def make_leading_tokens(special_tokens: Sequence[str] = (), num_unused: int = 0, *, size: int = MAX_SIZE) -> list[str]:
    """Returns what a vocabulary starts with: `[PAD]`, the unused slots, `[UNK] [CLS] [SEP] [MASK]`, your own tokens.

    That is Google's order: 99 slots give the ids of its models, `[UNK]` 100 to `[MASK]` 103.

    Raises:
        InputError: a token is empty, holds white space, is too long, or stands there twice; the first ten are told at
            once. Or there is no room for them, and one token more, in a vocabulary of `size` tokens.
    """
    if size > MAX_SIZE:
        raise InputError(f"a vocabulary of {size:,} tokens was asked for; expected {MAX_SIZE:,} at most: ask for fewer")
    num_leading = len(SPECIAL_TOKENS) + num_unused + len(special_tokens)
    if num_leading >= size:
        raise InputError(
            f"a vocabulary of {size:,} tokens has no room beside {num_leading:,} special tokens and unused slots; "
            "expected more than these: raise --size"
        )
    pad, *others = SPECIAL_TOKENS
    tokens = dict.fromkeys([pad, *(f"[unused{slot}]" for slot in range(num_unused)), *others])
    problems = []
    for token in special_tokens:
        if token.split() != [token]:
            problems.append(
                f"the special token {quote(token)} is empty or holds white space; expected one such as [E1]"
            )
        elif len(token) + 3 * sum(not character.isascii() for character in token) > MAX_TOKEN_BYTES:
            problems.append(
                f"the special token {quote(token)} has {len(token):,} characters; expected at most {MAX_TOKEN_BYTES}, "
                f"or {MAX_TOKEN_BYTES // 4} outside ASCII: choose a shorter one"
            )
        elif NOT_TEXT.search(token):
            problems.append(f"the special token {quote(token)} is not UTF-8; expected one such as [E1]")
        elif token in tokens:
            problems.append(
                f"the special token {quote(token)} is there already: name each once, without {' '.join(SPECIAL_TOKENS)}"
            )
        tokens[token] = None
    if problems:
        more = [f"and {len(problems) - _MAX_PROBLEMS:,} more"] if len(problems) > _MAX_PROBLEMS else []
        raise InputError("; ".join([*problems[:_MAX_PROBLEMS], *more]))
    return list(tokens)


def vocabulary_of_words(
    words: Mapping[str, int],
    *,
    size: int,
    min_frequency: int = 2,
    leading: Sequence[str] = SPECIAL_TOKENS,
    alphabet: Sequence[str] | None = None,
    tokenize_chinese_chars: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> list[str]:
    """Learns a vocabulary from words and how often each occurs (see `learn_vocabulary`).

    Left alone, Hugging Face's trainer numbers "##a", "##b", ... in the order of a hash map, a new one in each
    run, and breaks ties by those numbers; here they are numbered before it starts.

    Args:
        words: what `count_words` counted.
        leading: the first tokens, as `make_leading_tokens` gives them.
        alphabet: the characters to have, sorted. None: those that `choose_alphabet` takes.
        tokenize_chinese_chars: whether each Chinese character is a word, so that none continues one.
        progress: told how many occurrences of words the trainer has taken so far, and of how many.
    """
    if not words:
        raise InputError("there is no text to learn a vocabulary from: name files that hold words")
    if alphabet is None:
        alphabet = choose_alphabet(
            words, size=size, leading=leading, tokenize_chinese_chars=tokenize_chinese_chars
        ).characters
    continuing = [f"##{character}" for character in alphabet if _continues(character, tokenize_chinese_chars)]
    first_tokens = list(dict.fromkeys([*leading, *alphabet, *continuing]))
    if len(first_tokens) > size:
        raise InputError(
            f"a vocabulary of {size:,} tokens cannot hold the text's alphabet of {len(alphabet):,} characters, which "
            f"takes {len(first_tokens):,} tokens with the special tokens: ask for {len(first_tokens):,} tokens or "
            "more, or for a smaller alphabet (--alphabet)"
        )
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, min_frequency=min_frequency, show_progress=False, special_tokens=first_tokens
    )
    tokenizer.train_from_iterator(_blocks(_mergeable(words, set(alphabet)), progress), trainer)
    ids = tokenizer.get_vocab()
    return sorted(ids, key=ids.__getitem__)


class Alphabet(NamedTuple):
    """The characters that a vocabulary has, each as a token.

    Attributes:
        characters: the most frequent characters of the text, sorted.
        coverage: their share of the text's characters; the words with others become [UNK].
        num_needed: how many characters cover 99.95 % of the text.
        size_needed: tokens of a vocabulary that has those and as much room for longer tokens.
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
    """Choose the alphabet of a vocabulary: the most frequent characters.

    A character takes a token, and one that can continue a word another one, with "##". By default there are 1,000, or
    as many as cover 99.95 % of the text, as far as there is room. They go before longer tokens, since each word with
    another character is [UNK]: of made-up Korean, `size` 3,000, 6.7 % of the tokens with 1,000 characters, 0.5 % with
    1,497.

    Args:
        words: what `count_words` counted.
        size: tokens wanted in all.
        leading: the first tokens, as `make_leading_tokens` gives them.
        tokenize_chinese_chars: whether each Chinese character is a word.
        alphabet_size: how many characters to have, whatever they take. None: the default.
    """
    counts: collections.Counter[str] = collections.Counter()
    for word, count in words.items():
        for character in word:
            counts[character] += count
    by_frequency = sorted(counts, key=lambda character: (-counts[character], character))
    covered = [0, *itertools.accumulate(counts[character] for character in by_frequency)]
    num_needed = bisect.bisect_left(covered, _ALPHABET_COVERAGE * covered[-1])
    wanted, known = by_frequency[: max(num_needed, _ALPHABET)], set(leading)
    continues = [_continues(character, tokenize_chinese_chars) for character in wanted]
    num_continuing = [0, *itertools.accumulate(continues)]
    tokens = [len({*_tokens_of(*character)} - known) for character in zip(wanted, continues, strict=True)]
    num_tokens = [*itertools.accumulate(tokens, initial=len(leading))]
    if alphabet_size is None:
        alphabet_size = max(bisect.bisect_right(num_tokens, size) - 1, 1)
    chosen = by_frequency[:alphabet_size]
    size_needed = num_tokens[num_needed] + 2 * num_continuing[num_needed]
    return Alphabet(sorted(chosen), compute_share(covered[len(chosen)], covered[-1]), num_needed, size_needed)


def _tokens_of(character: str, continues: bool) -> tuple[str, ...]:
    """Return the tokens that a vocabulary has for a character."""
    return (character, f"##{character}") if continues else (character,)


def summarize_vocabulary(
    words: WordCounts,
    alphabet: Alphabet,
    num_tokens: int,
    *,
    size: int,
    min_frequency: int,
    lowercase: bool,
    strips: bool,
) -> dict[str, object]:
    """Return how well a vocabulary fits its text, for `find_vocabulary_warnings`.

    Args:
        words: what `count_words` counted.
        alphabet: what `choose_alphabet` chose.
        num_tokens: how many tokens were learned.
        size: how many were asked for.
        min_frequency: how often neighbouring tokens had to occur to become one.
        lowercase: whether case was folded.
        strips: whether accents were stripped.
    """
    stripped = measure_stripped_characters(words.characters, words.num_characters) if strips else {}
    return {
        "vocabulary_size": num_tokens,
        "vocabulary_size_asked": size,
        "min_frequency": min_frequency,
        "alphabet_size": len(alphabet.characters),
        "alphabet_needed": alphabet.num_needed,
        "size_needed": alphabet.size_needed,
        "alphabet_coverage": alphabet.coverage,
        "long_word_share": compute_share(words.num_long, words.num_characters),
        "lowercase": lowercase,
        "dotless_share": compute_dotless_share(words.characters, words.num_characters),
        "stripped_share": 0.0,
        "stripped_scripts": {},
        "hangul_share": 0.0,
        **stripped,
    }


def _continues(character: str, tokenize_chinese_chars: bool) -> bool:
    """Whether the character can stand inside a word; punctuation is always a word of its own, Chinese as said."""
    normalizer, splitter = _splitting(tokenize_chinese_chars)
    return len(splitter.pre_tokenize_str(normalizer.normalize_str(f"a{character}"))) == 1


@functools.cache
def _splitting(tokenize_chinese_chars: bool) -> tuple[normalizers.BertNormalizer, pre_tokenizers.BertPreTokenizer]:
    normalizer = normalizers.BertNormalizer(lowercase=False, handle_chinese_chars=tokenize_chinese_chars)
    return normalizer, pre_tokenizers.BertPreTokenizer()


def _mergeable(words: Mapping[str, int], alphabet: set[str]) -> dict[str, int]:
    """Returns the words that have neighbours to merge, without those that can only become [UNK]."""
    return {word: count for word, count in words.items() if len(word) > 1 and alphabet.issuperset(word)}


def _blocks(words: Mapping[str, int], progress: Callable[[int, int], None] | None) -> Iterator[str]:
    """Yields every word as often as it was counted, many at a time: the trainer takes no counts.

    That is 0.2 us a word and core, some third of the whole time, however large the text.
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


def read_vocabulary(path: str | os.PathLike) -> list[str]:
    r"""Reads a `vocab.txt`: one token a line, its id the line's number from 0.

    Only "\n" ends a line, since tokens may hold other characters that Unicode calls line ends.
    Windows line ends, a byte order mark and blank lines at the end are mended, not reported.

    Raises:
        InputError: the file is missing, not UTF-8, has a blank line before its last token, the
            same token twice, or lacks one of `SPECIAL_TOKENS`; file and line are named.
    """
    tokens = [line.removesuffix("\n").removesuffix("\r") for line in read_vocabulary_lines(path)]
    while tokens and not tokens[-1]:
        tokens.pop()
    check_vocabulary(tokens, source=os.fspath(path))
    return tokens


def write_vocabulary(path: str | os.PathLike, tokens: Sequence[str]) -> None:
    """Writes a `vocab.txt` that `read_vocabulary` reads back.

    Raises:
        InputError: the tokens are not a vocabulary (see `check_vocabulary`).
    """
    check_vocabulary(tokens)
    with publish_file(path) as staging:
        staging.write_bytes(encode_vocabulary(tokens))


def encode_vocabulary(tokens: Sequence[str]) -> bytes:
    """Returns the content of the `vocab.txt` of these tokens: UTF-8, a newline after each."""
    return "".join(f"{token}\n" for token in tokens).encode()


def check_vocabulary(tokens: Sequence[str], *, source: str = "the vocabulary") -> None:
    """Checks that tokens can be a vocabulary; `source` names them in the message.

    Raises:
        InputError: a token is empty, holds a line end, NUL or half a surrogate pair, or occurs twice, or a special
            token is missing.
    """
    lines: dict[str, int] = {}
    for number, token in enumerate(tokens, start=1):
        if not token:
            raise InputError(f"{source}, line {number}: the line is blank; expected a token: take the blank line out")
        if "\n" in token or "\r" in token:
            raise InputError(
                f"{source}, line {number}: the token {quote(token)} holds a line end; expected one line a token"
            )
        if NOT_TEXT.search(token):
            raise InputError(
                f"{source}, line {number}: the token {quote(token)} cannot be written as UTF-8 text: take it out"
            )
        if token in lines:
            raise InputError(
                f"{source}, line {number}: the token {quote(token)} stands on line {lines[token]} already; expected "
                "each "
                "once, since the line number is its id: restore the file that the model was trained with"
            )
        lines[token] = number
    if missing := [token for token in SPECIAL_TOKENS if token not in lines]:
        raise InputError(
            f"{source}: none of the {len(lines):,} lines is {' or '.join(missing)}; expected BERT's special tokens "
            f"{' '.join(SPECIAL_TOKENS)}: name the vocabulary of a BERT model, or learn one"
        )


def check_special_tokens(tokens: Sequence[str], vocabulary: Collection[str]) -> None:
    """Check that special tokens are those of a vocabulary, each once.

    Raises:
        InputError: one is not in the vocabulary, or is named twice.
    """
    for token in tokens:
        if token not in vocabulary:
            raise InputError(f"the special token {quote(token)} is not in the vocabulary: add it to both or to neither")
    if repeated := [token for token, count in collections.Counter(tokens).items() if count > 1]:
        raise InputError(
            f"the special token {quote(repeated[0])} is named twice; expected each once, BERT's five unnamed"
        )
