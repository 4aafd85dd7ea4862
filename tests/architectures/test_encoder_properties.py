"""Properties of BERT encoders that hold for any weights."""

import numpy as np
import pytest

import bert_keras as bk
from tests.conftest import MODELS
from tests.marks import slow

POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")
TOLERANCE = 1e-5  # single texts vs. texts in a padded or packed batch or a graph; measured: 3.4e-6


DROPOUT_KINDS = ("encoder", "pretrainer", "electra_with_generator")


def with_slow_ones(*kinds: str) -> list:
    """Return parameters for the kinds of models in the quick suite, and slow cases for all other kinds."""
    return [*kinds, *slow(*(kind for kind in MODELS if kind not in kinds))]


@pytest.fixture
def use_policy():
    """Function that sets the global dtype policy until the end of the test."""
    import keras

    before = keras.config.dtype_policy()
    yield keras.config.set_dtype_policy
    keras.config.set_dtype_policy(before)


def test_batching_does_not_change_outputs(shared_model, make_batch, run):
    model, batch = shared_model("pretrainer"), make_batch()
    batched = run(model, batch)
    for row in range(3):
        separate = run(model, {name: value[row : row + 1] for name, value in batch.items()})
        for name, value in separate.items():
            np.testing.assert_allclose(value[0], batched[name][row], rtol=0, atol=TOLERANCE, err_msg=name)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
def test_sequence_of_padding_only_has_finite_outputs(policy, packed, shared_model, make_batch, run, use_policy):
    use_policy(policy)
    batch = make_batch(lengths=(13, 0, 4))
    if packed:
        batch["pack_ids"] = batch["padding_mask"]
    outputs = run(shared_model("encoder"), batch, return_hidden_states=True, return_attention_scores=True)
    for name, value in outputs.items():
        for part in value if isinstance(value, tuple) else (value,):
            assert np.isfinite(part.astype("float32")).all(), name


@pytest.mark.parametrize("changes", [{}, {"position_type": "sinusoidal", "num_layers": 1}], ids=str)
def test_packed_examples_do_not_attend_to_each_other(changes, shared_model, make_batch, run):
    encoder = shared_model("encoder", **changes)
    first = make_batch(lengths=(8, 6), length=8, seed=1)
    second = make_batch(lengths=(5, 7), length=7, seed=2)
    names = ("token_ids", "segment_ids", "padding_mask")
    packed = {name: np.zeros((2, 17), "int32") for name in (*names, "pack_ids")}
    starts = (8, 6)  # the second example directly follows the first
    for row, start in enumerate(starts):
        length = int(second["padding_mask"][row].sum())
        for name in names:
            packed[name][row, :start] = first[name][row, :start]
            packed[name][row, start : start + length] = second[name][row, :length]
        packed["pack_ids"][row, :start], packed["pack_ids"][row, start : start + length] = 1, 2

    batched = run(encoder, packed)["sequence_output"]
    separate = run(encoder, first)["sequence_output"], run(encoder, second)["sequence_output"]
    for row, start in enumerate(starts):
        length = int(second["padding_mask"][row].sum())
        np.testing.assert_allclose(batched[row, :start], separate[0][row, :start], rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(
            batched[row, start : start + length], separate[1][row, :length], rtol=0, atol=TOLERANCE
        )


def test_one_packed_example_per_sequence_equals_no_packing(shared_model, make_batch, run):
    encoder, batch = shared_model("encoder"), make_batch()
    packed = run(encoder, {**batch, "pack_ids": batch["padding_mask"]})
    plain = run(encoder, batch)
    real = batch["padding_mask"].astype(bool)
    np.testing.assert_allclose(packed["sequence_output"][real], plain["sequence_output"][real], rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(packed["pooled_output"], plain["pooled_output"], rtol=0, atol=TOLERANCE)


def test_missing_segment_ids_default_to_zeros(shared_model, make_batch, run):
    encoder, batch = shared_model("encoder"), make_batch()
    batch["segment_ids"] = np.zeros_like(batch["segment_ids"])
    absent = {name: value for name, value in batch.items() if name != "segment_ids"}
    for name, value in run(encoder, batch).items():
        np.testing.assert_array_equal(run(encoder, absent)[name], value)


@pytest.mark.parametrize("change", ["token_ids", "segment_ids", "padding_mask", "order"])
def test_every_feature_changes_the_outputs(change, shared_model, make_batch, run):
    encoder, batch = shared_model("encoder"), make_batch(lengths=(13, 13, 13))
    other = {name: value.copy() for name, value in batch.items()}
    if change == "order":  # the same tokens in a different order
        other["token_ids"][:, [4, 5]] = other["token_ids"][:, [5, 4]]
    else:
        other[change][:, 5] = {"token_ids": 1, "segment_ids": 1 - other["segment_ids"][:, 5], "padding_mask": 0}[change]
    difference = run(encoder, other)["pooled_output"] - run(encoder, batch)["pooled_output"]
    assert np.abs(difference).max(axis=1).min() > 1e-3


def test_sinusoidal_positions_follow_the_formula(sizes, make_batch, run, perturb):
    # PE(p, 2i) = sin(p / 10000^(2i/d)), PE(p, 2i+1) = cos(p / 10000^(2i/d)): Vaswani et al. 2017, 3.5
    sizes = {**sizes, "num_layers": 1}
    learned = bk.BertEncoder(bk.BertConfig(**sizes))
    perturb(learned)
    table = np.zeros((17, 30))
    for position in range(17):
        for i in range(15):
            angle = position / 10000 ** (2 * i / 30)
            table[position, 2 * i], table[position, 2 * i + 1] = np.sin(angle), np.cos(angle)
    weights = {suffix(weight): weight for weight in learned.weights}
    weights.pop("embeddings/position/embeddings").assign(table.astype("float32"))

    computed = bk.BertEncoder(bk.BertConfig(**sizes, position_type="sinusoidal"))
    assert {suffix(weight) for weight in computed.weights} == set(weights)
    for weight in computed.weights:
        weight.assign(weights[suffix(weight)])
    for name, value in run(learned, make_batch()).items():
        np.testing.assert_allclose(run(computed, make_batch())[name], value, rtol=0, atol=TOLERANCE)


def suffix(weight) -> str:
    """Return a weight's path without the model's name, which contains a counter."""
    return weight.path.split("/", 1)[1]


@pytest.mark.slow  # up to 1.3 GB that TensorFlow never frees; the quick suite tests `plan base` instead
@pytest.mark.parametrize(
    ("preset", "model_class", "parameters"),
    [
        # computed from the sizes, and published as 110 M and 340 M (Devlin et al. 2018)
        ("base", "BertPretrainer", 110_106_428),
        ("base", "BertEncoder", 109_482_240),
        ("large", "BertEncoder", 335_141_888),
    ],
)
def test_published_sizes_have_the_published_parameter_counts(preset, model_class, parameters):
    model = bk.BertEncoder(bk.BertConfig.from_preset(preset))
    if model_class != "BertEncoder":
        model = getattr(bk, model_class)(model)
    assert model.count_params() == parameters


def test_layer_norms_are_float32_under_mixed_precision(make_model, make_batch, run, use_policy):
    # the sum of squares of embeddings near 300 exceeds float16's maximum of 65,504; the norm cancels the factor
    full = make_model("encoder", num_layers=1)
    use_policy("mixed_float16")
    half = make_model("encoder", num_layers=1)
    for model in (full, half):
        for weight in model.weights:
            if "embeddings/" in weight.path and weight.path.endswith("/embeddings"):
                weight.assign(weight * 1000.0)
    ours, expected = run(half, make_batch())["sequence_output"], run(full, make_batch())["sequence_output"]
    np.testing.assert_allclose(ours.astype("float32"), expected, rtol=0, atol=0.04)  # measured: 0.0044


def test_bfloat16_is_close_to_float32(shared_model, make_batch, run, use_policy):
    full = run(shared_model("pretrainer"), make_batch(), return_hidden_states=True)
    use_policy("mixed_bfloat16")
    half = run(shared_model("pretrainer"), make_batch(), return_hidden_states=True)
    for ours, expected in zip(half["hidden_states"], full["hidden_states"], strict=True):
        difference = ours.astype("float32") - expected
        assert np.sqrt(np.mean(difference**2)) < 0.02  # measured: 0.0104; the mean square of the states is near 1
    for name in ("mlm_logits", "next_sentence_logits"):
        np.testing.assert_allclose(half[name], full[name], rtol=0, atol=0.2, err_msg=name)  # measured: 0.075


@pytest.mark.parametrize("kind", ["encoder", "pretrainer", *slow("classifier", "masked_lm")])
def test_missing_feature_is_named_in_the_error(kind, shared_model, make_batch):
    with pytest.raises(bk.InputError, match=r"lacks.*padding_mask.*token_ids") as caught:
        shared_model(kind)({"token_ids": make_batch()["token_ids"]})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["encoder", "pretrainer", *slow("classifier", "masked_lm")])
def test_unknown_feature_is_named_in_the_error(kind, shared_model, make_batch):
    with pytest.raises(bk.InputError, match=r"unexpected.*input_mask") as caught:
        shared_model(kind)({**make_batch(), "input_mask": make_batch()["padding_mask"]})
    assert "\n" not in str(caught.value)


def test_tensor_instead_of_features_is_rejected(shared_model, make_batch):
    with pytest.raises(bk.InputError, match="dict of features"):
        shared_model("encoder")(make_batch()["token_ids"])


def test_batch_with_too_many_positions_is_rejected(shared_model, make_batch):
    with pytest.raises(bk.InputError, match=r"18.*17"):
        shared_model("encoder")(make_batch(length=18))


@pytest.mark.parametrize("kind", with_slow_ones(*DROPOUT_KINDS))
def test_dropout_is_applied_only_in_training(kind, make_model, make_batch, run):
    batch = make_batch()
    model = make_model(kind, num_layers=1, hidden_dropout_rate=0.4, attention_dropout_rate=0.4)
    for name, value in run(model, batch).items():
        np.testing.assert_array_equal(run(model, batch)[name], value)
        assert not np.array_equal(model(batch, training=True)[name].numpy(), value), name


def test_new_weights_have_the_distribution_of_bert():
    encoder = bk.BertEncoder(bk.BertConfig.from_preset("tiny", vocabulary_size=3001, initializer_range=0.03))
    for weight in encoder.weights:
        values, kind = np.asarray(weight), weight.path.rsplit("/", 1)[1]
        if kind in ("kernel", "embeddings"):
            # truncation at two standard deviations multiplies the standard deviation by 0.8796
            assert abs(values.std() / (0.03 * 0.8796) - 1.0) < 0.15, weight.path
            assert np.abs(values).max() <= 0.06, weight.path
        else:
            assert (values == {"bias": 0.0, "beta": 0.0, "gamma": 1.0}[kind]).all(), weight.path
    kernels = [np.asarray(weight).ravel()[:50] for weight in encoder.weights if weight.path.endswith("kernel")]
    assert len({kernel.tobytes() for kernel in kernels}) == len(kernels), "two layers have the same weights"
