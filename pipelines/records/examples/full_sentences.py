"""Rows of full sentences, filled greedily: RoBERTa's FULL-SENTENCES and DOC-SENTENCES (Liu et al. 2019, 4.2)."""

import bisect
from collections.abc import Iterator

import numpy as np

from bert_keras.pipelines.records.examples.tokenized_documents import TokenizedText

_NUM_SPECIAL = 2  # [CLS] ... [SEP]


def generate_full_sentences(
    text: TokenizedText, *, max_sequence_length: int, sep_id: int, keep_documents_apart: bool = False
) -> Iterator[np.ndarray]:
    """Yields the tokens of each row, without [CLS] and the last [SEP]; each token of the text stands in one row.

    A row takes whole sentences until the next one does not fit. A sentence longer than a row begins a row and fills as
    many as it needs. Between two documents in one row stands a [SEP], which takes a place.

    Args:
        text: the documents.
        max_sequence_length: the longest row, [CLS] and all [SEP] counted.
        sep_id: the id of [SEP].
        keep_documents_apart: whether a row ends where its document ends.
    """
    room = max_sequence_length - _NUM_SPECIAL
    groups = [[document] for document in text.documents] if keep_documents_apart else [text.documents]
    for documents in groups:
        for tokens, borders in _runs(text.starts, documents, room):
            yield np.insert(text.ids[tokens], borders, sep_id) if borders else text.ids[tokens]


def _runs(starts: list[int], documents: list, room: int) -> Iterator[tuple[slice | np.ndarray, list[int]]]:
    """Yields for each row which tokens it takes, and before which of those, counted from the row's first, a [SEP]."""
    sentences = [sentence for document in documents for sentence in range(document.start, document.end)]
    ordinals = [place for place, document in enumerate(documents) for _ in range(document.start, document.end)]
    # where each sentence begins and ends if all of them, and a [SEP] between documents, stood behind each other
    lengths = np.array([starts[sentence + 1] - starts[sentence] for sentence in sentences], np.int64)
    begins = np.cumsum(lengths) - lengths + ordinals
    begins, ends = begins.tolist(), (begins + lengths).tolist()
    place, done = 0, 0  # the sentence that is next, and how many of its tokens are in rows already
    while place < len(sentences):
        begin = begins[place] + done
        last = bisect.bisect_right(ends, begin + room) - 1
        if last < place:  # longer than a row
            first = starts[sentences[place]] + done
            yield slice(first, first + room), []
            done += room
            continue
        yield _joined(starts, sentences, ordinals, place, last, done)
        place, done = last + 1, 0


def _joined(
    starts: list[int], sentences: list[int], ordinals: list[int], place: int, last: int, done: int
) -> tuple[slice | np.ndarray, list[int]]:
    """Returns the tokens of the sentences `place` to `last`, without the first `done`."""
    cuts = [later for later in range(place + 1, last + 1) if ordinals[later] != ordinals[later - 1]]
    runs, borders, length = [], [], 0
    for begin, end in zip([place, *cuts], [*cuts, last + 1], strict=True):
        run = (starts[sentences[begin]] + (done if begin == place else 0), starts[sentences[end - 1] + 1])
        runs.append(np.arange(*run) if cuts else slice(*run))
        length += run[1] - run[0]
        borders.append(length)
    return (np.concatenate(runs) if cuts else runs[0]), borders[:-1]
