"""With `query_positions`, the last block computes only the vectors at these positions, without changing them."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.marks import slow_except

TOLERANCE = 1e-5  # measured: 2.2e-6
POSITIONS = np.array([[0, 3, 3], [8, 0, 1], [2, 1, 12]], "int32")


def packed(batch):
    """Return the batch with two packed examples per sequence."""
    positions = np.arange(batch["token_ids"].shape[1])
    return {**batch, "pack_ids": ((positions > 2) + 1).astype("int32") * batch["padding_mask"]}


LAYOUTS = {"plain": dict, "packed": packed}


@pytest.mark.parametrize(
    ("layout", "changes", "jit_compile"),
    slow_except(
        itertools.product(LAYOUTS, [{}, {"num_layers": 1}, {"embedding_dim": 22}], [False, True]),
        quick=[("packed", {}, False)],
    ),
    ids=str,
)
def test_vectors_at_query_positions_equal_those_of_the_full_sequence(
    layout, changes, jit_compile, make_model, make_batch
):
    encoder, batch = make_model("encoder_without_pooler", **changes), LAYOUTS[layout](make_batch())
    selected = tf.function(lambda: encoder(batch, query_positions=POSITIONS), jit_compile=jit_compile)()
    assert list(selected) == ["sequence_output"]
    full = encoder(batch)["sequence_output"].numpy()
    expected = np.take_along_axis(full, POSITIONS[:, :, None], axis=1)
    np.testing.assert_allclose(selected["sequence_output"], expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize(
    "kind",
    slow_except(["pretrainer", "masked_lm", "classifier", "classifier_without_pooler"], quick=["pretrainer"]),
)
def test_head_outputs_do_not_depend_on_query_positions(kind, make_model, make_batch, run):
    extra_features = ["mask_positions"] if kind in ("pretrainer", "masked_lm") else []
    model, batch = make_model(kind), make_batch("token_ids", "padding_mask", "segment_ids", *extra_features)
    selected, full = run(model, batch), run(model, batch, return_hidden_states=True, return_attention_scores=True)
    assert set(full) - set(selected) == {"hidden_states", "attention_scores"}
    for name, value in selected.items():
        np.testing.assert_allclose(value, full[name], rtol=0, atol=TOLERANCE, err_msg=name)


def test_query_positions_do_not_change_gradients(make_model, make_batch):
    encoder, batch = make_model("encoder_without_pooler", num_layers=2), make_batch()
    factors = np.random.default_rng(4).normal(size=(3, 3, 30)).astype("float32")

    def gradients(compute_vectors):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(compute_vectors() * factors)
        return tape.gradient(loss, [weight.value for weight in encoder.trainable_weights])

    selected = gradients(lambda: encoder(batch, query_positions=POSITIONS)["sequence_output"])
    full = gradients(lambda: tf.gather(encoder(batch)["sequence_output"], POSITIONS, batch_dims=1))
    for ours, theirs, weight in zip(selected, full, encoder.trainable_weights, strict=True):
        ours, theirs = tf.convert_to_tensor(ours), tf.convert_to_tensor(theirs)
        scale = max(1.0, float(tf.reduce_max(tf.abs(theirs))))
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=TOLERANCE * scale, err_msg=weight.path)


def test_query_positions_save_flops(make_model, make_batch):
    """FLOPs as counted by TensorFlow's profiler."""
    encoder, batch = make_model("encoder_without_pooler", num_layers=1), make_batch()

    def flops(**options):
        function = tf.function(lambda ids: encoder({**batch, "token_ids": ids}, **options)["sequence_output"])
        graph = function.get_concrete_function(tf.constant(batch["token_ids"])).graph
        options = tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()
        options["output"] = "none"
        return tf.compat.v1.profiler.profile(graph, options=options).total_float_ops

    assert flops(query_positions=POSITIONS) < 0.6 * flops()


def test_functional_model_supports_query_positions(make_model):
    encoder = make_model("encoder", num_layers=1)
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in ("token_ids", "padding_mask")}
    model = keras.Model(inputs, encoder(inputs)["pooled_output"])
    ids = np.array([[2, 17, 30, 3]], "int32")
    features = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    np.testing.assert_allclose(model(features), encoder(features)["pooled_output"], rtol=0, atol=TOLERANCE)
