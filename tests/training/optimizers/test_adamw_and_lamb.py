"""AdamW and LAMB compared with independent implementations, exclusions from weight decay, mixed precision."""

import json
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_keras as bk
from bert_keras.training import Lamb, WarmupDecay, adamw, lamb, make_optimizer
from bert_keras.training.config.tables import OptimizerSettings
from bert_keras.training.optimizers.update_rules import BertAdamW
from tests.marks import slow
from tests.training.optimizers import adamw_of_torch
from tests.training.optimizers.adamw_of_torch import DECAYED, NUM_STEPS, SHAPES, draw

NUMBERS = {"beta_1": 0.87, "beta_2": 0.97, "epsilon": 1e-5, "weight_decay": 0.13}
FACTORS = adamw_of_torch.FACTORS["by depth"]


def test_the_learning_rate_rises_to_its_peak_and_falls_to_zero():
    schedule = WarmupDecay("linear", 0.5, num_steps=10, num_warmup_steps=4)
    rates = [float(schedule(step)) for step in range(12)]
    by_hand = [0.125, 0.25, 0.375, 0.5, *(0.5 * left / 7 for left in (6, 5, 4, 3, 2, 1)), 0.0, 0.0]
    np.testing.assert_allclose(rates, by_hand, atol=1e-7)


@pytest.mark.parametrize("make", [adamw, lamb])
def test_only_matrices_and_embedding_tables_decay(make, make_model):
    model = make_model("pretrainer")
    optimizer = make(1e-3, 10)
    optimizer.build(model.trainable_variables)
    decayed = {variable.name for variable in model.trainable_variables if optimizer.decays(variable)}
    assert decayed == set(DECAYED)
    assert {variable.name for variable in model.trainable_variables} == set(SHAPES)


@pytest.mark.parametrize("make", [adamw, lamb])
def test_the_default_hyperparameters_are_those_of_bert(make):
    settings = make(1e-4, 100).get_config()
    assert (settings["beta_1"], settings["beta_2"], settings["epsilon"]) == (0.9, 0.999, 1e-6)
    assert (settings["weight_decay"], settings["global_clipnorm"]) == (0.01, 1.0)
    assert settings["learning_rate"]["config"]["num_warmup_steps"] == 10


def test_every_hyperparameter_can_be_changed():
    optimizer = lamb(1e-4, 100, schedule="cosine", warmup_ratio=0.25, clip_norm=0, power=2.0, **NUMBERS)
    settings = optimizer.get_config()
    assert {name: settings[name] for name in NUMBERS} == NUMBERS
    assert settings["global_clipnorm"] is None
    schedule = settings["learning_rate"]["config"]
    assert (schedule["kind"], schedule["num_warmup_steps"], schedule["power"]) == ("cosine", 25, 2.0)
    assert float(adamw(0.5, None).learning_rate) == 0.5


def test_invalid_hyperparameters_are_rejected():
    with pytest.raises(bk.InputError, match=r"learning_rate is -1: input should be greater than 0; beta_1 is 1: input"):
        adamw(-1, 100, beta_1=1)


def train(optimizer, weights, gradients):
    """Apply the gradients with a Keras optimizer, and return the weights."""
    variables = {name: keras.Variable(value.astype("float32"), name=name) for name, value in weights.items()}
    for step in gradients:
        optimizer.apply(
            [keras.ops.convert_to_tensor(step[name].astype("float32")) for name in SHAPES], list(variables.values())
        )
    return {name: keras.ops.convert_to_numpy(variable) for name, variable in variables.items()}


def largest_difference(ours, theirs):
    return max(np.abs(ours[name] - theirs[name]).max() for name in SHAPES)


def lamb_of_the_paper(weights, gradients, rates, *, beta_1, beta_2, epsilon, weight_decay):
    """Algorithm 2 of You et al. 2019, line by line, in float64; without decay and trust ratio for biases and norms."""
    x = {name: value.copy() for name, value in weights.items()}
    m = {name: np.zeros(shape) for name, shape in SHAPES.items()}
    v = {name: np.zeros(shape) for name, shape in SHAPES.items()}
    for t, (g, eta) in enumerate(zip(gradients, rates, strict=True), 1):
        for name in SHAPES:
            m[name] = beta_1 * m[name] + (1 - beta_1) * g[name]
            v[name] = beta_2 * v[name] + (1 - beta_2) * g[name] ** 2
            r = (m[name] / (1 - beta_1**t)) / (np.sqrt(v[name] / (1 - beta_2**t)) + epsilon)
            if name not in DECAYED:
                x[name] = x[name] - eta * r
                continue
            u = r + weight_decay * x[name]
            norms = np.linalg.norm(x[name]), np.linalg.norm(u)
            ratio = norms[0] / norms[1] if min(norms) > 0 else 1.0
            x[name] = x[name] - eta * ratio * u
    return x


def test_lamb_matches_the_algorithm_of_the_paper():
    weights, gradients = draw()
    schedule = WarmupDecay("linear", 0.05, NUM_STEPS, 4)
    rates = [float(schedule(step)) for step in range(NUM_STEPS)]
    ours = train(Lamb(schedule, **NUMBERS), weights, gradients)
    theirs = lamb_of_the_paper(weights, gradients, rates, **NUMBERS)
    assert largest_difference(ours, theirs) < 2e-6  # measured: 2.3e-7
    assert largest_difference(ours, weights) > 0.1  # and it went somewhere


def test_lamb_has_trust_ratio_1_if_a_norm_is_0():
    weights, gradients = draw()
    weights["kernel"] = np.zeros(SHAPES["kernel"])  # no weights: an ordinary step
    for step in gradients:
        step["embeddings"] = np.zeros(SHAPES["embeddings"])
    still = {**NUMBERS, "weight_decay": 0.0}  # no update at all: 0 / 0 must not appear
    ours = train(Lamb(0.05, **still), weights, gradients)
    assert largest_difference(ours, lamb_of_the_paper(weights, gradients, [0.05] * NUM_STEPS, **still)) < 2e-6
    np.testing.assert_array_equal(ours["embeddings"], weights["embeddings"].astype("float32"))


@pytest.mark.slow  # imports JAX; the algorithm in NumPy is above
def test_lamb_matches_optax():
    optax, jax = pytest.importorskip("optax"), pytest.importorskip("jax")
    weights, gradients = draw()
    mask = {name: name in DECAYED for name in SHAPES}
    theirs = optax.chain(
        optax.scale_by_adam(NUMBERS["beta_1"], NUMBERS["beta_2"], NUMBERS["epsilon"]),
        optax.add_decayed_weights(NUMBERS["weight_decay"], mask),
        optax.masked(optax.scale_by_trust_ratio(), mask),
        optax.scale_by_learning_rate(0.05),
    )
    parameters = jax.tree.map(jax.numpy.float32, weights)
    state = theirs.init(parameters)
    for step in gradients:
        updates, state = theirs.update(jax.tree.map(jax.numpy.float32, step), state, parameters)
        parameters = optax.apply_updates(parameters, updates)
    ours = train(Lamb(0.05, **NUMBERS), weights, gradients)
    assert (
        largest_difference(ours, {name: np.asarray(value) for name, value in parameters.items()}) < 1.5e-6
    )  # measured: 1.8e-7


def as_torch_does(factors) -> BertAdamW:
    """AdamW with the hyperparameters of the stored results."""
    rates = {"warmup_ratio": adamw_of_torch.WARMUP_STEPS / NUM_STEPS, "clip_norm": adamw_of_torch.CLIP_NORM}
    optimizer = adamw(adamw_of_torch.RATE, NUM_STEPS, **rates, **adamw_of_torch.NUMBERS)
    optimizer.rate_factors = factors
    return optimizer


@pytest.mark.parametrize("kind", adamw_of_torch.FACTORS)
def test_adamw_matches_torch(kind):
    weights, gradients = draw()
    ours = train(as_torch_does(adamw_of_torch.FACTORS[kind]), weights, gradients)
    recorded = json.loads(adamw_of_torch.RECORD.read_text())
    theirs, others = ({name: np.array(value) for name, value in recorded[one].items()} for one in reversed_to(kind))
    assert largest_difference(ours, theirs) < 2e-6  # measured: 3.6e-7
    assert largest_difference(ours, weights) > 0.1
    assert all(np.abs(ours[name] - others[name]).max() > 0.01 for name in SHAPES if name != "bias")


def reversed_to(kind: str) -> list[str]:
    """The kinds of stored results, this one first."""
    return sorted(adamw_of_torch.FACTORS, key=lambda one: one != kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", adamw_of_torch.FACTORS)
def test_the_stored_torch_results_match_torch(kind):
    recorded = json.loads(adamw_of_torch.RECORD.read_text())[kind]
    for name, value in adamw_of_torch.weights_of_torch(adamw_of_torch.FACTORS[kind]).items():
        np.testing.assert_allclose(recorded[name], value, rtol=0, atol=1e-7, err_msg=name)


@pytest.mark.parametrize("limit", [{}, {"global_clipnorm": 0.7}, *slow({"clipnorm": 0.7}, {"clipvalue": 0.3})], ids=str)
def test_adamw_matches_keras_bit_for_bit(limit):
    weights, gradients = draw()
    keras_adamw = keras.optimizers.AdamW(0.05, **NUMBERS, **limit)
    keras_adamw.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    theirs = train(keras_adamw, weights, gradients)
    for name, ours in train(BertAdamW(0.05, **NUMBERS, **limit), weights, gradients).items():
        np.testing.assert_array_equal(ours, theirs[name], err_msg=name)


def test_sparse_embedding_gradients_are_supported():
    weights, _ = draw()
    sparse = tf.IndexedSlices(tf.ones((2, 3)), tf.constant([4, 4]), tf.constant([11, 3]))
    results = []
    for gradient in (sparse, tf.convert_to_tensor(sparse)):
        variable = keras.Variable(weights["embeddings"].astype("float32"), name="embeddings")
        BertAdamW(0.1, global_clipnorm=1.0).apply([gradient], [variable])
        results.append(np.array(variable))
    np.testing.assert_array_equal(*results)


@pytest.fixture
def traced(monkeypatch):
    """The options of all calls of `tf.function`."""
    options_of_calls = []
    function = tf.function
    monkeypatch.setattr(
        tf, "function", lambda *given, **options: options_of_calls.append(options) or function(*given, **options)
    )
    return options_of_calls


def count_compiled(traced) -> int:
    return sum(options.get("jit_compile") is True for options in traced)


def test_a_compiled_update_gives_the_same_weights(traced):
    weights, gradients = draw()
    trained, counts = [], []
    for jit_update in (False, True):
        optimizer = BertAdamW(0.1, **NUMBERS, global_clipnorm=0.5, jit_update=jit_update)
        variables = [keras.Variable(value.astype("float32"), name=name) for name, value in weights.items()]
        optimizer.build(variables)
        apply = tf.function(optimizer.apply, autograph=False)
        for step in gradients[:6]:
            apply([tf.constant(step[name], "float32") for name in SHAPES])
        trained.append([np.array(variable) for variable in variables])
        counts.append(count_compiled(traced))
    for ours, theirs in zip(*trained, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)
    assert counts == [0, 1]


@pytest.mark.slow
def test_fit_with_a_compiled_update_gives_the_same_weights(traced):
    trained, counts = [], []
    for jit_update in (False, True):
        model = toy(BertAdamW(0.1, **NUMBERS, global_clipnorm=0.5, jit_update=jit_update))
        model.fit(*toy_data(), batch_size=4, epochs=2, shuffle=False, verbose=0)
        trained.append(model.get_weights())
        counts.append(count_compiled(traced))
    for ours, theirs in zip(*trained, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)
    assert counts[0] == 0 < counts[1]


@pytest.mark.parametrize("kind", [BertAdamW, Lamb])
def test_weights_and_moments_change_in_place(kind):
    """New tensors for all weights and moments took 0.6 GB more for a step of base, and 0.4 GB more for small."""
    weight, optimizer = keras.Variable(np.ones((3, 2)), name="kernel"), kind(0.1)
    optimizer.build([weight])
    step = tf.function(lambda gradient: optimizer.apply([gradient], [weight]), autograph=False)
    graph = step.get_concrete_function(tf.TensorSpec((3, 2))).graph
    kinds = [operation.type for operation in graph.get_operations()]
    assert kinds.count("AssignVariableOp") == 1  # the number of the step
    assert kinds.count("AssignAddVariableOp") == 2  # both moments
    assert kinds.count("AssignSubVariableOp") == (2 if kind is BertAdamW else 1)  # AdamW's decay is a change of its own


def test_a_constraint_holds_after_every_step():
    weight = keras.Variable(np.ones(2), name="kernel")
    weight.constraint = keras.constraints.MaxNorm(0.5)
    BertAdamW(0.1).apply([np.array([1.0, -1.0], "float32")], [weight])
    assert np.linalg.norm(weight) == pytest.approx(0.5)


def test_not_decayed_and_jit_update_survive_get_config():
    optimizer = BertAdamW(0.1, not_decayed=["kernel"], jit_update=True)
    again = BertAdamW.from_config(json.loads(json.dumps(optimizer.get_config())))
    assert again.get_config() == optimizer.get_config()
    assert again.jit_update
    decayed = [again.decays(keras.Variable(np.zeros(2), name=name)) for name in ("kernel", "bias")]
    assert decayed == [False, True]


def test_unsupported_keras_options_are_rejected():
    for name, value in (("use_ema", True), ("gradient_accumulation_steps", 2)):
        with pytest.raises(bk.InputError, match=f"{name} is {value}, but BertAdamW does not support it: pass acc"):
            BertAdamW(0.1, **{name: value})
    with pytest.raises(bk.InputError, match=r"pass Lamb\(not_decayed=\.\.\.\) to exclude"):
        Lamb(0.1).exclude_from_weight_decay(var_names=["bias"])
    first, second = (keras.Variable(np.zeros(2), name=name) for name in ("kernel", "bias"))
    optimizer = BertAdamW(0.1)
    optimizer.build([first])
    with pytest.raises(bk.InputError, match="the optimizer is applied to variables that it was not built for"):
        optimizer.apply([np.ones(2, "float32")], [second])


def test_a_variable_without_a_gradient_is_unchanged_and_reported():
    first, second = (keras.Variable(np.ones(2), name=name) for name in ("kernel", "other"))
    with pytest.warns(UserWarning, match=r"Gradients do not exist for variables \['other'\]"):
        BertAdamW(0.1).apply([np.ones(2, "float32"), None], [first, second])
    np.testing.assert_array_equal(second, 1.0)
    assert (np.array(first) < 1.0).all()


def test_adamw_adds_epsilon_to_the_uncorrected_root_as_google():
    """google-research/bert, optimization.py, in float64, with the bias correction as a factor of the rate."""
    weights, gradients = draw()
    beta_1, beta_2, epsilon, decay = NUMBERS["beta_1"], NUMBERS["beta_2"], 0.01, NUMBERS["weight_decay"]
    theirs = {name: value.copy() for name, value in weights.items()}
    first, second = ({name: np.zeros(shape) for name, shape in SHAPES.items()} for _ in range(2))
    for t, step in enumerate(gradients, 1):
        correction = np.sqrt(1 - beta_2**t) / (1 - beta_1**t)
        for name in SHAPES:
            first[name] = beta_1 * first[name] + (1 - beta_1) * step[name]
            second[name] = beta_2 * second[name] + (1 - beta_2) * step[name] ** 2
            update = correction * first[name] / (np.sqrt(second[name]) + epsilon)
            theirs[name] = theirs[name] - 0.05 * (update + (decay if name in DECAYED else 0) * theirs[name])
    ours = train(adamw(0.05, None, clip_norm=0, **{**NUMBERS, "epsilon": epsilon}), weights, gradients)
    assert largest_difference(ours, theirs) < 2e-6  # measured: 3.1e-7


def by_depth(*arguments, **numbers):
    """AdamW with factors for the six variables of the model below."""
    optimizer = adamw(*arguments, **numbers)
    optimizer.rate_factors = [0.1, 0.2, 0.4, 0.5, 0.9, 1.0]
    return optimizer


def test_rate_factors_survive_get_config():
    optimizer = by_depth(0.1, None)
    again = BertAdamW.from_config(json.loads(json.dumps(optimizer.get_config())))
    assert again.rate_factors == optimizer.rate_factors == [0.1, 0.2, 0.4, 0.5, 0.9, 1.0]
    assert BertAdamW.from_config(adamw(0.1, None).get_config()).rate_factors is None


def test_rate_factors_scale_weight_decay_and_1_changes_nothing():
    weights, gradients = draw()
    still = [{name: np.zeros(shape) for name, shape in SHAPES.items()}] * 3
    ours = train(BertAdamW(0.1, weight_decay=0.5, rate_factors=FACTORS), weights, still)
    for name, factor in zip(SHAPES, FACTORS, strict=True):
        remaining = (1 - 0.1 * factor * 0.5) ** 3 if name in DECAYED else 1.0
        np.testing.assert_allclose(ours[name], remaining * weights[name], rtol=1e-6, err_msg=name)  # measured: 1.1e-7
    ones = train(BertAdamW(0.1, weight_decay=0.5, rate_factors=[1.0] * len(SHAPES)), weights, gradients)
    for name, value in train(BertAdamW(0.1, weight_decay=0.5), weights, gradients).items():
        np.testing.assert_array_equal(ones[name], value)


def test_the_number_of_rate_factors_is_checked():
    weights, gradients = draw()
    with pytest.raises(
        bk.InputError, match=r"4 rate_factors were given for 5 trainable variables; expected one for ea"
    ):
        train(BertAdamW(0.1, rate_factors=FACTORS[:4]), weights, gradients)


def test_rate_factors_apply_with_loss_scaling():
    weights, gradients = draw()
    plain = train(BertAdamW(0.1, rate_factors=FACTORS), weights, gradients)
    scaled = keras.optimizers.LossScaleOptimizer(BertAdamW(0.1, rate_factors=FACTORS), initial_scale=1024.0)
    larger = [{name: 1024.0 * value for name, value in step.items()} for step in gradients]
    assert largest_difference(train(scaled, weights, larger), plain) == 0  # a power of two rounds nothing


def toy(optimizer, seed=5, **options):
    """A small model with decayed and not decayed variables."""
    keras.utils.set_random_seed(seed)
    layers = [keras.Input((6,)), keras.layers.Dense(5), keras.layers.LayerNormalization()]
    model = keras.Sequential([*layers, keras.layers.Dense(2)])
    model.compile(optimizer, "mse", jit_compile=False, **options)
    return model


def toy_data(num_rows=24):
    rng = np.random.default_rng(1)
    return rng.normal(size=(num_rows, 6)).astype("float32"), rng.normal(size=(num_rows, 2)).astype("float32")


@pytest.mark.parametrize("make", [adamw, *slow(lamb)])
def test_mixed_float16_scales_the_loss_automatically(make, sizes, make_batch):
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    try:
        keras.utils.set_random_seed(2)
        model = bk.BertClassifier(bk.BertEncoder(bk.BertConfig(**sizes | {"num_layers": 1})), 4)
    finally:
        keras.config.set_dtype_policy(policy)
    model.compile(make(0.03, None), jit_compile=False)
    batch, labels = make_batch(), np.array([2, 0, 1])
    history = model.fit(batch, labels, batch_size=3, epochs=12, verbose=0).history["loss"]
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    assert {variable.dtype for variable in model.trainable_variables} == {"float32"}
    num_overflows = 12 - int(model.optimizer.iterations)  # such a step is skipped, and the scale halved
    assert num_overflows < 4
    assert float(model.optimizer.dynamic_scale) == 2.0 ** (15 - num_overflows)
    assert history[-1] < 0.95 * history[0]  # measured: 0.005 adamw, 0.83 lamb


@pytest.mark.parametrize("make", [by_depth, *slow(adamw, lamb)])
def test_a_saved_model_resumes_training_unchanged(make, tmp_path):
    numbers = {**NUMBERS, "warmup_ratio": 0.3}
    model = toy(make(0.1, 12, **numbers), run_eagerly=True)
    model.fit(*toy_data(), batch_size=4, epochs=2, shuffle=False, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.optimizer.get_config() == model.optimizer.get_config()
    for either in (model, again):
        either.fit(*toy_data(), batch_size=4, epochs=2, shuffle=False, verbose=0)
    for ours, theirs in zip(again.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_the_name_selects_the_optimizer():
    assert isinstance(make_optimizer(OptimizerSettings(name="adamw"), 10), BertAdamW)
    assert isinstance(make_optimizer(OptimizerSettings(name="lamb"), None), Lamb)


JAX_SCRIPT = """
import json, sys, pathlib
import numpy as np
import keras
from bert_keras.training import TimedLearningRate, make_optimizer
from bert_keras.training.config.tables import OptimizerSettings

assert keras.backend.backend() == "jax"
folder = pathlib.Path(sys.argv[1])
data = np.load(folder / "data.npz")
report = {}
for name in ("adamw", "lamb", "by_depth"):
    model = keras.models.load_model(folder / f"{name}.keras")
    model.fit(data["x"], data["y"], batch_size=4, epochs=2, shuffle=False, verbose=0)
    np.savez(folder / f"{name}.npz", *model.get_weights())
now, seen = [0.0], []
model.compile(make_optimizer(OptimizerSettings(learning_rate=0.5), None), "mse")
timer = TimedLearningRate("linear", 0.5, seconds=5, clock=lambda: now[0])
def tick(batch, logs):
    now[0] += 1
before = model.get_weights()
class Rates(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        seen.append(float(self.model.optimizer.learning_rate))
model.fit(data["x"], data["y"], batch_size=1, epochs=9, verbose=0,
          callbacks=[keras.callbacks.LambdaCallback(on_train_batch_end=tick), Rates(), timer])
(folder / "report.json").write_text(json.dumps({"rates": seen, "steps": int(model.optimizer.iterations)}))
"""


@pytest.mark.slow  # tests/architectures/test_jax_backend.py trains with AdamW on JAX too
def test_optimizers_and_timed_rate_match_on_jax(tmp_path):
    x, y = toy_data()
    np.savez(tmp_path / "data.npz", x=x, y=y)
    expected = {}
    for name, make in (("adamw", adamw), ("lamb", lamb), ("by_depth", by_depth)):
        model = toy(make(0.1, 24, **NUMBERS))
        model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0)
        model.save(tmp_path / f"{name}.keras")
        model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0)
        expected[name] = model.get_weights()
    environment = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    root = pathlib.Path(bk.__file__).parents[1]
    command = [sys.executable, "-c", JAX_SCRIPT, str(tmp_path)]
    done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name, weights in expected.items():
        theirs = np.load(tmp_path / f"{name}.npz")
        for ours, weight in zip(theirs.values(), weights, strict=True):
            np.testing.assert_allclose(ours, weight, rtol=0, atol=5e-7, err_msg=name)  # measured: 6.0e-8
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["rates"] == pytest.approx([0.5, 0.4, 0.3, 0.2, 0.1])
    assert report["steps"] == 5
