"""Reference implementation of sentence pairs with lists, to check the implementation with flat arrays."""

import numpy as np

NUM_SPECIAL = 3


def reference_pairs(documents, *, max_sequence_length, seed, short_sequence_rate=0.1):
    """Yield `(first_ids, second_ids, is_random)` of all documents, which must not be empty."""
    for index in range(len(documents)):
        yield from document_pairs(documents, index, max_sequence_length, seed, short_sequence_rate)


def document_pairs(documents, index, max_sequence_length, seed, short_sequence_rate):
    rng = np.random.default_rng([seed, index])
    document = documents[index]
    max_tokens = max_sequence_length - NUM_SPECIAL
    start = 0
    while start < len(document):
        target = int(rng.integers(2, max_tokens + 1)) if rng.random() < short_sequence_rate else max_tokens
        end = find_end(document, start, target)
        split = start + 1 if end - start == 1 else int(rng.integers(start + 1, end))
        first = join_sentences(document, start, split)
        is_random = split == end or rng.random() < 0.5
        num_second = target - len(first)
        second = (
            draw_random_segment(documents, index, num_second, rng)
            if is_random
            else join_sentences(document, split, end)
        )
        yield *truncate(first, second, max_tokens, rng), int(is_random)
        start = split if is_random else end


def find_end(document, start, target):
    num_tokens = 0
    for end in range(start, len(document)):
        num_tokens += len(document[end])
        if num_tokens >= target:
            return end + 1
    return len(document)


def join_sentences(document, start, end):
    return [token for sentence in document[start:end] for token in sentence]


def draw_random_segment(documents, index, target, rng):
    other_index = int(rng.integers(len(documents) - 1))
    other = documents[other_index + (other_index >= index)]
    start = int(rng.integers(len(other)))
    return join_sentences(other, start, find_end(other, start, target))


def truncate(first, second, max_tokens, rng):
    num_second = min(len(second), max(max_tokens // 2, max_tokens - len(first)))
    num_first = min(len(first), max_tokens - num_second)
    return trim(first, num_first, rng), trim(second, num_second, rng)


def trim(ids, length, rng):
    front = int(rng.binomial(len(ids) - length, 0.5))
    return ids[front : front + length]
