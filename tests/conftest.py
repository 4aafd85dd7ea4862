"""Tiny models and batches with which tests detect every swapped axis and swapped tensor.

All sizes differ from each other. Every weight is random, because in a new BERT two biases of 0 or two layer norms of 1
could be swapped unnoticed. Sequences have different amounts of padding, and both segments occur.
"""

import ctypes
import gc
import json
import os
import shutil
import subprocess
import sys
import threading

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the tests download nothing
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import pytest

import bert_keras as bk
from tests import one_process, summary
from tests.commands import Done, run_cli
from tests.made_once import made_once

# torch's GPU build imports triton, whose library crashes the process if it is loaded after TensorFlow; no test needs it
sys.modules["triton"] = None

SIZES = {
    "vocabulary_size": 97,
    "num_layers": 3,
    "num_heads": 5,
    "hidden_dim": 30,
    "intermediate_dim": 44,
    "max_sequence_length": 17,
    "type_vocabulary_size": 2,
}
GENERATOR_SIZES = {**SIZES, "num_layers": 2, "num_heads": 3, "hidden_dim": 12, "intermediate_dim": 28}
LENGTHS = (13, 9, 4)
NUM_MASKED = 5
LABELS = ("red", "green", "blue", "black")

# functions that build each kind of model
MODELS = {
    "encoder": lambda config: bk.BertEncoder(config),
    "encoder_without_pooler": lambda config: bk.BertEncoder(config, pooler=False),
    "masked_lm": lambda config: bk.BertMaskedLM(bk.BertEncoder(config, pooler=False)),
    "pretrainer": lambda config: bk.BertPretrainer(bk.BertEncoder(config)),
    "classifier": lambda config: bk.BertClassifier(bk.BertEncoder(config), 4, labels=LABELS),
    "classifier_without_pooler": lambda config: bk.BertClassifier(bk.BertEncoder(config, pooler=False), 4),
    "multi_label": lambda config: bk.BertClassifier(bk.BertEncoder(config), 4, problem="multi_label"),
    "regression": lambda config: bk.BertClassifier(bk.BertEncoder(config), 1, problem="regression"),
    "token_classifier": lambda config: bk.BertTokenClassifier(bk.BertEncoder(config, pooler=False), 4, labels=LABELS),
    "question_answerer": lambda config: bk.BertQuestionAnswerer(bk.BertEncoder(config, pooler=False)),
    "embedder": lambda config: bk.BertEmbedder(bk.BertEncoder(config, pooler=False)),
    "cls_embedder": lambda config: bk.BertEmbedder(
        bk.BertEncoder(config, pooler=False), pooling="cls", normalize=False
    ),
    "electra": lambda config: bk.ElectraPretrainer(bk.BertEncoder(config, pooler=False)),
    "electra_with_generator": lambda config: bk.ElectraPretrainer(
        bk.BertEncoder(config, pooler=False),
        generator_config=bk.BertConfig(**{**GENERATOR_SIZES, "embedding_dim": config.embedding_dim}),
    ),
}


def pytest_addoption(parser):
    summary.add_option(parser)


def pytest_configure(config):
    config.pluginmanager.register(summary, "costs")
    if config.pluginmanager.hasplugin("xdist"):
        config.pluginmanager.register(one_process, "one_process")
    if config.getoption("summary") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(summary.Summary(), "summary")


def pytest_collection_finish(session):
    """Exclude imported objects from garbage collection: they are a million and take half a second each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def freed_memory():
    """Return the memory of a test module's models and traced functions to the system after its tests.

    Objects that remain, such as those of session fixtures, are excluded from garbage collection.
    """
    yield
    keras.utils.clear_session()  # TensorFlow's traced kernels too
    gc.collect()
    gc.freeze()
    _return_freed_memory()


def _return_freed_memory() -> None:
    """Undo the settings of `training/freed_memory.py`, which affect the whole process; glibc only."""
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt") and hasattr(library, "malloc_trim"):
        library.mallopt(-4, 65536)  # M_MMAP_MAX, the default
        library.mallopt(-1, 128 * 1024)  # M_TRIM_THRESHOLD, the default
        library.malloc_trim(0)


@pytest.fixture
def untraced(monkeypatch):
    """Run the steps of all trainings eagerly: tracing the functions of a model takes longer than a few steps."""
    from bert_keras.training import finetuning, pretraining
    from bert_keras.training.fitting import fit_phases

    def fit(model, *arguments, **options):
        model.run_eagerly = True
        return fit_phases(model, *arguments, **options)

    for module in (finetuning, pretraining):
        monkeypatch.setattr(module, "fit_phases", fit)


@pytest.fixture
def fake_figures(monkeypatch):
    """Figure files contain only the name of their format, because drawing one takes a second."""
    monkeypatch.setattr("bert_keras.figures.render_figure", lambda figure, ending: ending.encode())


@pytest.fixture
def small_disk(tmp_path):
    """A mounted file system of 256 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.name != "posix" or os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], capture_output=True)
    if done.returncode:
        pytest.skip("this machine does not allow mounting a tmpfs")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture(scope="session", autouse=True)
def start_demo(request, tmp_path_factory):
    """Start the quick demo, which takes half a minute in a subprocess, while other tests run."""
    if any("quick_demo" in item.fixturenames for item in request.session.items):
        tmp_path_factory.getbasetemp()  # create it now: two threads must not create it at once
        threading.Thread(target=run_demo_once, args=(tmp_path_factory,), daemon=True).start()


def run_demo_once(tmp_path_factory):
    """Run the quick demo once for all test processes, and return its folder."""

    def make(folder):
        folder.mkdir()
        (folder / "done.json").write_text(json.dumps(run_cli("demo", "demo", "--quick", "--json", cwd=folder)))

    return made_once(tmp_path_factory, "quick_demo", make)


@pytest.fixture(scope="session")
def quick_demo(tmp_path_factory):
    """A copy of the folder in which the quick demo ran, and the result of the command."""
    folder = tmp_path_factory.mktemp("quick") / "copy"
    shutil.copytree(run_demo_once(tmp_path_factory), folder)
    return folder, Done(*json.loads((folder / "done.json").read_text()))


@pytest.fixture(scope="session")
def sizes():
    """The sizes of the tiny model, as arguments of `BertConfig`."""
    return dict(SIZES)


@pytest.fixture(scope="session")
def make_batch():
    """A function that returns a random batch of features."""
    return _make_batch


@pytest.fixture(scope="session")
def make_model():
    """A function that builds one of `MODELS` with random weights."""
    return _make_model


@pytest.fixture(params=MODELS)
def model_kind(request):
    """Every kind of model."""
    return request.param


@pytest.fixture(scope="session")
def perturb():
    """A function that randomizes every weight of a Keras model, including biases and layer norms."""
    return _perturb


@pytest.fixture(scope="session")
def run():
    """A function that calls a model in inference mode and returns its outputs as NumPy arrays."""
    return _run


def _make_batch(*names: str, seed: int = 0, lengths=LENGTHS, length: int = 13) -> dict:
    rng = np.random.default_rng(seed)
    lengths = np.array(lengths)[:, None]
    positions = np.arange(length)[None, :]
    padding_mask = (positions < lengths).astype("int32")
    mask_scores = rng.random(padding_mask.shape) * padding_mask  # the positions with the highest scores are masked
    mask_positions = np.sort(np.argsort(-mask_scores, axis=1)[:, :NUM_MASKED], axis=1).astype("int32")
    mask_weights = (np.arange(NUM_MASKED) < np.minimum(lengths - 1, NUM_MASKED)).astype("float32")
    batch = {
        "token_ids": rng.integers(5, SIZES["vocabulary_size"], padding_mask.shape).astype("int32") * padding_mask,
        "padding_mask": padding_mask,
        "segment_ids": (positions >= lengths // 2).astype("int32") * padding_mask,
        "mask_positions": mask_positions * mask_weights.astype("int32"),
    }
    names = names or ("token_ids", "padding_mask", "segment_ids")
    return {name: batch[name] for name in names}


def _make_model(kind: str, **changes):
    model = MODELS[kind](bk.BertConfig(**{**SIZES, **changes}))
    model(_make_batch())  # the first call creates the weights
    _perturb(model)
    return model


def _perturb(model, seed: int = 7) -> None:
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        center = 1.0 if weight.path.endswith("gamma") else 0.0
        weight.assign(rng.normal(center, 0.25, weight.shape).astype("float32"))


def _run(model, batch: dict, **options) -> dict:
    import keras

    return keras.tree.map_structure(keras.ops.convert_to_numpy, model(batch, training=False, **options))
