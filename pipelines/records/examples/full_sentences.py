"""Sequences of full sentences, filled greedily: FULL-SENTENCES and DOC-SENTENCES (RoBERTa, Liu et al. 2019, 4.2)."""

import bisect
from collections.abc import Iterator

import numpy as np

from bert_keras.pipelines.records.examples.tokenized_documents import Document, TokenizedText

_NUM_SPECIAL = 2  # [CLS] ... [SEP]


def generate_full_sentences(
    text: TokenizedText, *, max_sequence_length: int, sep_id: int, keep_documents_apart: bool = False
) -> Iterator[np.ndarray]:
    """Yield the tokens of each sequence without [CLS] and the last [SEP]. Each token is in exactly one sequence.

    A sequence gets whole sentences until the next one does not fit. A sentence longer than a sequence starts a new
    sequence and fills as many as it needs. A [SEP] separates documents in a sequence.

    Args:
        text: the documents.
        max_sequence_length: maximum length, including [CLS] and every [SEP].
        sep_id: the id of [SEP].
        keep_documents_apart: whether a sequence ends with its document.
    """
    room = max_sequence_length - _NUM_SPECIAL
    groups = [[document] for document in text.documents] if keep_documents_apart else [text.documents]
    for documents in groups:
        for tokens, separators in _plan_sequences(text.starts, documents, room):
            yield np.insert(text.ids[tokens], separators, sep_id) if separators else text.ids[tokens]


def _plan_sequences(
    starts: list[int], documents: list[Document], room: int
) -> Iterator[tuple[slice | np.ndarray, list[int]]]:
    """Yield the tokens of each sequence, and the offsets in them where a [SEP] is inserted."""
    sentences = [sentence for document in documents for sentence in range(document.start, document.end)]
    ordinals = [index for index, document in enumerate(documents) for _ in range(document.start, document.end)]
    # the start and end of each sentence if all of them were concatenated, with a [SEP] between documents
    lengths = np.array([starts[sentence + 1] - starts[sentence] for sentence in sentences], np.int64)
    begins = np.cumsum(lengths) - lengths + ordinals
    begins, ends = begins.tolist(), (begins + lengths).tolist()
    index, num_used = 0, 0  # the next sentence, and the number of its tokens that are in sequences already
    while index < len(sentences):
        begin = begins[index] + num_used
        last = bisect.bisect_right(ends, begin + room) - 1
        if last < index:  # the sentence is longer than a sequence
            first = starts[sentences[index]] + num_used
            yield slice(first, first + room), []
            num_used += room
            continue
        yield _join_sentences(starts, sentences, ordinals, index, last, num_used)
        index, num_used = last + 1, 0


def _join_sentences(
    starts: list[int], sentences: list[int], ordinals: list[int], index: int, last: int, num_used: int
) -> tuple[slice | np.ndarray, list[int]]:
    """Return the tokens of the sentences from `index` to `last` without the first `num_used`, and the separators."""
    cuts = [later for later in range(index + 1, last + 1) if ordinals[later] != ordinals[later - 1]]
    runs, separators, length = [], [], 0
    for begin, end in zip([index, *cuts], [*cuts, last + 1], strict=True):
        run = (starts[sentences[begin]] + (num_used if begin == index else 0), starts[sentences[end - 1] + 1])
        runs.append(np.arange(*run) if cuts else slice(*run))
        length += run[1] - run[0]
        separators.append(length)
    return (np.concatenate(runs) if cuts else runs[0]), separators[:-1]
