"""Pack examples into sequences: best fit, longest first, on the histogram of lengths.

As in "Efficient Sequence Packing without Cross-contamination" (Krell et al. 2021): sequences with the same lengths are
counted instead of listed, so the work depends on the length of a sequence, not on the number of examples.
"""

import collections

import numpy as np


def pack_by_histogram(lengths: np.ndarray, *, sequence_length: int, max_examples: int) -> list[list[int]]:
    """Return the examples of each sequence, longest first, as indices. Each example is in exactly one sequence.

    Args:
        lengths: `(examples,)` integers, from 1 to `sequence_length`.
        sequence_length: maximum sum of the lengths in a sequence.
        max_examples: maximum number of examples in a sequence.
    """
    unpacked = collections.defaultdict(collections.deque)
    for index, length in enumerate(lengths.tolist()):
        unpacked[length].append(index)
    histogram = {length: len(indices) for length, indices in unpacked.items()}
    return [
        [unpacked[length].popleft() for length in pattern]
        for pattern, count in _find_patterns(histogram, sequence_length, max_examples)
        for _ in range(count)
    ]


def _find_patterns(
    histogram: dict[int, int], sequence_length: int, max_examples: int
) -> list[tuple[tuple[int, ...], int]]:
    """Return each pattern, the lengths in a sequence, with the number of such sequences."""
    closed: list[tuple[tuple[int, ...], int]] = []
    open_by_room: dict[int, list[tuple[tuple[int, ...], int]]] = collections.defaultdict(list)

    def add(pattern: tuple[int, ...], count: int) -> None:
        room = sequence_length - sum(pattern)
        (open_by_room[room] if room and len(pattern) < max_examples else closed).append((pattern, count))

    for length in sorted(histogram, reverse=True):
        left = histogram[length]
        for room in range(length, sequence_length + 1):
            while left and open_by_room.get(room):
                pattern, count = open_by_room[room].pop()
                repeats = min(room // length, max_examples - len(pattern), left)
                used = min(count, left // repeats)
                if used < count:
                    open_by_room[room].append((pattern, count - used))
                add(pattern + (length,) * repeats, used)
                left -= used * repeats
        while left:  # new sequences, each with as many examples of this length as fit
            repeats = min(sequence_length // length, max_examples, left)
            add((length,) * repeats, left // repeats)
            left %= repeats
    return closed + [pattern for patterns in open_by_room.values() for pattern in patterns]
