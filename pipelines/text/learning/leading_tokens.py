"""The first tokens of a vocabulary: BERT's special tokens, unused tokens, and your own special tokens."""

from collections.abc import Collection, Iterator, Sequence

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.text_lines import NOT_TEXT
from bert_keras.pipelines.text.vocabulary import MAX_TOKEN_BYTES, SPECIAL_TOKENS, is_too_long

MAX_SIZE = 10_000_000  # ten times the largest published vocabulary; the trainer allocates memory for all tokens first
_MAX_PROBLEMS = 10  # in one message


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
