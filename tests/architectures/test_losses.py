"""Cross-entropy has TensorFlow's value and gradient; accuracy equals that of Keras."""

import gc
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.architectures.losses import CrossEntropy, GlobalBatchMean, TopAccuracy, cross_entropy

TOLERANCE = 5e-6  # for losses up to 20; measured: 9.5e-7


@pytest.fixture
def logits_and_ids():
    rng = np.random.default_rng(0)
    return rng.normal(0, 3, (3, 5, 301)).astype("float32"), rng.integers(0, 301, (3, 5)).astype("int32")


@pytest.mark.parametrize("jit_compile", [False, True])
def test_cross_entropy_equals_tensorflow_in_value_and_gradient(jit_compile, logits_and_ids):
    logits, ids = logits_and_ids
    weights = tf.constant(np.random.default_rng(1).random((3, 5)).astype("float32"))

    def value_and_gradient(compute_loss):
        @tf.function(jit_compile=jit_compile)
        def run(logits):
            with tf.GradientTape() as tape:
                tape.watch(logits)
                losses = compute_loss(logits)
                total = tf.reduce_sum(losses * weights)
            return losses, tape.gradient(total, logits)

        return run(tf.constant(logits))

    ours = value_and_gradient(lambda logits: cross_entropy(logits, ids))
    theirs = value_and_gradient(lambda logits: tf.nn.sparse_softmax_cross_entropy_with_logits(ids, logits))
    for our, their in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(our, their, rtol=0, atol=TOLERANCE)


def test_cross_entropy_of_huge_logits_is_finite():
    logits = np.array([[1e4, -1e4, 0.0], [-1e30, 1e30, 0.0]], "float32")
    np.testing.assert_allclose(cross_entropy(logits, np.array([0, 1])), [0.0, 0.0], rtol=0, atol=0)
    np.testing.assert_allclose(cross_entropy(logits[:1], np.array([1])), [2e4], rtol=1e-7)


def test_mean_divides_by_the_weights_of_the_global_batch(logits_and_ids):
    logits, ids = logits_and_ids
    weights = np.zeros((3, 5), "float32")
    weights[0, 1], weights[2, :] = 1.0, 0.5
    losses = cross_entropy(logits, ids).numpy()
    expected = (losses * weights).sum() / weights.sum()
    np.testing.assert_allclose(
        GlobalBatchMean(CrossEntropy(), "mlm_logits")(ids, logits, weights), expected, rtol=0, atol=TOLERANCE
    )
    assert GlobalBatchMean(CrossEntropy(), "mlm_logits")(ids, logits, np.zeros((3, 5), "float32")) == 0.0


def test_accuracy_equals_keras(logits_and_ids):
    logits, ids = logits_and_ids
    ids[:, :2] = logits[:, :2].argmax(axis=-1)
    weights = np.random.default_rng(2).random((3, 5)).astype("float32")
    ours, theirs = TopAccuracy(), keras.metrics.SparseCategoricalAccuracy()
    for metric in (ours, theirs):
        metric.update_state(ids, logits, weights)
    np.testing.assert_allclose(ours.result(), theirs.result(), rtol=0, atol=1e-7)
    assert 0.3 < float(ours.result()) < 0.7


@pytest.mark.parametrize(
    "loss_or_metric", [TopAccuracy(name="a"), GlobalBatchMean(CrossEntropy(), "mlm_logits", name="b")]
)
def test_config_restores_losses_and_metrics(loss_or_metric):
    restored = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss_or_metric))
    assert type(restored) is type(loss_or_metric)
    assert restored.name == loss_or_metric.name


def test_training_step_is_freed_with_its_graph():
    def gradient(logits, ids):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            loss = cross_entropy(logits, ids)
        return tape.gradient(loss, logits)

    step = tf.function(
        gradient, autograph=False
    )  # AutoGraph fails on Python 3.13, and a failed conversion keeps the graph alive
    step = step.get_concrete_function(tf.TensorSpec((3, 7)), tf.TensorSpec((3,), tf.int32))
    graph = weakref.ref(step.graph)
    del step
    gc.collect()
    assert graph() is None


def test_global_batch_mean_keeps_its_name_in_keras_files():
    """`.keras` files of earlier versions were saved with the name StepMean."""
    assert keras.saving.get_registered_name(GlobalBatchMean) == "bert_keras>StepMean"
