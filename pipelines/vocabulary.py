"""WordPiece vocabularies: learnt from text with Hugging Face `tokenizers`, and kept as `vocab.txt`.

A vocabulary is a list of pieces; a piece's id is its place in the list. "##" marks a
piece that continues a word.
"""

import collections
import logging
import os
from collections.abc import Iterable, Iterator, Sequence

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from bert_keras.errors import InputError
from bert_keras.files import publish_file
from bert_keras.pipelines.text_lines import utf8_lines

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

_LOG = logging.getLogger(__name__)
_MAX_ALPHABET = 1000  # characters, the most frequent ones; words with others become [UNK]. Hugging Face's default too
_BLOCK_WORDS = 10_000  # words handed to the trainer at a time: about 60 kB


def learn_vocabulary(
    sentences: Iterable[str], *, size: int, lowercase: bool = True, min_frequency: int = 2
) -> list[str]:
    """Learns a WordPiece vocabulary from text: the special tokens, the alphabet, then the most useful pieces.

    The pieces are found by byte-pair merging of the most frequent neighbours (Sennrich et al. 2016),
    as Hugging Face's `WordPieceTrainer` does. The same text gives the same vocabulary, byte for
    byte. Left alone, the trainer numbers "##a", "##b", ... in the order of a hash map, a new one in each
    run, and breaks ties by those numbers; here they are numbered before it starts.

    Args:
        sentences: the text, read once; only its distinct words are kept in memory.
        size: pieces wanted. A small text can give fewer; it is never more.
        lowercase: fold case and strip accents first ("uncased" BERT).
        min_frequency: how often a pair of pieces must occur to be merged.

    Returns:
        The pieces in the order of their ids; `[PAD]` has id 0.

    Raises:
        InputError: there is no text, or its alphabet alone is larger than `size`.

    Example:
        >>> learn_vocabulary(["low lower lowest"] * 3, size=20)[:5]
        ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]']
    """
    words = _count_words(sentences, lowercase)
    if not words:
        raise InputError("there is no text to learn a vocabulary from: name files that hold words")
    alphabet = _alphabet(words)
    first_pieces = [*SPECIAL_TOKENS, *alphabet, *(f"##{character}" for character in alphabet if _continues(character))]
    if len(first_pieces) > size:
        raise InputError(
            f"a vocabulary of {size:,} pieces cannot hold the text's alphabet of {len(alphabet):,} characters, which "
            f"takes {len(first_pieces):,} pieces with the special tokens: ask for {len(first_pieces):,} pieces or more"
        )
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, min_frequency=min_frequency, show_progress=False, special_tokens=first_pieces
    )
    tokenizer.train_from_iterator(_blocks(words, set(alphabet)), trainer)
    ids = tokenizer.get_vocab()
    if len(ids) < size:
        _LOG.info("the text gave %d pieces of the %d asked for", len(ids), size)
    return sorted(ids, key=ids.__getitem__)


def _count_words(sentences: Iterable[str], lowercase: bool) -> collections.Counter[str]:
    """Counts the words as BERT splits them: normalized, cut at white space and around each punctuation mark."""
    raw_words: collections.Counter[str] = collections.Counter()
    for sentence in sentences:
        raw_words.update(sentence.split())
    normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    words: collections.Counter[str] = collections.Counter()
    for raw_word, count in raw_words.items():  # once a distinct word: some 20 times fewer than words
        for word, _ in pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(raw_word)):
            words[word] += count
    return words


def _alphabet(words: collections.Counter[str]) -> list[str]:
    """Returns the most frequent characters, sorted."""
    counts: collections.Counter[str] = collections.Counter()
    for word, count in words.items():
        for character in word:
            counts[character] += count
    return sorted(sorted(counts, key=lambda character: (-counts[character], character))[:_MAX_ALPHABET])


def _continues(character: str) -> bool:
    """Whether the character can stand inside a word; punctuation and Chinese are always words of their own."""
    spaced = normalizers.BertNormalizer(lowercase=False).normalize_str(f"a{character}")
    return len(pre_tokenizers.BertPreTokenizer().pre_tokenize_str(spaced)) == 1


def _blocks(words: collections.Counter[str], alphabet: set[str]) -> Iterator[str]:
    """Yields every word as often as it was counted, many at a time, without those that can only become [UNK]."""
    block: list[str] = []
    for word, count in words.items():
        if alphabet.issuperset(word):
            for start in range(0, count, _BLOCK_WORDS):
                block += [word] * min(count - start, _BLOCK_WORDS)
                if len(block) >= _BLOCK_WORDS:
                    yield " ".join(block)
                    block = []
    yield " ".join(block)


def read_vocabulary(path: str | os.PathLike) -> list[str]:
    r"""Reads a `vocab.txt`: one piece a line, its id the line's number from 0.

    Only "\n" ends a line, since pieces may hold other characters that Unicode calls line ends.
    Windows line ends, a byte order mark and blank lines at the end are mended, not reported.

    Raises:
        InputError: the file is missing, not UTF-8, has a blank line before its last piece, the
            same piece twice, or lacks one of `SPECIAL_TOKENS`; file and line are named.
    """
    tokens = [line.removesuffix("\n").removesuffix("\r") for line in utf8_lines(path)]
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
        staging.write_bytes(vocabulary_bytes(tokens))


def vocabulary_bytes(tokens: Sequence[str]) -> bytes:
    """Returns the content of the `vocab.txt` of these tokens: UTF-8, a newline after each."""
    return "".join(f"{token}\n" for token in tokens).encode()


def check_vocabulary(tokens: Sequence[str], *, source: str = "the vocabulary") -> None:
    """Checks that tokens can be a vocabulary; `source` names them in the message.

    Raises:
        InputError: a token is empty, holds a line end or occurs twice, or a special token is missing.
    """
    lines: dict[str, int] = {}
    for number, token in enumerate(tokens, start=1):
        if not token:
            raise InputError(f"{source}, line {number}: the line is blank; expected a piece: take the blank line out")
        if "\n" in token or "\r" in token:
            raise InputError(
                f"{source}, line {number}: the piece {token!r} holds a line end; expected one line a piece"
            )
        if token in lines:
            raise InputError(
                f"{source}, line {number}: the piece {token!r} stands on line {lines[token]} already; expected each "
                "once, since the line number is its id: restore the file that the model was trained with"
            )
        lines[token] = number
    if missing := [token for token in SPECIAL_TOKENS if token not in lines]:
        raise InputError(
            f"{source}: none of the {len(lines):,} lines is {' or '.join(missing)}; expected BERT's special tokens "
            f"{' '.join(SPECIAL_TOKENS)}: name the vocabulary of a BERT model, or learn one"
        )
