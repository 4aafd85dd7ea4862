"""WordPiece vocabularies: learnt from text with Hugging Face `tokenizers`, and kept as `vocab.txt`.

A vocabulary is a list of pieces; a piece's id is its place in the list. "##" marks a
piece that continues a word.
"""

import collections
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from bert_keras.checks import shown
from bert_keras.errors import InputError
from bert_keras.pipelines.text_lines import NOT_TEXT, utf8_lines
from bert_keras.pipelines.word_counts import MAX_WORDS, count_words
from bert_keras.publishing import publish_file

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

MAX_SIZE = 10_000_000  # ten times the largest published one; the trainer allocates for so many before it begins

_LOG = logging.getLogger(__name__)
_MAX_ALPHABET = 1000  # characters, the most frequent ones; words with others become [UNK]. Hugging Face's default too
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
    min_frequency: int = 2,
    special_tokens: Sequence[str] = (),
    num_unused: int = 0,
    max_words: int = MAX_WORDS,
    num_workers: int = 1,
) -> list[str]:
    """Learns a WordPiece vocabulary from text: the special tokens, the alphabet, then the most useful pieces.

    The pieces are found by byte-pair merging of the most frequent neighbours (Sennrich et al. 2016),
    as Hugging Face's `WordPieceTrainer` does. The same text and options give the same vocabulary, byte
    for byte, whatever the number of workers.

    Args:
        sentences: the text, read once; only its distinct words are kept in memory.
        size: pieces wanted, all kinds together, 10 million at most. A small text can give fewer; it is never more.
        lowercase: fold case and strip accents first ("uncased" BERT).
        min_frequency: how often a pair of pieces must occur to be merged.
        special_tokens: tokens of your own that are never split, "[E1]" for example.
        num_unused: how many slots `[unused0]`, `[unused1]`, ... to keep for later (see `leading_tokens`).
        max_words: distinct words kept in memory; beyond it the rarest are forgotten (see `count_words`).
        num_workers: processes that count words; more than one needs `if __name__ == "__main__":` in a script.

    Returns:
        The pieces in the order of their ids; `[PAD]` has id 0.

    Raises:
        InputError: there is no text, its alphabet alone is larger than `size`, or the special tokens are no tokens or
            more than `size`.

    Example:
        >>> learn_vocabulary(["low lower lowest"] * 3, size=20)[:5]
        ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]']
    """
    leading = leading_tokens(special_tokens, num_unused, size=size)
    words = count_words(sentences, lowercase=lowercase, max_words=max_words, num_workers=num_workers)
    return vocabulary_of_words(words.counts, size=size, min_frequency=min_frequency, leading=leading)


def leading_tokens(special_tokens: Sequence[str] = (), num_unused: int = 0, *, size: int = MAX_SIZE) -> list[str]:
    """Returns what a vocabulary starts with: `[PAD]`, the unused slots, `[UNK] [CLS] [SEP] [MASK]`, your own tokens.

    That is Google's order: 99 slots give the ids of its models, `[UNK]` 100 to `[MASK]` 103.

    Raises:
        InputError: a token is empty, holds white space, or stands there twice; the first ten are told at once. Or
            there is no room for them, and one token more, in a vocabulary of `size` tokens.
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
                f"the special token {shown(token)} is empty or holds white space; expected one such as [E1]"
            )
        elif NOT_TEXT.search(token):
            problems.append(f"the special token {shown(token)} is not UTF-8; expected one such as [E1]")
        elif token in tokens:
            problems.append(
                f"the special token {shown(token)} is there already: name each once, without {' '.join(SPECIAL_TOKENS)}"
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
    progress: Callable[[int, int], None] | None = None,
) -> list[str]:
    """Learns a vocabulary from words and how often each occurs (see `learn_vocabulary`).

    Left alone, Hugging Face's trainer numbers "##a", "##b", ... in the order of a hash map, a new one in each
    run, and breaks ties by those numbers; here they are numbered before it starts.

    Args:
        words: what `count_words` counted.
        leading: the first tokens, as `leading_tokens` gives them.
        progress: told how many occurrences of words the trainer has taken so far, and of how many.
    """
    if not words:
        raise InputError("there is no text to learn a vocabulary from: name files that hold words")
    alphabet = _alphabet(words)
    continuing = [f"##{character}" for character in alphabet if _continues(character)]
    first_pieces = list(dict.fromkeys([*leading, *alphabet, *continuing]))
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
    tokenizer.train_from_iterator(_blocks(_mergeable(words, set(alphabet)), progress), trainer)
    ids = tokenizer.get_vocab()
    if len(ids) < size:
        _LOG.info("the text gave %d pieces of the %d asked for", len(ids), size)
    return sorted(ids, key=ids.__getitem__)


def _alphabet(words: Mapping[str, int]) -> list[str]:
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
        InputError: a token is empty, holds a line end, NUL or half a surrogate pair, or occurs twice, or a special
            token is missing.
    """
    lines: dict[str, int] = {}
    for number, token in enumerate(tokens, start=1):
        if not token:
            raise InputError(f"{source}, line {number}: the line is blank; expected a piece: take the blank line out")
        if "\n" in token or "\r" in token:
            raise InputError(
                f"{source}, line {number}: the piece {shown(token)} holds a line end; expected one line a piece"
            )
        if NOT_TEXT.search(token):
            raise InputError(
                f"{source}, line {number}: the piece {shown(token)} cannot be written as UTF-8 text: take it out"
            )
        if token in lines:
            raise InputError(
                f"{source}, line {number}: the piece {shown(token)} stands on line {lines[token]} already; expected "
                "each "
                "once, since the line number is its id: restore the file that the model was trained with"
            )
        lines[token] = number
    if missing := [token for token in SPECIAL_TOKENS if token not in lines]:
        raise InputError(
            f"{source}: none of the {len(lines):,} lines is {' or '.join(missing)}; expected BERT's special tokens "
            f"{' '.join(SPECIAL_TOKENS)}: name the vocabulary of a BERT model, or learn one"
        )
