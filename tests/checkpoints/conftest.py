"""Twins: the same models in transformers, an independent implementation, with random weights."""

import functools
import json

import numpy as np
import pytest

import bert_keras as bk
from tests import twins

HF_NAMES = {
    "vocabulary_size": "vocab_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "hidden_dim": "hidden_size",
    "intermediate_dim": "intermediate_size",
    "max_sequence_length": "max_position_embeddings",
    "type_vocabulary_size": "type_vocab_size",
}


@pytest.fixture(scope="module")
def shared_model(make_model):
    """A function like `make_model` that builds each model once per module, for tests that do not change it."""
    return functools.cache(make_model)


@pytest.fixture(scope="module")
def saved_folder(shared_model, tmp_path_factory):
    """A function that returns the folder of a shared model, without a tokenizer; tests do not change it."""

    @functools.cache
    def save(kind, **changes):
        folder = tmp_path_factory.mktemp("saved") / kind
        bk.save(shared_model(kind, **changes), None, folder)
        return folder

    return save


@pytest.fixture(scope="session")
def make_twin(sizes):
    """A function that builds a transformers model of the tiny sizes, with eager attention and random weights."""
    import transformers

    transformers.utils.logging.disable_progress_bar()

    def make(class_name: str, **changes):
        prefix = "Electra" if class_name.startswith("Electra") else "Bert"
        values = {HF_NAMES[name]: value for name, value in sizes.items()} | changes
        config = getattr(transformers, f"{prefix}Config")(**values, attn_implementation="eager")
        twin = getattr(transformers, class_name)(config).eval()
        twins.perturb_twin(twin)
        return twin

    return make


@pytest.fixture(scope="session")
def run_twin():
    """A function that calls a transformers model on one of our batches and returns its outputs as NumPy arrays."""
    return twins.run_twin


@pytest.fixture(scope="session")
def open_twin():
    """A function that loads a folder in transformers, and fails if a tensor is missing, extra or of another shape."""
    return twins.open_folder


@pytest.fixture(scope="session")
def edit_config():
    """A function that changes keys of a folder's `config.json`; a value of None removes the key."""

    def edit(folder, **changes):
        path = folder / "config.json"
        values = {**json.loads(path.read_text(encoding="utf-8")), **changes}
        path.write_text(json.dumps({key: value for key, value in values.items() if value is not None}))

    return edit


@pytest.fixture(scope="session")
def edit_tensors():
    """A function that applies a function to the dict of arrays in a folder's `model.safetensors`."""
    from safetensors.numpy import load_file, save_file

    def edit(folder, change):
        path = folder / "model.safetensors"
        tensors = {name: np.ascontiguousarray(value) for name, value in change(load_file(path)).items()}
        save_file(tensors, path, metadata={"format": "pt"})

    return edit
