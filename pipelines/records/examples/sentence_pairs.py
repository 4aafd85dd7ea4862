"""Pairs of segments: what follows or what is from elsewhere (nsp), and what was swapped (sop).

nsp as in Google's `create_pretraining_data.py`, with two differences: a document's pairs are a pure function of
(seed, document number, text of its block), so blocks can be worked on in any order; and the shorter length is drawn for
a sequence, not for a whole document, so that `short_sequence_rate` is what its name says. sop as in ALBERT's.

Segments are runs of the flat array of ids, so a pair is five numbers and nothing is copied before it is written.
"""

import bisect
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bert_keras.errors import InputError
from bert_keras.pipelines.records.examples.tokenized_documents import Document, TokenizedText
from bert_keras.pipelines.records.settings import NUM_SPECIAL

_RANDOM_NEXT_RATE = 0.5
_SWAP_RATE = 0.5


class Pair(NamedTuple):
    """Two runs of `TokenizedText.ids`, `ids[first_start:first_end]` and so on.

    `label`: 0 = the second follows the first, 1 = the second is random (nsp) or the two were swapped (sop).
    """

    first_start: int
    first_end: int
    second_start: int
    second_end: int
    label: int


def generate_next_sentence_pairs(
    text: TokenizedText, *, max_sequence_length: int, seed: int, short_sequence_rate: float, duplicate: int = 0
) -> Iterator[Pair]:
    """Yields the next-sentence pairs of all documents, in their order.

    Sentences are gathered until they fill a sequence; a random cut makes A and B. Half of the time B is
    replaced by sentences of another document, and those it replaced are used again, so nothing is lost.
    A lone sentence has no B and always gets a random one, so of short documents more than half is random.

    Args:
        text: the documents; the others serve for random sentences.
        max_sequence_length: the longest example in tokens, with its three special tokens.
        seed: decides, with the document's number, everything that is random.
        short_sequence_rate: the share of sequences made shorter.
        duplicate: which time the documents are gone through; each time gives other pairs.

    Raises:
        InputError: there is one document only, and none to borrow a wrong next sentence from.
    """
    if not text.documents:
        return
    documents = [*text.documents, *text.others]
    if len(documents) < 2:
        raise InputError(
            f"the text has {documents[0].number + 1} document(s), and the last one stands alone; expected two or more, "
            "since a wrong next sentence is drawn from another document: put a blank line between the documents of a "
            "file, name more files, or choose the objective sop or none"
        )
    max_tokens = max_sequence_length - NUM_SPECIAL
    for index, document in enumerate(text.documents):
        rng = _generator(seed, document, duplicate)
        start = document.start
        while start < document.end:
            target = _target(max_tokens, short_sequence_rate, rng)
            end = _filled(text.starts, start, document.end, target)
            cut = start + 1 if end - start == 1 else int(rng.integers(start + 1, end))
            first = text.starts[start], text.starts[cut]
            is_random = cut == end or rng.random() < _RANDOM_NEXT_RATE
            if is_random:
                second = _random_run(text.starts, documents, index, target - first[1] + first[0], rng)
            else:
                second = text.starts[cut], text.starts[end]
            yield Pair(*_truncated(*first, *second, max_tokens, rng), int(is_random))
            start = cut if is_random else end


def generate_sentence_order_pairs(
    text: TokenizedText, *, max_sequence_length: int, seed: int, short_sequence_rate: float, duplicate: int = 0
) -> Iterator[Pair]:
    """Yields the sentence-order pairs of all documents: two segments that follow each other, swapped half of the time.

    A lone sentence is cut at a random token; one token alone has no order and is left out. Arguments as for
    `generate_next_sentence_pairs`.
    """
    max_tokens = max_sequence_length - NUM_SPECIAL
    for document in text.documents:
        rng = _generator(seed, document, duplicate)
        start = document.start
        while start < document.end:
            end = _filled(text.starts, start, document.end, _target(max_tokens, short_sequence_rate, rng))
            first, last = text.starts[start], text.starts[end]
            cut = text.starts[int(rng.integers(start + 1, end))] if end - start > 1 else 0
            start = end
            if last - first > 1:
                cut = cut or int(rng.integers(first + 1, last))
                runs = _truncated(first, cut, cut, last, max_tokens, rng)
                is_swapped = rng.random() < _SWAP_RATE
                yield Pair(*runs[2:], *runs[:2], 1) if is_swapped else Pair(*runs, 0)


def _generator(seed: int, document: Document, duplicate: int) -> np.random.Generator:
    return np.random.default_rng([seed, document.number, duplicate, document.part])


def _target(max_tokens: int, short_sequence_rate: float, rng: np.random.Generator) -> int:
    return int(rng.integers(2, max_tokens + 1)) if rng.random() < short_sequence_rate else max_tokens


def _filled(starts: list[int], start: int, limit: int, target: int) -> int:
    """Returns the end of the shortest run of sentences from `start` with `target` tokens, `limit` at most."""
    return min(max(bisect.bisect_left(starts, starts[start] + target, start, limit + 1), start + 1), limit)


def _random_run(
    starts: list[int], documents: list[Document], index: int, target: int, rng: np.random.Generator
) -> tuple[int, int]:
    """Returns about `target` tokens from a random place in a random other document."""
    other_index = int(rng.integers(len(documents) - 1))
    other = documents[other_index + (other_index >= index)]
    start = other.start + int(rng.integers(other.end - other.start))
    return starts[start], starts[_filled(starts, start, other.end, target)]


def _truncated(
    first_start: int, first_end: int, second_start: int, second_end: int, max_tokens: int, rng: np.random.Generator
) -> tuple[int, int, int, int]:
    """Cuts the longer of the two until both fit, token by token from the front or the back at random.

    Google's `truncate_seq_pair` in closed form: coin flips for single tokens are one binomial draw.
    """
    num_first, num_second = first_end - first_start, second_end - second_start
    left_second = min(num_second, max(max_tokens // 2, max_tokens - num_first))
    left_first = min(num_first, max_tokens - left_second)
    first_start += int(rng.binomial(num_first - left_first, 0.5))
    second_start += int(rng.binomial(num_second - left_second, 0.5))
    return first_start, first_start + left_first, second_start, second_start + left_second
