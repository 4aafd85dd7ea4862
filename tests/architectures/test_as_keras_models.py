"""Our models support the features of Keras models: `.keras` files, functional models, `summary`, `export`."""

import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_keras as bk
from bert_keras.training import adamw
from tests.conftest import MODELS
from tests.marks import slow, slow_except

INPUTS = ("token_ids", "padding_mask", "segment_ids")
TOLERANCE = 1e-5
# an encoder, heads with and without a pooler, and a model of two encoders; the slow suite contains all models
KINDS = slow_except(MODELS, quick=["encoder", "pretrainer", "question_answerer", "electra_with_generator"])

# the new process imports our classes only through `import bert_keras`
LOAD = """
import pathlib, sys
{imports}
import numpy as np

folder = pathlib.Path(sys.argv[1])
batch = dict(np.load(folder / "batch.npz"))
for path in sorted(folder.glob("*.keras")):
    model = keras.saving.load_model(path)
    outputs = {{name: np.asarray(value) for name, value in model(batch).items()}}
    np.savez(folder / f"{{path.stem}}.loaded.npz", **outputs)
"""


@pytest.fixture
def features(make_batch):
    """Batch with the features that every model accepts."""
    return {name: value for name, value in make_batch().items() if name in INPUTS}


@pytest.fixture(scope="module")
def saved_models(make_model, make_batch, run, tmp_path_factory):
    """Folder with `.keras` files of a pretrainer and a functional model, compiled with our losses and optimizer."""
    folder = tmp_path_factory.mktemp("saved")
    batch = {name: value for name, value in make_batch().items() if name in INPUTS}
    np.savez(folder / "batch.npz", **batch)
    models = {"pretrainer": make_model("pretrainer", num_layers=1)}
    models["pretrainer"].compile(optimizer=adamw(3e-3, None))
    encoder = make_model("encoder", num_layers=1)
    scores = keras.layers.Dense(3)(encoder.outputs["pooled_output"])
    models["functional"] = keras.Model(encoder.inputs, {"scores": scores})
    models["functional"].compile(adamw(3e-3, None), "mse")
    for name, model in models.items():
        model.save(folder / f"{name}.keras")
        np.savez(folder / f"{name}.npz", **run(model, batch))
    return folder


@pytest.mark.parametrize(
    ("imports", "backend"),
    [
        ("import bert_keras, tensorflow, keras", "jax"),  # TensorFlow searches for Keras but imports it later
        *slow(
            ("import bert_keras, tensorflow, keras", "tensorflow"),
            ("import bert_keras, keras", "tensorflow"),
            ("import bert_keras, importlib.util; importlib.util.find_spec('keras'); import keras", "tensorflow"),
            ("import keras, bert_keras", "tensorflow"),
            ("import bert_keras.architectures.losses, keras", "tensorflow"),
        ),
    ],
)
def test_keras_files_load_in_a_new_process(imports, backend, saved_models):
    script, environment = LOAD.format(imports=imports), {**os.environ, "KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu"}
    environment["XLA_FLAGS"] = "--xla_backend_optimization_level=0"  # halves the time in which JAX compiles
    done = subprocess.run([sys.executable, "-c", script, saved_models], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in ("pretrainer", "functional"):
        loaded = np.load(saved_models / f"{name}.loaded.npz")
        for output, expected in np.load(saved_models / f"{name}.npz").items():
            np.testing.assert_allclose(loaded[output], expected, rtol=0, atol=TOLERANCE, err_msg=f"{name} {output}")
        (saved_models / f"{name}.loaded.npz").unlink()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_every_kind_of_model_loads_in_a_new_process(backend, make_model, make_batch, run, tmp_path):
    batch = {name: value for name, value in make_batch().items() if name in INPUTS}
    np.savez(tmp_path / "batch.npz", **batch)
    expected = {}
    for kind in MODELS:
        model = make_model(kind)
        model.save(tmp_path / f"{kind}.keras")
        expected[kind] = run(model, batch)
    environment = {**os.environ, "KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu"}
    script = LOAD.format(imports="import bert_keras, keras")
    done = subprocess.run([sys.executable, "-c", script, tmp_path], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for kind, outputs in expected.items():
        loaded = np.load(tmp_path / f"{kind}.loaded.npz")
        assert sorted(loaded) == sorted(outputs)
        for name, value in outputs.items():
            np.testing.assert_allclose(loaded[name], value, rtol=0, atol=TOLERANCE, err_msg=f"{kind} {name}")


def test_import_bert_keras_does_not_import_keras():
    script = "import sys, bert_keras; sys.exit('keras' in sys.modules or 'tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_custom_head_trains_with_the_encoder(sizes, features):
    encoder = bk.BertEncoder(bk.BertConfig(**{**sizes, "num_layers": 1}))
    model = keras.Model(encoder.inputs, keras.layers.Dense(1)(encoder.outputs["pooled_output"]))
    model.compile("sgd", "mse")  # traced in a third of the time of Adam
    table = np.array(encoder.embeddings.token.embeddings)
    targets = np.full((len(features["token_ids"]), 1), 5, "float32")
    before = model.evaluate(features, targets, verbose=0)
    model.fit(features, targets, epochs=5, verbose=0)
    assert model.evaluate(features, targets, verbose=0) < before
    assert np.abs(np.array(encoder.embeddings.token.embeddings) - table).max() > 0


@pytest.mark.parametrize("model_kind", KINDS, indirect=True)
def test_summary_shows_the_shape_of_every_layer(model_kind, shared_model):
    if keras.__version__.startswith("3.12.") and model_kind in ("question_answerer", "electra_with_generator"):
        pytest.skip("Keras 3.12 raises KeyError for a layer with one output in a dict")
    lines = []
    shared_model(model_kind, num_layers=1).summary(print_fn=lines.append)
    summary = "\n".join(lines)
    assert "None" in summary
    assert "?" not in summary


@pytest.mark.parametrize("kind", ["classifier", *slow("masked_lm")])
def test_symbolic_outputs_have_the_dtypes_of_eager_outputs(kind, sizes):
    config = bk.BertConfig(**{**sizes, "num_layers": 1})
    encoder = bk.BertEncoder(config, pooler=kind == "classifier", dtype="mixed_bfloat16")
    model = bk.BertClassifier(encoder, num_classes=2) if kind == "classifier" else bk.BertMaskedLM(encoder)
    assert {value.dtype for value in model.outputs.values()} == {"float32"}
    assert encoder.outputs["sequence_output"].dtype == "bfloat16"


@pytest.mark.slow  # the quick tests compare outputs in a graph, and tests/export/saved_model exports with our function
@pytest.mark.parametrize("kind", ["classifier", "question_answerer"])
def test_keras_exports_a_saved_model(kind, shared_model, features, run, tmp_path):
    model = shared_model(kind, num_layers=1)
    model.export(tmp_path / "exported", verbose=False)
    served = tf.saved_model.load(str(tmp_path / "exported"))
    expected = run(model, features)
    for name, value in served.serve({name: tf.constant(value) for name, value in features.items()}).items():
        np.testing.assert_allclose(value, expected[name], rtol=0, atol=TOLERANCE, err_msg=name)
    by_name = served.signatures["serving_default"](
        **{name: tf.constant(value[:1, :3]) for name, value in features.items()}
    )
    assert all(value.shape[0] == 1 for value in by_name.values())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:In the future `np.object`:FutureWarning")  # tf2onnx 1.17, called by Keras
def test_keras_exports_an_onnx_file(make_model, features, run, tmp_path):
    import onnxruntime  # takes 0.2 s that quick tests save

    model = make_model("classifier")
    model.export(tmp_path / "model.onnx", format="onnx", verbose=False)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")

    [logits] = session.run(None, {value.name: features[value.name.split(":")[0]] for value in session.get_inputs()})
    np.testing.assert_allclose(logits, run(model, features)["logits"], rtol=0, atol=TOLERANCE)
