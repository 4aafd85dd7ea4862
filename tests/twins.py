"""Twins: the same models in transformers, an independent implementation, with random weights."""

import pathlib

import numpy as np


def make_tiny_twin(architecture, class_name: str, config, **values):
    """Return a model of transformers with the sizes of our config, eager attention and random weights.

    Args:
        architecture: the record, for the names in `config.json`.
        class_name: the class of transformers.
        config: our config.
        **values: further keys of `config.json`.
    """
    import transformers

    sizes = {theirs: getattr(config, ours) for ours, theirs in architecture.config_keys.items()}
    config_class = getattr(transformers, f"{architecture.class_prefix}Config")
    config_values = {**sizes, **values}
    twin = getattr(transformers, class_name)(config_class(**config_values, attn_implementation="eager")).eval()
    perturb_twin(twin)
    return twin


def open_folder(folder: pathlib.Path, class_name: str, **options):
    """Load a folder in transformers, and fail if a tensor is missing, extra or of another shape."""
    import transformers

    twin, report = getattr(transformers, class_name).from_pretrained(
        folder, output_loading_info=True, attn_implementation="eager", **options
    )
    problems = {name: sorted(map(str, keys)) for name, keys in report.items() if keys}
    assert not problems, f"transformers loaded {folder} with {problems}"
    return twin.eval()


def perturb_twin(twin, seed: int = 3) -> None:
    """Randomize every parameter of a torch model, including biases and layer norms."""
    import torch

    rng = np.random.default_rng(seed)
    for name, parameter in twin.named_parameters():
        center = 1.0 if name.lower().endswith(("layernorm.weight", "layer_norm.weight")) else 0.0
        parameter.data = torch.tensor(rng.normal(center, 0.25, tuple(parameter.shape)), dtype=torch.float32)
    twin.tie_weights()


def run_twin(twin, batch: dict, **options) -> dict:
    """Call a model of transformers on one of our batches, and return its outputs as NumPy arrays."""
    import inspect

    import torch

    names = {"token_ids": "input_ids", "padding_mask": "attention_mask", "segment_ids": "token_type_ids"}
    accepted = inspect.signature(twin.forward).parameters
    takes_all = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in accepted.values())  # with PEFT's adapters
    names = {ours: theirs for ours, theirs in names.items() if theirs in accepted or takes_all}
    inputs = {theirs: torch.tensor(batch[name]).long() for name, theirs in names.items() if name in batch}
    with torch.no_grad():
        outputs = twin(**inputs, **options)
    return {
        name: tuple(part.numpy() for part in value) if isinstance(value, tuple) else value.numpy()
        for name, value in outputs.items()
    }
