"""Which examples share a row: best fit, longest first, on the histogram of lengths.

As in "Efficient Sequence Packing without Cross-contamination" (Krell et al. 2021): rows that hold the same lengths are
counted, not listed, so the work depends on the row's length, not on the number of examples.
"""

import collections

import numpy as np


def pack_by_histogram(lengths: np.ndarray, *, row_length: int, max_examples: int) -> list[list[int]]:
    """Returns the rows, each a list of example indices, longest first; every example stands in one row.

    Args:
        lengths: `(examples,)` integers, from 1 to `row_length`.
        row_length: what the lengths of a row may sum to.
        max_examples: how many examples may share a row.
    """
    waiting = collections.defaultdict(collections.deque)
    for index, length in enumerate(lengths.tolist()):
        waiting[length].append(index)
    histogram = {length: len(indices) for length, indices in waiting.items()}
    return [
        [waiting[length].popleft() for length in kinds]
        for kinds, count in _kinds_of_rows(histogram, row_length, max_examples)
        for _ in range(count)
    ]


def _kinds_of_rows(histogram: dict[int, int], row_length: int, max_examples: int) -> list[tuple[tuple[int, ...], int]]:
    """Returns `(lengths of a row, how many such rows)`."""
    closed: list[tuple[tuple[int, ...], int]] = []
    open_rows: dict[int, list[tuple[tuple[int, ...], int]]] = collections.defaultdict(list)  # by the room left

    def put(kind: tuple[int, ...], count: int) -> None:
        room = row_length - sum(kind)
        (open_rows[room] if room and len(kind) < max_examples else closed).append((kind, count))

    for length in sorted(histogram, reverse=True):
        left = histogram[length]
        for room in range(length, row_length + 1):
            while left and open_rows.get(room):
                kind, count = open_rows[room].pop()
                each = min(room // length, max_examples - len(kind), left)
                used = min(count, left // each)
                if used < count:
                    open_rows[room].append((kind, count - used))
                put(kind + (length,) * each, used)
                left -= used * each
        while left:  # new rows, each with as many of this length as fit
            each = min(row_length // length, max_examples, left)
            put((length,) * each, left // each)
            left %= each
    return closed + [row for rows in open_rows.values() for row in rows]
