"""Sequences that are encoded in a graph equal those of `encode`."""

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.pipelines.batches.encoding import encode, has_most_context
from bert_keras.pipelines.batches.packing import encode_in_graph, has_most_context_in_graph
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from tests.marks import slow_except

WORDS = [f"w{number}" for number in range(23)]
TOKENIZER = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])


def random_texts(rng, number, max_words):
    return [" ".join(rng.choice(WORDS, rng.integers(0, max_words))) for _ in range(number)]


CASES = {
    "truncated": (False, {"max_sequence_length": 13}),
    "windows": (False, {"max_sequence_length": 11, "window_overlap": 3}),
    "windows without overlap": (False, {"max_sequence_length": 9, "window_overlap": 0}),
    "truncated pairs": (True, {"max_sequence_length": 17}),
    "pairs in windows": (True, {"max_sequence_length": 17, "window_overlap": 5}),
    "questions": (True, {"max_sequence_length": 19, "window_overlap": 4, "max_first_length": 6}),
}


@pytest.mark.parametrize("case", slow_except(CASES, quick=["windows", "questions"]))
def test_sequences_in_a_graph_equal_those_of_encode(case):
    pairs, settings = CASES[case]
    rng = np.random.default_rng(7)
    columns = [random_texts(rng, 31, 40), *([random_texts(rng, 31, 50)] if pairs else [])]

    @tf.function(input_signature=[[tf.TensorSpec([None], tf.string)] * len(columns)], autograph=False)
    def in_graph(texts):
        sequences = encode_in_graph(TOKENIZER, [TOKENIZER.tokenize(column) for column in texts], **settings)
        return sequences, has_most_context_in_graph(sequences)

    sequences, best = in_graph([tf.constant(column) for column in columns])
    expected = encode(TOKENIZER, *columns, **settings)
    is_real = sequences.features["padding_mask"].numpy() == 1
    assert is_real.shape[1] == expected.lengths.max()
    np.testing.assert_array_equal(is_real.sum(axis=1), expected.lengths)
    np.testing.assert_array_equal(sequences.features["token_ids"].numpy()[is_real], expected.token_ids)
    np.testing.assert_array_equal(sequences.features["segment_ids"].numpy()[is_real] == 1, expected.is_second & pairs)
    np.testing.assert_array_equal(sequences.examples, expected.examples)
    np.testing.assert_array_equal(best.numpy()[is_real], has_most_context(expected))
    assert not best.numpy()[~is_real].any()


def test_no_texts_give_no_sequences():
    nothing = tf.RaggedTensor.from_row_splits(tf.zeros([0], tf.int32), tf.zeros([1], tf.int64))
    sequences = encode_in_graph(TOKENIZER, [nothing], max_sequence_length=9, window_overlap=2)
    assert sequences.features["token_ids"].shape[0] == 0
    assert has_most_context_in_graph(sequences).shape[0] == 0
