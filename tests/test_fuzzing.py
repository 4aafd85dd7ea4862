"""The fuzzer creates the same inputs from the same seed, and detects every kind of failure."""

import json
import random
import sys

import pytest

import bert_keras as bk
from tests import fuzzing
from tests.fuzzing import fuzz, mutate_bytes, mutate_json, mutate_toml, mutate_words

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

VALUE = {"a": 1, "b": ["x", {"c": 0.5}], "d": None}
MUTATIONS = {
    "bytes": lambda random: mutate_bytes(random, b'{"a": 1}'),
    "json": lambda random: mutate_json(random, VALUE),
    "toml": lambda random: mutate_toml(random, "[a]\nb = 1\nc = 'x'\n"),
    "words": lambda random: mutate_words(random, ["predict", "model", "--top", "3"]),
}


@pytest.mark.parametrize("kind", MUTATIONS)
def test_the_seed_determines_the_inputs(kind):
    def inputs(seed):
        found = []
        assert fuzz(found.append, MUTATIONS[kind], count=40, seed=seed) == {"read": 40}
        return found

    assert inputs(1) == inputs(1)
    assert inputs(1) != inputs(2)
    assert len({str(one) for one in inputs(1)}) > 30


def test_a_single_input_can_be_repeated():
    alone, found = [], []
    fuzz(found.append, MUTATIONS["json"], count=10, seed=3)
    fuzz(alone.append, MUTATIONS["json"], count=1, seed=3, first=7)
    assert alone == found[7:8]


@pytest.mark.parametrize(("kind", "parse"), [("json", json.loads), ("toml", lambda b: tomllib.loads(b.decode()))])
def test_most_structured_inputs_parse(kind, parse):
    parsed = 0
    for number in range(200):
        try:
            parse(MUTATIONS[kind](random.Random(number)))
            parsed += 1
        except (ValueError, RecursionError):
            pass
    assert 80 < parsed < 200


def test_words_contain_no_nul():
    assert not any("\0" in word for n in range(300) for word in MUTATIONS["words"](random.Random(n)))


@pytest.mark.parametrize("error", [KeyError("a"), RecursionError("deep"), SystemExit(2), MemoryError()])
def test_another_error_is_reported_with_seed_number_and_input(error):
    def read(given):
        if given == b"7":
            raise error
        raise bk.InputError("no")

    with pytest.raises(AssertionError, match=rf"seed 5, input 7: b'7'\n{type(error).__name__}"):
        fuzz(read, _counted(), count=10, seed=5)
    assert fuzz(read, _counted(), count=5, seed=5) == {"refused": 5}


def test_a_long_or_invalid_message_is_reported():
    for message, fault in (("x" * 2000, "has 2,000 characters"), ("a\ud800", "is not Unicode")):

        def read(given, message=message):
            raise bk.InputError(message)

        with pytest.raises(AssertionError, match=fault):
            fuzz(read, _counted(), count=1, seed=0)


def test_a_reader_that_needs_too_much_memory_is_reported():
    with pytest.raises(AssertionError, match=r"input 0: b'0'\nMemoryError"):
        fuzz(lambda given: bytearray(2 * fuzzing.MAX_BYTES), _counted(), count=1, seed=0)
    bytearray(1 << 20)  # the limit is removed


def _counted():
    numbers = iter(range(10**9))
    return lambda random: str(next(numbers)).encode()
