"""The same weights on the JAX backend: same outputs, and a training step that learns."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import bert_keras as bk

TOLERANCE = 2e-5  # measured: 3.1e-6
KINDS = ("encoder", "pretrainer", "classifier", "token_classifier", "question_answerer", "embedder", "electra")

# runs in a process of its own, because a process has one Keras backend
SCRIPT = """
import json, pathlib, sys
import keras
import numpy as np
import bert_keras as bk
from bert_keras import modeling

folder = pathlib.Path(sys.argv[1])
keras.utils.set_random_seed(5)  # dropout
assert keras.backend.backend() == "jax"
batch = dict(np.load(folder / "batch.npz"))
report = {}


def trained(model, features, labels):
    model.compile(optimizer=keras.optimizers.Adam(3e-3))
    before = model.evaluate(features, labels, batch_size=3, verbose=0, return_dict=True)["loss"]
    model.fit(features, labels, batch_size=3, epochs=5, verbose=0)
    return before, model.evaluate(features, labels, batch_size=3, verbose=0, return_dict=True)["loss"]


for path in sorted(folder.glob("*.keras")):
    model = keras.models.load_model(path)
    outputs = {name: np.asarray(value) for name, value in model(batch, training=False).items()}
    np.savez(folder / f"{path.stem}.jax.npz", **outputs)
    if path.stem == "classifier":
        report["classifier"] = trained(model, batch, np.array([2, 0, 1]))
    if path.stem == "pretrainer":
        slots = {"mask_ids": np.array([[7, 60], [5, 0], [33, 9]])}
        slots["mask_weights"] = np.array([[1, 1], [1, 0], [1, 1]], "float32")
        features = {**batch, "mask_positions": np.array([[3, 5], [2, 0], [1, 2]])}
        report["pretrainer"] = trained(model, features, {**slots, "next_sentence_labels": np.array([0, 1, 1])})
report["tensorflow_ran"] = "tensorflow.python" in sys.modules
(folder / "report.json").write_text(json.dumps(report))
"""


@pytest.fixture(scope="module")
def jax_folder(make_model, make_batch, run, tmp_path_factory):
    """Every model saved here, run there: `KIND.tensorflow.npz`, `KIND.jax.npz` and `report.json`."""
    folder = tmp_path_factory.mktemp("jax")
    np.savez(folder / "batch.npz", **make_batch())
    for kind in KINDS:
        model = make_model(kind)
        model.save(folder / f"{kind}.keras")
        np.savez(folder / f"{kind}.tensorflow.npz", **run(model, make_batch()))
    environment = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    root = pathlib.Path(bk.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder)], env=environment, cwd=root, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_jax_computes_what_tensorflow_computes(kind, jax_folder):
    theirs, ours = np.load(jax_folder / f"{kind}.tensorflow.npz"), np.load(jax_folder / f"{kind}.jax.npz")
    assert sorted(ours) == sorted(theirs)
    for name in theirs:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=0, atol=TOLERANCE, err_msg=name)


@pytest.mark.parametrize("kind", ["classifier", "pretrainer"])
def test_steps_on_jax_reduce_the_loss(kind, jax_folder):
    before, after = json.loads((jax_folder / "report.json").read_text())[kind]
    assert after < 0.9 * before  # measured: 0.64 and 0.66
