"""WordPiece vocabularies and their file, `vocab.txt`.

A vocabulary is a list of tokens; the id of a token is its index in the list. "##" marks a token that continues a word.
"""

import collections
import hashlib
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.text_lines import NOT_TEXT, read_vocabulary_lines
from bert_keras.publishing import publish_file

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MAX_SIZE = 10_000_000  # ten times the largest published vocabulary; a trainer allocates memory for all tokens first
MAX_TOKEN_BYTES = 256  # the limit of tensorflow-text; a character outside ASCII takes up to four
_MAX_PROBLEMS = 10  # in one message


def is_too_long(token: str) -> bool:
    """Return whether a token can be longer than the tokenizer accepts."""
    return len(token) + 3 * sum(not character.isascii() for character in token) > MAX_TOKEN_BYTES


def read_vocabulary(path: str | os.PathLike) -> list[str]:
    r"""Read a `vocab.txt`: one token per line; the id of a token is its line number from 0.

    Only "\n" ends a line, because tokens can have other characters that Unicode calls line ends. Windows line ends, a
    byte order mark and blank lines at the end are accepted.

    Raises:
        InputError: the file is missing, is not UTF-8, has a blank line before its last token or the same token twice,
            or lacks one of `SPECIAL_TOKENS`; the message has the file and the line.
    """
    tokens = [line.removesuffix("\n").removesuffix("\r") for line in read_vocabulary_lines(path)]
    while tokens and not tokens[-1]:
        tokens.pop()
    check_vocabulary(tokens, source=os.fspath(path))
    return tokens


def write_vocabulary(path: str | os.PathLike, tokens: Sequence[str]) -> None:
    """Write a `vocab.txt`, for `read_vocabulary`.

    Raises:
        InputError: the tokens are not a valid vocabulary (see `check_vocabulary`).
    """
    check_vocabulary(tokens)
    with publish_file(path) as staging:
        staging.write_bytes(encode_vocabulary(tokens))


def encode_vocabulary(tokens: Sequence[str]) -> bytes:
    """Return the content of a `vocab.txt`: UTF-8, with a newline after each token."""
    return "".join(f"{token}\n" for token in tokens).encode()


def digest_vocabulary(tokens: Sequence[str]) -> str:
    """Return the SHA-256 of a `vocab.txt`, in hexadecimal digits."""
    return hashlib.sha256(encode_vocabulary(tokens)).hexdigest()


def check_vocabulary(tokens: Sequence[str], *, source: str = "the vocabulary") -> None:
    """Check that tokens are a valid vocabulary; `source` is its name in error messages.

    Raises:
        InputError: a token is empty, has a line end, NUL or half a surrogate pair, or is a duplicate, or a special
            token is missing.
    """
    lines: dict[str, int] = {}
    for number, token in enumerate(tokens, start=1):
        if not token:
            raise InputError(f"{source}, line {number}: the line is blank; expected a token: remove the blank line")
        if "\n" in token or "\r" in token:
            raise InputError(
                f"{source}, line {number}: the token {quote(token)} has a line end; expected one line per token: "
                "remove the line end"
            )
        if NOT_TEXT.search(token):
            raise InputError(
                f"{source}, line {number}: the token {quote(token)} is not valid UTF-8 text; expected text: remove it"
            )
        if token in lines:
            raise InputError(
                f"{source}, line {number}: the token {quote(token)} is also on line {lines[token]}; expected each "
                "token once, since the line number is its id: restore the file that the model was trained with"
            )
        lines[token] = number
    if missing := [token for token in SPECIAL_TOKENS if token not in lines]:
        raise InputError(
            f"{source}: none of the {len(lines):,} lines is {' or '.join(missing)}; expected BERT's special tokens "
            f"{' '.join(SPECIAL_TOKENS)}: name the vocabulary of a BERT model, or learn one"
        )


def check_special_tokens(tokens: Sequence[str], vocabulary: Collection[str]) -> None:
    """Check that special tokens are in a vocabulary, without duplicates.

    Raises:
        InputError: a token is not in the vocabulary, or is a duplicate.
    """
    for token in tokens:
        if token not in vocabulary:
            raise InputError(
                f"the special token {quote(token)} is not in the vocabulary; expected it there: add it to the "
                "vocabulary, or remove it from the special tokens"
            )
    if repeated := [token for token, count in collections.Counter(tokens).items() if count > 1]:
        raise InputError(
            f"the special token {quote(repeated[0])} is given twice; expected each token once, without BERT's five: "
            "remove it"
        )


class TokenSplitter:
    """Split text at tokens.

    The text is searched for the first characters of tokens, and tokens are looked up only there. A regular expression
    with all tokens as alternatives tries one after the other: 7.4 us per byte with 4,000 tokens.

    Args:
        tokens: the tokens, none of which is empty.
    """

    def __init__(self, tokens: Iterable[str]):
        self._tokens = frozenset(tokens)
        lengths: dict[str, set[int]] = {}
        for token in self._tokens:
            lengths.setdefault(token[0], set()).add(len(token))
        self._lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}
        self._first = re.compile("[" + "".join(map(re.escape, sorted(lengths))) + "]") if lengths else None

    def split(self, text: str) -> list[str]:
        """Return the parts of a text between tokens, including empty ones: one part more than tokens."""
        if self._first is None:
            return [text]
        parts, end = [], 0
        for match in self._first.finditer(text):
            start = match.start()
            if start >= end and (length := self._length_at(text, start)):
                parts.append(text[end:start])
                end = start + length
        return [*parts, text[end:]]

    def _length_at(self, text: str, start: int) -> int:
        """Return the length of the longest token at `start`, or 0."""
        lengths = self._lengths[text[start]]
        return next((length for length in lengths if text[start : start + length] in self._tokens), 0)


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
