"""Random strings: no crash, Google's ids, correct offsets. The long runs print a summary."""

import concurrent.futures
import multiprocessing
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.marks import slow

from .tokenizer_checks import assert_ids_equal_googles, assert_offsets_are_correct, rich_pair
from .tokenizer_texts import random_characters, random_texts

CHARACTERS = st.one_of(
    st.sampled_from(random_characters()),
    st.characters(exclude_categories=["Cs"]),
    st.characters(categories=["Mn", "Mc", "Lm", "Sk"]),
    st.sampled_from("aA Σ\u0301.\u00ad[]"),
)
TEXTS = st.lists(st.text(CHARACTERS, max_size=40), min_size=1, max_size=20)
FUZZ = settings(
    derandomize=True,
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@FUZZ
@given(texts=TEXTS)
def test_uncased_ids_and_offsets_of_generated_strings(texts):
    assert_offsets_are_correct(*rich_pair(lowercase=True), texts)


@pytest.mark.slow
@FUZZ
@given(texts=TEXTS)
def test_cased_ids_and_offsets_of_generated_strings(texts):
    assert_offsets_are_correct(*rich_pair(lowercase=False), texts)


@settings(FUZZ, max_examples=30)
@given(texts=st.lists(st.binary(max_size=60), min_size=1, max_size=20))
def test_ids_and_offsets_of_generated_bytes(texts):
    assert_offsets_are_correct(*rich_pair(lowercase=True), texts)


@pytest.mark.parametrize("lowercase", [True, *slow(False)], ids=["uncased", "cased"])
def test_random_strings_of_all_lengths_up_to_5_000(lowercase):
    lengths = np.array([*range(0, 300, 7), 511, 1000, 2500, 4999, 5000])
    texts = random_texts(len(lengths), seed=12, lengths=lengths)
    assert [len(text) for text in texts] == lengths.tolist()
    assert_offsets_are_correct(*rich_pair(lowercase=lowercase), texts)
    assert_ids_equal_googles(*rich_pair(lowercase=lowercase), random_texts(3000, seed=13))


NUM_BATCHES, BATCH = 100, 10_000


def check_batch(seed):
    """Check the ids and offsets of one batch; return the numbers of strings, characters and tokens."""
    texts = random_texts(BATCH, seed=1000 + seed)
    num_tokens = assert_offsets_are_correct(*rich_pair(lowercase=seed % 2 == 0), texts)
    return len(texts), sum(map(len, texts)), num_tokens


@pytest.mark.slow
def test_a_million_random_strings():
    """Half of the batches are uncased. Two processes run them, because the reference is slow Python code."""
    start = time.perf_counter()
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        counts = np.array(list(pool.map(check_batch, range(NUM_BATCHES))))
    num_strings, num_characters, num_tokens = counts.sum(axis=0).tolist()
    assert num_strings == 1_000_000
    seconds = time.perf_counter() - start
    print(
        f"{num_strings:,} strings, {num_characters:,} characters, {num_tokens:,} tokens, 0 differences, {seconds:.0f} s"
    )
