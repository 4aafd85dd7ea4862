"""Every head overfits a tiny batch, and its loss matches its formula."""

import functools
import itertools
import math

import numpy as np
import pytest

import bert_keras as bk
from tests.marks import slow, slow_except

TOLERANCE = 5e-6  # float32 against float64, for losses of 1 to 10; measured: 5e-7
SMALL = {"hidden_dropout_rate": 0.0, "attention_dropout_rate": 0.0, "num_layers": 1}
NUM_EPOCHS = 12
# SGD traces in a third of Adam's time; ELECTRA's two losses need Adam
LEARNING_RATES = {"masked_lm": 0.2, "pretrainer": 0.1, "multi_label": 0.2, "regression": 0.005}
MASKED_KINDS = ("masked_lm", "pretrainer", "electra_with_generator")
LEARNERS = (
    *MASKED_KINDS,
    "classifier",
    "multi_label",
    "regression",
    "token_classifier",
    "question_answerer",
)


@pytest.fixture(scope="module")
def encoder(sizes):
    """An encoder of one layer."""
    return bk.BertEncoder(bk.BertConfig(**{**sizes, **SMALL}))


@pytest.fixture(scope="module")
def compiled(make_model):
    """Function that returns a compiled model, which runs eagerly; the tests share it and do not train it."""

    @functools.cache
    def make(kind: str):
        model = make_model(kind, **SMALL)
        model.compile(optimizer="adam", run_eagerly=True)
        return model

    return make


@pytest.fixture
def task(make_batch):
    """Function that draws features and labels for a kind of model."""

    def draw(kind: str) -> tuple[dict, object]:
        has_masks = kind in MASKED_KINDS
        x = make_batch("token_ids", "padding_mask", "segment_ids", *(["mask_positions"] if has_masks else []))
        return x, draw_labels(kind, x)

    return draw


def draw_labels(kind: str, x: dict):
    rng = np.random.default_rng(5)
    if kind in MASKED_KINDS:
        counted = (x["mask_positions"] > 0).astype("float32")
        y = {"mask_ids": rng.integers(5, 97, counted.shape).astype("int32"), "mask_weights": counted}
        return {**y, "next_sentence_labels": np.array([1, 0, 1], "int32")} if kind == "pretrainer" else y
    if kind == "token_classifier":
        tags = rng.integers(0, 4, x["token_ids"].shape)
        return np.where((x["padding_mask"] == 1) & (np.arange(13) > 0), tags, -100).astype("int32")
    if kind == "question_answerer":
        return {"start_positions": np.array([3, 7, 1], "int32"), "end_positions": np.array([11, 8, 1], "int32")}
    return {
        "classifier": np.array([3, 0, 2], "int32"),
        "multi_label": np.array([[1, 0, 0, 1], [0, 1, 1, 1], [0, 0, 0, 0]], "float32"),
        "regression": np.array([0.5, 4.0, -2.5], "float32"),
    }[kind]


# the losses and gradients of all heads are tested below
@pytest.mark.parametrize("kind", slow_except(LEARNERS, quick=["classifier"]))
def test_every_head_overfits_a_tiny_batch(kind, task, make_model):
    import keras

    keras.utils.set_random_seed(1)
    model = make_model(kind, **SMALL)
    x, y = task(kind)
    electra = kind == "electra_with_generator"
    optimizer = keras.optimizers.Adam(1e-2) if electra else keras.optimizers.SGD(LEARNING_RATES.get(kind, 0.05))
    model.compile(optimizer=optimizer)
    losses = model.fit(x, y, batch_size=3, epochs=NUM_EPOCHS, verbose=0, shuffle=False).history["loss"]
    assert np.isfinite(losses).all()
    assert losses[-1] < 0.5 * losses[0], (losses[0], losses[-1])


@pytest.mark.slow  # the quick tests train in a graph, and compare losses in eager mode with their formulas
@pytest.mark.parametrize("kind", ["pretrainer", "classifier", "token_classifier"])
def test_dataset_in_a_graph_trains_like_arrays_in_eager_mode(kind, task, make_model):
    import keras
    import tensorflow as tf

    x, y = task(kind)
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(3)
    losses = []
    for data, eager, options in (((x, y), True, {"batch_size": 3}), ((dataset,), False, {})):
        model = make_model(kind, **SMALL)
        model.compile(optimizer=keras.optimizers.SGD(0.05), run_eagerly=eager)
        losses.append(model.fit(*data, epochs=3, verbose=0, shuffle=False, **options).history["loss"])
    np.testing.assert_allclose(*losses, rtol=0, atol=TOLERANCE)


def compute_loss_by_hand(kind: str, outputs: dict, y) -> float:
    """Compute the loss from the logits with its formula, in NumPy float64."""
    if kind in ("masked_lm", "pretrainer"):
        loss = weighted_mean(cross_entropy(outputs["mlm_logits"], y["mask_ids"]), y["mask_weights"])
        if kind == "pretrainer":
            loss += cross_entropy(outputs["next_sentence_logits"], y["next_sentence_labels"]).mean()
        return loss
    if kind == "question_answerer":
        spans = [cross_entropy(outputs[f"{end}_logits"], y[f"{end}_positions"]).mean() for end in ("start", "end")]
        return sum(spans) / 2
    logits = outputs["logits"].astype("float64")
    if kind == "classifier":
        return cross_entropy(logits, y).mean()
    if kind == "token_classifier":
        return weighted_mean(cross_entropy(logits, np.maximum(y, 0)), y >= 0)
    if kind == "multi_label":
        return np.mean(np.log1p(np.exp(logits)) - y * logits)
    return np.mean((logits[:, 0] - y) ** 2)


def cross_entropy(logits, ids) -> np.ndarray:
    logits = logits.astype("float64")
    chosen = np.take_along_axis(logits, ids[..., None], axis=-1)[..., 0]
    return np.log(np.exp(logits).sum(axis=-1)) - chosen


def weighted_mean(values, weights) -> float:
    return (values * weights).sum() / weights.sum()


BY_HAND = tuple(kind for kind in LEARNERS if kind != "electra_with_generator")


# tests below check the formulas of the other kinds too
@pytest.mark.parametrize(
    "kind", slow_except(BY_HAND, quick=["pretrainer", "classifier", "multi_label", "question_answerer"])
)
def test_loss_matches_its_formula(kind, task, compiled, run):
    model = compiled(kind)
    x, y = task(kind)
    loss = model.evaluate(x, y, batch_size=3, verbose=0, return_dict=True)["loss"]
    outputs = run(model, x)
    if kind == "question_answerer":  # answers are never in the padding
        outputs = {name: np.where(x["padding_mask"] == 1, logits, -np.inf) for name, logits in outputs.items()}
    assert math.isclose(loss, compute_loss_by_hand(kind, outputs, y), abs_tol=TOLERANCE)


def test_electra_loss_matches_its_formula(task, compiled, run):
    # in evaluation the generator takes the most likely token, so that the expected loss can be computed
    model = compiled("electra_with_generator")
    x, y = task("electra_with_generator")
    outputs = run(model, x)
    replaced = np.zeros(x["token_ids"].shape)
    for sequence, number in zip(*np.nonzero(y["mask_weights"]), strict=True):
        wrong = outputs["sampled_ids"][sequence, number] != y["mask_ids"][sequence, number]
        replaced[sequence, x["mask_positions"][sequence, number]] = wrong
    logits = outputs["replaced_logits"].astype("float64")
    per_token = np.log1p(np.exp(logits)) - replaced * logits
    generator = weighted_mean(cross_entropy(outputs["mlm_logits"], y["mask_ids"]), y["mask_weights"])
    expected = generator + 50.0 * weighted_mean(per_token, x["padding_mask"])
    loss = model.evaluate(x, y, batch_size=3, verbose=0, return_dict=True)["loss"]
    assert math.isclose(loss, expected, rel_tol=4e-7)  # measured: 4e-8, for a loss near 50


@pytest.mark.parametrize("kind", slow_except(MASKED_KINDS, quick=["pretrainer", "electra_with_generator"]))
def test_masked_position_of_weight_0_does_not_change_the_loss(kind, task, compiled):
    model = compiled(kind)
    x, y = task(kind)
    unused = y["mask_weights"] == 0
    assert unused.any()
    other = {**y, "mask_ids": np.where(unused, 33, y["mask_ids"]).astype("int32")}
    wider_x = {**x, "mask_positions": np.pad(x["mask_positions"], ((0, 0), (0, 4)))}
    wider_y = {name: np.pad(value, ((0, 0), (0, 4))) if name.startswith("mask") else value for name, value in y.items()}
    losses = [
        model.evaluate(features, labels, batch_size=3, verbose=0, return_dict=True)["loss"]
        for features, labels in ((x, y), (x, other), (wider_x, wider_y))
    ]
    np.testing.assert_allclose(losses, losses[0], rtol=0, atol=TOLERANCE)


def test_ignored_token_does_not_change_the_loss(task, compiled, run):
    model = compiled("token_classifier")
    x, y = task("token_classifier")
    ignored = y.copy()
    ignored[0, 5] = -100
    for labels in (y, ignored):
        report = model.evaluate(x, labels, batch_size=3, verbose=0, return_dict=True)
        logits = run(model, x)["logits"]
        assert math.isclose(
            report["loss"], compute_loss_by_hand("token_classifier", {"logits": logits}, labels), abs_tol=TOLERANCE
        )
        right = (logits.argmax(axis=-1) == labels)[labels >= 0]
        assert math.isclose(report["accuracy"], right.mean(), abs_tol=1e-6)


def test_batch_without_masked_positions_has_loss_0(task, compiled):
    model = compiled("masked_lm")
    x, y = task("masked_lm")
    y = {**y, "mask_weights": np.zeros_like(y["mask_weights"])}
    assert model.evaluate(x, y, batch_size=3, verbose=0, return_dict=True)["loss"] == 0.0


@pytest.mark.parametrize(
    "kind", ["classifier", "token_classifier", "question_answerer", *slow("multi_label", "regression")]
)
def test_example_of_weight_0_does_not_change_the_loss(kind, task, compiled):
    model = compiled(kind)
    x, y = task(kind)

    def loss(rows: slice, weights: list[float]) -> float:
        chosen = {name: values[rows] for name, values in x.items()}
        labels = {name: values[rows] for name, values in y.items()} if isinstance(y, dict) else y[rows]
        return model.evaluate(chosen, labels, sample_weight=np.float32(weights), verbose=0, return_dict=True)["loss"]

    assert math.isclose(loss(slice(3), [2.0, 2.0, 0.0]), loss(slice(2), [1.0, 1.0]), abs_tol=TOLERANCE)


@pytest.mark.parametrize("shape", [(3,), (3, 1)])
def test_regression_accepts_labels_of_one_or_two_dimensions(shape, task, compiled, run):
    model = compiled("regression")
    x, y = task("regression")
    loss = model.evaluate(x, y.reshape(shape), batch_size=3, verbose=0, return_dict=True)["loss"]
    assert math.isclose(loss, compute_loss_by_hand("regression", run(model, x), y), abs_tol=TOLERANCE)


@pytest.mark.slow  # tests/training/optimizers/test_adamw_and_lamb.py also trains in float16
@pytest.mark.parametrize(("kind", "policy"), [("pretrainer", "mixed_bfloat16"), ("classifier", "mixed_float16")])
def test_mixed_precision_learns(kind, policy, task, make_model):
    import keras

    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        model = make_model(kind, **SMALL)
        x, y = task(kind)
        model.compile(optimizer=keras.optimizers.Adam(1e-2))
        losses = model.fit(x, y, batch_size=3, epochs=NUM_EPOCHS, verbose=0, shuffle=False).history["loss"]
    finally:
        keras.config.set_dtype_policy(before)
    assert losses[-1] < 0.5 * losses[0], (losses[0], losses[-1])


def test_pretrainer_requires_a_pooler(sizes):
    with pytest.raises(bk.InputError, match="pooler"):
        bk.BertPretrainer(bk.BertEncoder(bk.BertConfig(**{**sizes, **SMALL}), pooler=False))


def test_compiling_a_discriminator_without_generator_is_rejected(make_model):
    # only a generator determines which tokens are replaced
    model = make_model("electra", **SMALL)
    with pytest.raises(bk.InputError, match="generator"):
        model.compile(optimizer="adam")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"problem": "ranking"}, "ranking"),
        ({"num_classes": 0}, "num_classes"),
        ({"labels": ("a", "b")}, "2 labels.*4 classes"),
        ({"labels": ("a", "b", "c", "a")}, "3 different"),
    ],
)
def test_classifier_reports_the_invalid_argument(arguments, named, encoder):
    with pytest.raises(bk.InputError, match=named):
        bk.BertClassifier(encoder, **{"num_classes": 4, **arguments})


def test_masked_lm_reports_an_invalid_head_act(encoder):
    with pytest.raises(bk.InputError, match=r"head_act.*silu"):
        bk.BertMaskedLM(encoder, head_act="silu")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"pooling": "first"}, "pooling is 'first'; expected cls, max, mean, .*, or a list of these"),
        ({"pooling": ["mean", "first"]}, r"pooling is \['mean', 'first'\]"),
        ({"pooling": []}, r"pooling is \[\]"),
        ({"pooling": 3}, "pooling is 3"),
        ({"similarity": "near"}, "similarity is 'near', expected one of cosine, dot, euclidean, manhattan, or none"),
        ({"prompts": {"query": 3}}, r"the embedder sets prompts to \{'query': 3\}; expected an object of strings"),
        (
            {"prompts": {"a": "x", "b": ""}, "default_prompt_name": "c"},
            "there is no prompt 'c'; expected one of a, b: ",
        ),
    ],
)
def test_embedder_reports_the_invalid_argument(arguments, named, encoder):
    with pytest.raises(bk.InputError, match=named):
        bk.BertEmbedder(encoder, **arguments)


@pytest.mark.parametrize("field", ["embedding_dim", "vocabulary_size", "layer_norm_epsilon"])
def test_generator_with_different_embeddings_is_rejected(field, sizes):
    # epsilon belongs to the norm of the shared embeddings; the generator's own folder would have a different one
    sizes = {**sizes, "num_layers": 1}
    values = {"embedding_dim": 22, "vocabulary_size": 61, "layer_norm_epsilon": 1e-3}
    generator = bk.BertConfig(**{**sizes, field: values[field]})
    with pytest.raises(bk.InputError, match=field):
        bk.ElectraPretrainer(bk.BertEncoder(bk.BertConfig(**sizes), pooler=False), generator)


def test_any_keras_loss_is_supported(task, make_model):
    import keras

    model = make_model("classifier", **SMALL)
    x, y = task("classifier")
    model.compile(
        optimizer="adam",
        run_eagerly=True,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[keras.metrics.SparseTopKCategoricalAccuracy(k=2, name="top2")],
    )
    assert set(model.evaluate(x, y, batch_size=3, verbose=0, return_dict=True)) == {"loss", "top2"}


@pytest.mark.parametrize("kind", slow_except(MASKED_KINDS, quick=["pretrainer"]))
def test_sample_weight_is_rejected_where_masked_positions_have_weights(kind, task, compiled):
    model = compiled(kind)
    x, y = task(kind)
    with pytest.raises(bk.InputError, match="sample_weight cannot be used with"):
        model.fit(x, y, sample_weight=np.ones(3), verbose=0)


WITHOUT_DROPOUT = itertools.product(
    ["masked_lm", "classifier", "classifier_without_pooler", "token_classifier"],
    ["", "unpad", "gradient_checkpointing"],
)
QUICK_WITHOUT_DROPOUT = [
    ("masked_lm", ""),
    ("classifier", "unpad"),
    ("classifier_without_pooler", "gradient_checkpointing"),
    ("token_classifier", "unpad"),
]


@pytest.mark.parametrize(("kind", "option"), slow_except(WITHOUT_DROPOUT, quick=QUICK_WITHOUT_DROPOUT))
def test_training_without_dropout_computes_what_inference_computes(kind, option, make_model, make_batch):
    model = make_model(kind, hidden_dropout_rate=0.1, attention_dropout_rate=0.1)
    x = make_batch("token_ids", "padding_mask", *(["mask_positions"] if kind == "masked_lm" else []))
    options = {option: True} if option else {}
    is_real = x["padding_mask"] == 1  # `unpad` leaves out the vectors of padding

    def compute(*, dropout: bool, training: bool) -> np.ndarray:
        model.compile("sgd", dropout=dropout, **options)
        [logits] = model(x, training=training).values()
        return logits.numpy()[is_real] if kind == "token_classifier" else logits.numpy()

    expected = compute(dropout=True, training=False)
    np.testing.assert_allclose(compute(dropout=False, training=True), expected, atol=1e-5)
    assert np.abs(compute(dropout=True, training=True) - expected).max() > 1e-3
    assert model.encoder.config.hidden_dropout_rate == 0.1
