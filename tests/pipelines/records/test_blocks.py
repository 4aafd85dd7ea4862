"""Block bounds depend only on the text, long documents are split only if necessary, and nothing is read ahead."""

import itertools
import math
import types

import pytest

from bert_keras.pipelines.records.documents import Block, is_held_out, plan_blocks


def list_passages(documents):
    for document in documents:
        yield from [*document, ""]


def make_documents(lengths):
    """Make documents with the given numbers of distinct passages of nine bytes, including the line end."""
    return [[f"d{number:02}p{index:04}" for index in range(length)] for number, length in enumerate(lengths)]


def make_settings(**changes):
    """Make the settings that blocks depend on; `RecordSettings` has a minimum size of blocks."""
    return types.SimpleNamespace(**{"block_bytes": 100, "seed": 5, "held_out_rate": 0.3, **changes})


def plan(documents, reread=None, **changes):
    return list(plan_blocks(list_passages(documents), make_settings(**changes), reread))


def group_documents(blocks):
    """Join the parts of documents over blocks."""
    documents = {}
    for block in blocks:
        for number, part, passages in block.documents():
            assert (part > 0) == (number in documents)
            documents.setdefault(number, []).extend(passage.decode() for passage in passages)
    return [documents[number] for number in sorted(documents)]


@pytest.mark.parametrize("lengths", [[3, 5, 2, 8, 1, 1, 4], [50], [1], [20, 20, 1], [1, 40, 1, 1], [9, 9, 9], [22, 1]])
@pytest.mark.parametrize("block_bytes", [1, 100, 200, 10_000])
def test_blocks_have_every_passage_once_in_order(lengths, block_bytes):
    documents = make_documents(lengths)
    blocks = plan(documents, block_bytes=block_bytes)
    assert group_documents(blocks) == documents
    assert [block.index for block in blocks] == list(range(len(blocks)))
    assert all(block.text for block in blocks)


def test_block_ends_with_the_document_that_fills_it():
    blocks = plan(make_documents([3, 5, 5, 8, 1, 3, 4]))
    assert [[number for number, *_ in block.documents()] for block in blocks] == [[0, 1, 2], [3, 4, 5], [6]]


def test_document_is_split_at_twice_the_block_size_and_keeps_its_number():
    blocks = plan(make_documents([1, 50, 3]))
    assert [[entry[:2] for entry in block.documents()] for block in blocks] == [
        [(0, 0), (1, 0)],
        [(1, 1)],
        [(1, 2), (2, 0)],
    ]
    assert max(len(block.text) for block in blocks) < 200 + 9  # the last passage is not split


def test_document_that_ends_at_a_split_leaves_no_empty_part():
    blocks = plan(make_documents([20, 3]))
    assert [[entry[:2] for entry in block.documents()] for block in blocks] == [[(0, 0)], [(1, 0)]]


def test_empty_documents_and_repeated_ends_have_no_effect():
    passages = ["", "", "a", "", "", "b", "c", "", ""]
    [block] = plan_blocks(passages, make_settings())
    assert list(block.documents()) == [(0, 0, [b"a"]), (1, 0, [b"b", b"c"])]
    assert plan([]) == []
    assert list(plan_blocks(["a"], make_settings())) == [Block(0, 0, 0, b"a")]


def test_text_is_read_only_up_to_the_requested_block():
    num_read = 0

    def passages():
        nonlocal num_read
        for number in itertools.count():
            num_read += 1
            yield f"{number:09}" if number % 5 else ""

    blocks = plan_blocks(passages(), make_settings())
    for number in range(1, 30):
        next(blocks)
        assert num_read <= 30 * number


def test_pool_is_the_last_previous_document_of_its_split():
    documents = make_documents([7] * 60)
    blocks = plan(documents)
    train = [number for number in range(60) if not is_held_out(5, number, 0.3)]
    held_out = [number for number in range(60) if is_held_out(5, number, 0.3)]
    for block in blocks:
        for numbers, pool in zip((train, held_out), block.pools, strict=True):
            previous = [number for number in numbers if number < block.first_document]
            expected = "\n".join(documents[previous[-1]]).encode() if previous else b""
            assert pool == expected


def test_pool_of_a_document_part_never_contains_the_document():
    documents = make_documents([2, 100, 100])
    for block in plan(documents, held_out_rate=0):
        for number, _, _ in block.documents():
            assert f"d{number:02}".encode() not in block.pools[0]
        assert bool(block.pools[0]) == bool(block.first_document)


def test_text_is_reread_if_its_first_document_fills_a_block():
    documents = make_documents([100, 3, 3])
    num_readings = 0

    def reread():
        nonlocal num_readings
        num_readings += 1
        return list_passages(documents)

    blocks = plan(documents, held_out_rate=0, reread=reread)
    alone = [block for block in blocks if [number for number, *_ in block.documents()] == [0]]
    assert len(alone) >= 4
    assert {block.pools[0][:8] for block in alone} == {b"d01p0000"}
    assert num_readings == 1
    assert plan(documents, held_out_rate=0)[0].pools == (b"", b"")
    assert plan(documents[:1], reread=lambda: list_passages(documents[:1]))[0].pools == (b"", b"")
    plan(make_documents([3] * 50), reread=reread)
    assert num_readings == 1  # only if necessary


def test_pool_size_is_bounded():
    documents = [["x" * 1000] * 500, ["y"] * 5000]
    blocks = plan(documents, block_bytes=300_000)
    assert max(len(block.pools[0]) for block in blocks) < 1 << 16


def test_different_blocks_have_different_digests():
    fields = (3, 7, 0, b"text\n\nmore", (b"a", b"b"))
    changes = [
        (2, *fields[1:]),
        (3, 6, *fields[2:]),
        (3, 7, 1, *fields[3:]),
        (*fields[:3], b"text\n\nmor", (b"ea", b"b")),
    ]
    changes.append((*fields[:4], (b"ab", b"")))
    digests = {Block(*values).digest for values in (fields, *changes)}
    assert len(digests) == 6
    assert Block(*fields).digest in digests


@pytest.mark.parametrize("rate", [0.01, 0.3])
def test_held_out_rate_holds_within_three_standard_errors(rate):
    number = 100_000
    share = sum(is_held_out(3, document, rate) for document in range(number)) / number
    assert abs(share - rate) < 3 * math.sqrt(rate * (1 - rate) / number)
    held_out = [[is_held_out(seed, document, rate) for document in range(1000)] for seed in (3, 4)]
    assert held_out[0] != held_out[1]


def test_first_two_documents_are_never_held_out_and_rate_0_holds_out_none():
    assert not any(is_held_out(seed, document, 0.999) for seed in range(100) for document in (0, 1))
    assert is_held_out(0, 2, 0.999)
    assert not any(is_held_out(0, document, 0) for document in range(1000))
