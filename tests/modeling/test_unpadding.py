"""Unpadding changes neither the vectors of real tokens nor the gradients."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_keras as bk

TOLERANCE = 2e-6  # measured: 7e-7
FEATURES = ("token_ids", "padding_mask", "segment_ids")


@pytest.fixture
def batch(make_batch):
    """Sequences of several lengths; the first one is empty."""
    batch = make_batch(*FEATURES)
    batch["padding_mask"][0] = 0
    assert len(set(batch["padding_mask"].sum(axis=1))) > 2
    return batch


@pytest.fixture
def packed(make_batch):
    """Sequences with two packed examples each."""
    batch = make_batch(*FEATURES)
    second = np.arange(batch["token_ids"].shape[1]) > 2
    return {**batch, "pack_ids": (second + 1).astype("int32") * batch["padding_mask"]}


@pytest.fixture
def both(sizes):
    """A function that runs an encoder on a batch without and with unpadding."""
    encoder = bk.BertEncoder(bk.BertConfig(**{**sizes, "hidden_dropout_rate": 0.0, "attention_dropout_rate": 0.0}))

    def run(batch, **options) -> list[dict]:
        outputs = []
        for encoder.unpad_in_training in (False, True):
            outputs.append(tf.function(lambda: encoder(batch, training=True, **options), autograph=False)())
        return outputs

    run.encoder = encoder
    return run


@pytest.mark.parametrize("kind", ["batch", "packed"])
def test_unpadding_keeps_real_tokens_and_zeros_padding(kind, both, request):
    batch = request.getfixturevalue(kind)
    whole, skipping = both(batch, return_hidden_states=True, return_attention_scores=True)
    real = batch["padding_mask"].astype(bool)
    filled = real.any(axis=1)
    assert not real.all()
    states = [(one["sequence_output"], *one["hidden_states"]) for one in (whole, skipping)]
    for theirs, ours in zip(*states, strict=True):
        np.testing.assert_allclose(ours.numpy()[real], theirs.numpy()[real], rtol=0, atol=TOLERANCE)
        assert not ours.numpy()[filled][~real[filled]].any()
    np.testing.assert_allclose(
        skipping["pooled_output"][filled], whole["pooled_output"][filled], rtol=0, atol=TOLERANCE
    )
    for theirs, ours in zip(whole["attention_scores"], skipping["attention_scores"], strict=True):
        readers = np.broadcast_to(real[:, None, :], theirs.shape[:3])
        np.testing.assert_allclose(ours.numpy()[readers], theirs.numpy()[readers], rtol=0, atol=TOLERANCE)


def test_unpadding_does_not_change_query_positions(both, batch):
    filled = batch["padding_mask"].any(axis=1)
    places = np.minimum([[0, 2, 1]], batch["padding_mask"].sum(axis=1, keepdims=True) - 1).clip(0).astype("int32")
    theirs, ours = (one["sequence_output"].numpy() for one in both(batch, query_positions=places))
    np.testing.assert_allclose(ours[filled], theirs[filled], rtol=0, atol=TOLERANCE)
    assert np.isfinite(ours).all()


def test_batch_of_empty_sequences_has_finite_outputs(both, batch):
    """A replica can get such a share of the last batch."""
    batch["padding_mask"][:] = 0
    places = np.zeros((len(batch["token_ids"]), 1), "int32")
    _, ours = both(batch, query_positions=places)
    assert np.isfinite(ours["sequence_output"]).all()


def test_unpadding_does_not_change_gradients(both, batch):
    encoder, gradients = both.encoder, []
    readers = tf.random.stateless_normal((*batch["token_ids"].shape, encoder.config.hidden_dim), [1, 2])
    readers *= batch["padding_mask"][:, :, None]
    weights = [weight.value for weight in encoder.trainable_weights if "pooler" not in weight.path]
    for encoder.unpad_in_training in (False, True):
        with tf.GradientTape() as tape:
            read = tf.reduce_sum(encoder(batch, training=True)["sequence_output"] * readers)
        gradients.append([tf.convert_to_tensor(gradient) for gradient in tape.gradient(read, weights)])
    for theirs, ours in zip(*gradients, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_unpad_in_training_does_not_affect_inference(both, batch):
    outputs = []
    for both.encoder.unpad_in_training in (False, True):
        outputs.append(both.encoder(batch)["sequence_output"].numpy())
    np.testing.assert_array_equal(*outputs)


def test_unpad_turns_xla_off_or_raises(make_model):
    model = make_model("classifier")
    model.compile("sgd", unpad=True)
    assert model.jit_compile is False
    assert model.encoder.unpad_in_training
    with pytest.raises(bk.InputError, match="set jit_compile=False"):
        model.compile("sgd", unpad=True, jit_compile=True)
    model.compile(keras.optimizers.SGD())
    assert not model.encoder.unpad_in_training
