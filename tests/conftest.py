"""Tiny models and batches in which no swapped axis and no swapped tensor can hide.

All sizes are odd or different from each other, every weight is drawn anew (a fresh
BERT has biases of 0 and layer norms of 1, so two of them could change places unseen),
rows end in padding at different places, and both segments occur.
"""

import ctypes
import gc
import json
import os
import shutil
import subprocess
import sys
import threading

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the tests use nothing that is not on this machine
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import pytest

import bert_keras as bk
from tests import one_process, summary
from tests.commands import Done, run_cli
from tests.made_once import made_once

# torch's GPU build brings triton, whose library ends the process when it is loaded after TensorFlow; no twin needs it
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
NUM_SLOTS = 5
LABELS = ("red", "green", "blue", "black")

# one line a kind of model: how it is built on an encoder
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
    """Keep the garbage collector away from what was imported: a million objects, half a second each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def freed_memory():
    """Give the memory of a module's models and traced functions back to the system when its tests are done.

    What is still there then stays, such as what session fixtures hold: the garbage collector need not look at it again.
    """
    yield
    keras.utils.clear_session()  # TensorFlow's traced kernels too
    gc.collect()
    gc.freeze()
    _give_freed_memory_back()


def _give_freed_memory_back() -> None:
    """Undo what the training commands set in the whole process (`training/freed_memory.py`); glibc only."""
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt") and hasattr(library, "malloc_trim"):
        library.mallopt(-4, 65536)  # M_MMAP_MAX, as it was
        library.mallopt(-1, 128 * 1024)  # M_TRIM_THRESHOLD, as it was
        library.malloc_trim(0)


@pytest.fixture
def drawn_as_names(monkeypatch):
    """Files of pictures hold their ending: to draw one takes a second."""
    monkeypatch.setattr("bert_keras.figures.render_figure", lambda figure, ending: ending.encode())


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 256 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.name != "posix" or os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], capture_output=True)
    if done.returncode:
        pytest.skip("this machine does not allow to mount a tmpfs")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture(scope="session", autouse=True)
def demo_that_began(request, tmp_path_factory):
    """Begins the quick demo, half a minute of work in a process of its own, while other tests run."""
    if any("quick_demo" in item.fixturenames for item in request.session.items):
        tmp_path_factory.getbasetemp()  # which two threads must not make at once
        threading.Thread(target=made_demo, args=(tmp_path_factory,), daemon=True).start()


def made_demo(tmp_path_factory):
    """Run the quick demo once for all test processes; its folder."""

    def make(folder):
        folder.mkdir()
        (folder / "done.json").write_text(json.dumps(run_cli("demo", "demo", "--quick", "--json", cwd=folder)))

    return made_once(tmp_path_factory, "quick_demo", make)


@pytest.fixture(scope="session")
def quick_demo(tmp_path_factory):
    """A folder in which the quick demo ran, and what it printed."""
    folder = tmp_path_factory.mktemp("quick") / "copy"
    shutil.copytree(made_demo(tmp_path_factory), folder)
    return folder, Done(*json.loads((folder / "done.json").read_text()))


@pytest.fixture(scope="session")
def sizes():
    """The sizes of the tiny model, as arguments of `BertConfig`."""
    return dict(SIZES)


@pytest.fixture(scope="session")
def make_batch():
    """A function that draws a batch: every feature that some model reads, by our names."""
    return _make_batch


@pytest.fixture(scope="session")
def make_model():
    """A function that builds one of `MODELS` with every weight drawn anew."""
    return _make_model


@pytest.fixture(params=MODELS)
def model_kind(request):
    """Every kind of model, one test each."""
    return request.param


@pytest.fixture(scope="session")
def perturb():
    """A function that draws every weight of a Keras model anew, biases and layer norms too."""
    return _perturb


@pytest.fixture(scope="session")
def run():
    """A function that calls a model for inference and gives its outputs as numpy arrays."""
    return _run


def _make_batch(*names: str, seed: int = 0, lengths=LENGTHS, length: int = 13) -> dict:
    rng = np.random.default_rng(seed)
    lengths = np.array(lengths)[:, None]
    places = np.arange(length)[None, :]
    padding_mask = (places < lengths).astype("int32")
    slot_scores = rng.random(padding_mask.shape) * padding_mask  # the highest scores are masked
    mask_positions = np.sort(np.argsort(-slot_scores, axis=1)[:, :NUM_SLOTS], axis=1).astype("int32")
    mask_weights = (np.arange(NUM_SLOTS) < np.minimum(lengths - 1, NUM_SLOTS)).astype("float32")
    batch = {
        "token_ids": rng.integers(5, SIZES["vocabulary_size"], padding_mask.shape).astype("int32") * padding_mask,
        "padding_mask": padding_mask,
        "segment_ids": (places >= lengths // 2).astype("int32") * padding_mask,
        "mask_positions": mask_positions * mask_weights.astype("int32"),
    }
    names = names or ("token_ids", "padding_mask", "segment_ids")
    return {name: batch[name] for name in names}


def _make_model(kind: str, **changes):
    model = MODELS[kind](bk.BertConfig(**{**SIZES, **changes}))
    model(_make_batch())  # the first call makes the weights
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
