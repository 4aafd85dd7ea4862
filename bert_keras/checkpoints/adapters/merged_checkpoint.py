"""`merge_adapter`: a checkpoint with the weights of a LoRA adapter that PEFT trained. No Keras here."""

import dataclasses
import math
import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from bert_keras.checkpoints.adapters.adapter_files import FACTOR_A, FACTOR_B, HEAD
from bert_keras.checkpoints.adapters.adapter_folder import AdapterFolder, read_adapter_folder
from bert_keras.checkpoints.adapters.adapter_tensors import sort_tensors, view_as_checkpoint
from bert_keras.checkpoints.checkpoint import Checkpoint, StoredWeight, check_weights
from bert_keras.checkpoints.huggingface.huggingface_folder import get_name_prefix
from bert_keras.checkpoints.huggingface.weight_names import WeightName, list_weights
from bert_keras.checks import format_names, quote
from bert_keras.errors import InputError
from bert_keras.heads.known_heads import get_head

_NO_LABELS = "label names, which PEFT does not store"
_NO_PROBLEM = (
    "label names and the kind of problem, which PEFT does not store: a classifier with several outputs is single-label"
)


def merge_adapter(checkpoint: Checkpoint, folder: str | os.PathLike) -> Checkpoint:
    """Return a checkpoint with an adapter merged into it; weights are computed when they are read.

    Args:
        checkpoint: the model that the adapter was trained on; its head may be another one.
        folder: the folder of the adapter, which PEFT's `save_pretrained` or `bk.finetune` wrote.

    Raises:
        InputError: the adapter cannot be read, or does not belong to the checkpoint.
    """
    adapter = read_adapter_folder(folder)
    model = adapter.model or checkpoint.model
    names = list_weights(model, checkpoint.config, pooler=True)
    tensors = sort_tensors(adapter, model, names, checkpoint)
    weights = {**checkpoint.weights, **tensors.replaced}
    for name in names:
        if pair := tensors.factors.get(name.ours):
            weights[name.ours] = _merge(adapter, name, checkpoint, pair)
    _check_head(adapter, model, names, weights, checkpoint)
    expected = {name.ours: get_name_prefix(name, model, checkpoint.config) + name.huggingface for name in names}
    changes = _make_changes(adapter, model, checkpoint, weights)
    return dataclasses.replace(checkpoint, model=model, weights=weights, expected_names=expected, **changes)


def _merge(
    adapter: AdapterFolder, name: WeightName, checkpoint: Checkpoint, pair: Mapping[str, StoredWeight]
) -> StoredWeight:
    """Return a kernel `(in, out)` with its adapter, W + s (B A)^T, that is computed when it is read."""
    if len(pair) < 2:
        [tensor] = pair.values()
        raise InputError(
            f"{adapter.source} has the tensor {quote(tensor.name)} without the other matrix of its layer; expected "
            "lora_A and lora_B: save the adapter again with save_pretrained"
        )
    kernel = checkpoint.weights.get(name.ours)
    if kernel is None:
        raise InputError(
            f"{adapter.source} adapts {name.ours}, which {checkpoint} does not have; expected the model that the "
            "adapter was trained on: name another checkpoint"
        )
    shape = name.shape(checkpoint.config, checkpoint.settings.get("num_classes"))
    check_weights(checkpoint, {name.ours: shape})
    a, b = pair[FACTOR_A], pair[FACTOR_B]
    num_inputs, num_outputs = shape
    if (a.shape, b.shape) != ((adapter.rank, num_inputs), (num_outputs, adapter.rank)):
        raise InputError(
            f"{adapter.source} has {quote(a.name)} of shape {a.shape} and lora_B of shape {b.shape}; expected "
            f"{(adapter.rank, num_inputs)} and {(num_outputs, adapter.rank)}, given its rank and {checkpoint}: the "
            "adapter is of another model"
        )
    stored = {tensor.name: tensor for tensor in (a, b)}
    check_weights(view_as_checkpoint(adapter, checkpoint, stored), {one.name: one.shape for one in (a, b)})
    return dataclasses.replace(kernel, read=_make_reader(kernel, a, b, adapter.scale))


def _make_reader(kernel: StoredWeight, a: StoredWeight, b: StoredWeight, scale: float) -> Callable[[], np.ndarray]:
    return lambda: kernel.read() + np.float32(scale) * (b.read() @ a.read()).T


def _check_head(
    adapter: AdapterFolder,
    model: str,
    names: Sequence[WeightName],
    weights: Mapping[str, StoredWeight],
    checkpoint: Checkpoint,
) -> None:
    """Raise `InputError` if neither the adapter nor the checkpoint has the head of the model."""
    head = [name for name in names if not name.ours.startswith("encoder.")]
    if missing := [name.huggingface for name in head if name.ours not in weights]:
        raise InputError(
            f"{adapter.source} is an adapter for a {model}, and neither it nor {checkpoint} has "
            f"{format_names(missing)}; expected the weights of the head in the adapter: save it with modules_to_save, "
            "or name a checkpoint with this head"
        )


def _make_changes(
    adapter: AdapterFolder, model: str, checkpoint: Checkpoint, weights: Mapping[str, StoredWeight]
) -> dict[str, object]:
    """Return the fields of the checkpoint that change with its head; none if the head stays that of the checkpoint."""
    settings = _make_settings(adapter, model, weights)
    known = ("num_classes",) if adapter.head is None else ("num_classes", "labels", "problem")
    if model == checkpoint.model and all(_get(settings, key) == _get(checkpoint.settings, key) for key in known):
        return {}
    head = get_head(model)
    lost = [_NO_PROBLEM if head.has_problem else _NO_LABELS] if adapter.head is None and head.has_num_classes else []
    not_carried_over = [*checkpoint.not_carried_over, *lost]
    return {"task": None, "settings": settings, "generator": None, "not_carried_over": not_carried_over}


def _get(settings: Mapping[str, object], key: str) -> object:
    value = settings.get(key)
    return list(value) if key == "labels" and value is not None else value


def _make_settings(adapter: AdapterFolder, model: str, weights: Mapping[str, StoredWeight]) -> dict[str, object]:
    """Return the arguments of the head; an adapter of PEFT stores neither labels nor the kind of problem."""
    if not get_head(model).has_num_classes:
        return {}
    num_classes = math.prod(weights["classifier.bias"].shape)
    stored = adapter.head or {}
    labels = stored.get("labels")
    if labels is not None and len(labels) != num_classes:
        raise InputError(
            f"{adapter.source} has {len(labels):,} labels in {HEAD}, and a head with {num_classes:,} classes; expected "
            "one label for each class: restore the folder from its source"
        )
    settings: dict[str, object] = {"num_classes": num_classes, "labels": labels}
    if get_head(model).has_problem:  # without the file, as transformers chooses it
        settings["problem"] = stored.get("problem") or ("regression" if num_classes == 1 else "single_label")
    return settings
