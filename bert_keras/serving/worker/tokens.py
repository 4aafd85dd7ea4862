"""The tokens of texts with their ids and character ranges, for clients that want to see or count them."""

from collections.abc import Sequence
from typing import NamedTuple


class Token(NamedTuple):
    """A token of a text.

    Attributes:
        id: its id.
        text: its characters in the text; the name of a special token.
        is_special: whether it is [CLS] or [SEP].
        start, end: its range in the text, in characters; None for special tokens.
    """

    id: int
    text: str
    is_special: bool
    start: int | None
    end: int | None


def describe_tokens(tokenizer: object, texts: Sequence[str], *, add_special_tokens: bool = True) -> list[list[Token]]:
    """Return the tokens of each text, not truncated.

    Args:
        tokenizer: a `BertTokenizer` or a `PortableTokenizer`.
        texts: the texts.
        add_special_tokens: whether [CLS] and [SEP] are added.
    """
    arrays = tokenizer.tokenize_to_arrays(texts, with_offsets=True)
    ids, starts, ends = arrays.token_ids.tolist(), arrays.starts.tolist(), arrays.ends.tolist()
    vocabulary = tokenizer.vocabulary
    described = []
    for text, begin, end in zip(texts, arrays.row_splits[:-1], arrays.row_splits[1:], strict=True):
        tokens = [Token(ids[n], text[starts[n] : ends[n]], False, starts[n], ends[n]) for n in range(begin, end)]
        if add_special_tokens:
            first, last = (Token(n, vocabulary[n], True, None, None) for n in (tokenizer.cls_id, tokenizer.sep_id))
            tokens = [first, *tokens, last]
        described.append(tokens)
    return described
