"""Twins: the same models in transformers, an independent implementation, with random weights."""

import functools
import json

import numpy as np
import pytest

import bert_keras as bk

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
        prefix = next(prefix for prefix in ("Electra", "DistilBert", "Bert") if class_name.startswith(prefix))
        values = {HF_NAMES[name]: value for name, value in sizes.items()} | changes
        if prefix == "DistilBert":  # has other names for these
            values |= {"hidden_dim": values.pop("intermediate_size"), "activation": values.pop("hidden_act", "gelu")}
        config = getattr(transformers, f"{prefix}Config")(**values, attn_implementation="eager")
        twin = getattr(transformers, class_name)(config).eval()
        perturb_twin(twin)
        return twin

    return make


@pytest.fixture(scope="session")
def run_twin():
    """A function that calls a transformers model on one of our batches and returns its outputs as NumPy arrays."""
    return _run_twin


@pytest.fixture(scope="session")
def open_twin():
    """A function that loads a folder in transformers, and fails if a tensor is missing, extra or of another shape."""
    import transformers

    def open_folder(folder, class_name: str, **options):
        twin, report = getattr(transformers, class_name).from_pretrained(
            folder, output_loading_info=True, attn_implementation="eager", **options
        )
        problems = {name: sorted(map(str, keys)) for name, keys in report.items() if keys}
        assert not problems, f"transformers loaded {folder} with {problems}"
        return twin.eval()

    return open_folder


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


def perturb_twin(twin, seed: int = 3) -> None:
    """Randomize every parameter of a torch model, including biases and layer norms."""
    import torch

    rng = np.random.default_rng(seed)
    for name, parameter in twin.named_parameters():
        center = 1.0 if name.lower().endswith(("layernorm.weight", "layer_norm.weight")) else 0.0
        parameter.data = torch.tensor(rng.normal(center, 0.25, tuple(parameter.shape)), dtype=torch.float32)
    twin.tie_weights()


def _run_twin(twin, batch: dict, **options) -> dict:
    import torch

    names = {"token_ids": "input_ids", "padding_mask": "attention_mask", "segment_ids": "token_type_ids"}
    if twin.config.model_type == "distilbert":
        del names["segment_ids"]
    inputs = {theirs: torch.tensor(batch[name]).long() for name, theirs in names.items() if name in batch}
    with torch.no_grad():
        outputs = twin(**inputs, **options)
    return {
        name: tuple(part.numpy() for part in value) if isinstance(value, tuple) else value.numpy()
        for name, value in outputs.items()
    }
