"""Next-sentence pairs: two runs of sentences, the second either what follows or from elsewhere.

As in Google's `create_pretraining_data.py`, with two differences: a document's pairs are a pure function of
(seed, document index), so documents can be worked on in any order; and the shorter length is drawn for a
sequence, not for a whole document, so that `short_sequence_rate` is what its name says.
"""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from bert_keras.errors import InputError
from bert_keras.pipelines.seeds import check_seed

NUM_SPECIAL = 3  # [CLS] A [SEP] B [SEP]
_RANDOM_NEXT_RATE = 0.5

PairExample = tuple[list[int], list[int], int]


def next_sentence_examples(
    documents_as_ids: Sequence[list[list[int]]],
    *,
    max_sequence_length: int,
    seed: int,
    short_sequence_rate: float = 0.1,
) -> Iterator[PairExample]:
    """Yields `(first_ids, second_ids, is_random)` for all documents, in their order.

    Args:
        documents_as_ids: documents of sentences of piece ids; what is empty is passed over and not counted.
        max_sequence_length, seed, short_sequence_rate: see `document_examples`.

    Raises:
        InputError: fewer than two documents have text, or a setting is out of range.
    """
    settings = {"max_sequence_length": max_sequence_length, "seed": seed, "short_sequence_rate": short_sequence_rate}
    documents = [[sentence for sentence in document if sentence] for document in documents_as_ids]
    documents = [document for document in documents if document]
    check_pair_settings(len(documents), **settings)
    return itertools.chain.from_iterable(
        document_examples(documents, index, **settings) for index in range(len(documents))
    )


def check_pair_settings(num_documents: int, *, max_sequence_length: int, seed: int, short_sequence_rate: float) -> None:
    """Raises `InputError` unless pairs can be drawn with these settings."""
    check_seed(seed)
    if max_sequence_length < NUM_SPECIAL + 2:
        raise InputError(f"max_sequence_length is {max_sequence_length}; expected {NUM_SPECIAL + 2} pieces or more")
    if not 0 <= short_sequence_rate <= 1:
        raise InputError(f"short_sequence_rate is {short_sequence_rate}; expected a share from 0 to 1")
    if num_documents < 2:
        raise InputError(
            f"the text has {num_documents} document(s); expected two or more, since a wrong next sentence is drawn "
            "from another document: put a blank line between the documents of a file, or name more files"
        )


def document_examples(
    documents: Sequence[list[list[int]]], index: int, *, max_sequence_length: int, seed: int, short_sequence_rate: float
) -> Iterator[PairExample]:
    """Yields the examples of one document.

    Sentences are gathered until they fill a sequence; a random cut makes A and B. Half of the time B is
    replaced by sentences of another document, and those it replaced are used again, so nothing is lost.
    A lone sentence has no B and always gets a random one, so of short documents more than half is random.

    Args:
        documents: two or more documents of sentences of piece ids, none empty.
        index: the document to work on; the others serve for random sentences.
        max_sequence_length: the longest example in pieces, with its three special tokens.
        seed: decides, with the index, everything that is random.
        short_sequence_rate: the share of sequences made shorter, since models meet short texts too.

    Yields:
        Piece ids of A and of B, without special tokens; and 0 if B follows A, 1 if it is random.
    """
    rng = np.random.default_rng([seed, index])
    document = documents[index]
    max_tokens = max_sequence_length - NUM_SPECIAL
    start = 0
    while start < len(document):
        target = int(rng.integers(2, max_tokens + 1)) if rng.random() < short_sequence_rate else max_tokens
        end = _filled(document, start, target)
        cut = start + 1 if end - start == 1 else int(rng.integers(start + 1, end))
        first = _joined(document, start, cut)
        is_random = cut == end or rng.random() < _RANDOM_NEXT_RATE
        wanted = target - len(first)
        second = _random_run(documents, index, wanted, rng) if is_random else _joined(document, cut, end)
        yield *_truncated(first, second, max_tokens, rng), int(is_random)
        start = cut if is_random else end


def _filled(document: list[list[int]], start: int, target: int) -> int:
    """Returns the end of the shortest run of sentences from `start` with `target` pieces, or the document's end."""
    num_tokens = 0
    for end in range(start, len(document)):
        num_tokens += len(document[end])
        if num_tokens >= target:
            return end + 1
    return len(document)


def _joined(document: list[list[int]], start: int, end: int) -> list[int]:
    return [token for sentence in document[start:end] for token in sentence]


def _random_run(documents, index: int, target: int, rng: np.random.Generator) -> list[int]:
    """Returns about `target` pieces from a random place in a random other document."""
    other_index = int(rng.integers(len(documents) - 1))
    other = documents[other_index + (other_index >= index)]
    start = int(rng.integers(len(other)))
    return _joined(other, start, _filled(other, start, target))


def _truncated(first: list[int], second: list[int], max_tokens: int, rng) -> tuple[list[int], list[int]]:
    """Cuts the longer of the two until both fit, piece by piece from the front or the back at random.

    Google's `truncate_seq_pair` in closed form: coin flips for single pieces are one binomial draw.
    """
    num_second = min(len(second), max(max_tokens // 2, max_tokens - len(first)))
    num_first = min(len(first), max_tokens - num_second)
    return _trimmed(first, num_first, rng), _trimmed(second, num_second, rng)


def _trimmed(ids: list[int], length: int, rng: np.random.Generator) -> list[int]:
    front = int(rng.binomial(len(ids) - length, 0.5))
    return ids[front : front + length]
