"""A SavedModel runs few rows in operations of their own, and rewritten operations return the same values."""

import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from bert_keras.export.saved_model.op_audit import read_meta_graph
from bert_keras.export.saved_model.short_texts import (
    FEW_ROWS,
    count_real_tokens,
    count_tokens,
    rewrite_saved_model,
    separate_few_rows,
)

COUNT = """
import sys, numpy as np, tensorflow as tf, tensorflow_text
model = tf.saved_model.load(sys.argv[1])
ids = {"input_ids": [[2] * 12], "attention_mask": [[1] * 12], "token_type_ids": [[0] * 12]}
function = model.signatures["ids"]
call = lambda: function(**{name: tf.constant(values) for name, values in ids.items()})["logits"].numpy()
before = call()
for variable in function.variables:
    variable.assign(tf.zeros_like(variable) if 40 in variable.shape and len(variable.shape) == 2 else variable)
print("kept" if np.allclose(before, call()) else "read again")
"""


@pytest.mark.parametrize(
    ("num_rows", "is_few"), [(0, False), (7, False), (8, True), (80, True), (81, False), (500, False)]
)
def test_8_to_80_rows_run_in_operations_of_their_own(num_rows, is_few):
    traced = []

    def run(features):
        traced.append(1)
        return {"copy": tf.constant(len(traced)), "sum": tf.reduce_sum(features["padding_mask"])}

    wrapped = separate_few_rows(run, count_tokens)
    spec = {"padding_mask": tf.TensorSpec([None, None], tf.int32)}
    function = tf.function(wrapped, autograph=False, input_signature=[spec])
    answer = function({"padding_mask": tf.ones([1, num_rows], tf.int32)})
    assert len(traced) == 2
    assert (answer["copy"] == 1) == is_few  # the branch for few rows is traced first
    assert answer["sum"] == num_rows


def test_padding_counts_unless_it_is_skipped():
    features = {"padding_mask": tf.constant([[1, 1, 0], [1, 1, 1]])}
    assert (count_tokens(features), count_real_tokens(features)) == (6, 5)


def test_heads_are_transposed_as_integers_and_short_softmax_is_split(saved):
    functions = read_meta_graph(saved("pair_classifier")).graph_def.library.function
    few = [node.op for function in functions if FEW_ROWS in function.signature.name for node in function.node_def]
    assert few.count("Softmax") == 0
    assert few.count("RealDiv") == 4  # in 2 layers, for texts and for ids
    assert few.count("Bitcast") == 2 * 4 * 4
    many = [node.op for function in functions if FEW_ROWS not in function.signature.name for node in function.node_def]
    assert many.count("Softmax") >= 4
    assert many.count("Bitcast") == 2 * 4 * 4


@pytest.mark.slow  # a new process, because TensorFlow reads the environment once
@pytest.mark.parametrize(("value", "expected"), [("1", "kept"), ("0", "read again")])
def test_tensorflow_keeps_the_weights_of_few_rows(value, expected, saved):
    # TensorFlow uses oneDNN by default only on processors with AVX-512 VNNI
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "1", "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS": value}
    command = [sys.executable, "-c", COUNT, str(saved("classifier"))]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.stdout.split("\n")[0] == expected, done.stderr[-2000:]


@pytest.mark.parametrize("permutation", [[0, 2, 1, 3], [0, 1, 3, 2], [3, 0, 2, 1]])
def test_rewritten_operations_return_the_same_values(permutation, tmp_path):
    x = np.random.default_rng(0).normal(0, 50, (2, 3, 4, 5)).astype("float32")
    x[0, 0, 0] = -10_000
    x[1, 1] = [np.nan, np.inf, -np.inf, 0.0, -0.0]

    def few_rows(x):
        return {"both": tf.nn.softmax(tf.transpose(x, permutation)), "transposed": tf.transpose(x, permutation)}

    spec = tf.TensorSpec([None, None, None, None], tf.float32, name="x")
    inner = tf.function(few_rows, experimental_attributes={"_noinline": True}).get_concrete_function(spec)
    outer = tf.function(lambda x: inner(x), autograph=False).get_concrete_function(spec)
    tf.saved_model.save(tf.Module(), str(tmp_path), signatures=outer)
    rewrite_saved_model(tmp_path)
    got = tf.saved_model.load(str(tmp_path)).signatures["serving_default"](x=tf.constant(x))
    expected = x.transpose(permutation)
    assert got["transposed"].numpy().tobytes() == np.ascontiguousarray(expected).tobytes()  # also NaN and -0
    with np.errstate(invalid="ignore"):
        probabilities = scipy.special.softmax(expected, axis=-1)
    np.testing.assert_allclose(got["both"], probabilities, rtol=1e-5, atol=1e-7)
