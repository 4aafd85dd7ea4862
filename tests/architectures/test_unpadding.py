"""Unpadding changes neither the vectors of real tokens nor the gradients."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_keras as bk

TOLERANCE = 2e-6  # measured: 7e-7
SMALL = {"num_layers": 2, "hidden_dropout_rate": 0.0, "attention_dropout_rate": 0.0}
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


@pytest.fixture(scope="module")
def run_both(sizes):
    """Function that runs an encoder on a batch without and with unpadding."""
    encoder = bk.BertEncoder(bk.BertConfig(**{**sizes, **SMALL}))

    def run(batch, **options) -> list[dict]:
        outputs = []
        for encoder.unpad_in_training in (False, True):
            outputs.append(tf.function(lambda: encoder(batch, training=True, **options), autograph=False)())
        return outputs

    run.encoder = encoder
    return run


@pytest.mark.parametrize("kind", ["batch", "packed"])
def test_unpadding_keeps_real_tokens_and_zeros_padding(kind, run_both, request):
    batch = request.getfixturevalue(kind)
    padded, unpadded = run_both(batch, return_hidden_states=True, return_attention_scores=True)
    real = batch["padding_mask"].astype(bool)
    is_not_empty = real.any(axis=1)
    assert not real.all()
    states = [(one["sequence_output"], *one["hidden_states"]) for one in (padded, unpadded)]
    for theirs, ours in zip(*states, strict=True):
        np.testing.assert_allclose(ours.numpy()[real], theirs.numpy()[real], rtol=0, atol=TOLERANCE)
        assert not ours.numpy()[is_not_empty][~real[is_not_empty]].any()
    np.testing.assert_allclose(
        unpadded["pooled_output"][is_not_empty], padded["pooled_output"][is_not_empty], rtol=0, atol=TOLERANCE
    )
    for theirs, ours in zip(padded["attention_scores"], unpadded["attention_scores"], strict=True):
        queries = np.broadcast_to(real[:, None, :], theirs.shape[:3])
        np.testing.assert_allclose(ours.numpy()[queries], theirs.numpy()[queries], rtol=0, atol=TOLERANCE)


def test_unpadding_does_not_change_query_positions(run_both, batch):
    is_not_empty = batch["padding_mask"].any(axis=1)
    positions = np.minimum([[0, 2, 1]], batch["padding_mask"].sum(axis=1, keepdims=True) - 1).clip(0).astype("int32")
    theirs, ours = (one["sequence_output"].numpy() for one in run_both(batch, query_positions=positions))
    np.testing.assert_allclose(ours[is_not_empty], theirs[is_not_empty], rtol=0, atol=TOLERANCE)
    assert np.isfinite(ours).all()


def test_batch_of_empty_sequences_has_finite_outputs(run_both, batch):
    """The last batch of a replica can be empty."""
    batch["padding_mask"][:] = 0
    positions = np.zeros((len(batch["token_ids"]), 1), "int32")
    _, ours = run_both(batch, query_positions=positions)
    assert np.isfinite(ours["sequence_output"]).all()


def test_unpad_in_training_does_not_affect_inference(run_both, batch):
    outputs = []
    for run_both.encoder.unpad_in_training in (False, True):
        outputs.append(run_both.encoder(batch)["sequence_output"].numpy())
    np.testing.assert_array_equal(*outputs)


def test_unpad_turns_xla_off_or_raises(make_model):
    model = make_model("classifier", num_layers=1)
    model.compile("sgd", unpad=True)
    assert model.jit_compile is False
    assert model.encoder.unpad_in_training
    with pytest.raises(bk.InputError, match="set jit_compile=False"):
        model.compile("sgd", unpad=True, jit_compile=True)
    model.compile(keras.optimizers.SGD())
    assert not model.encoder.unpad_in_training
