"""`merge_adapter`: a checkpoint with the weights of a LoRA adapter that PEFT trained. No Keras here."""

import dataclasses
import os
from collections.abc import Callable

import numpy as np

from bert_keras.checkpoints.adapters.adapter_files import FACTOR_A, FACTOR_B, PREFIX
from bert_keras.checkpoints.adapters.adapter_folder import AdapterFolder, read_adapter_folder
from bert_keras.checkpoints.checkpoint import Checkpoint, StoredWeight
from bert_keras.checkpoints.huggingface.huggingface_folder import get_name_prefix
from bert_keras.checkpoints.huggingface.weight_names import WeightName, list_weights, normalize_tensor_name
from bert_keras.checks import format_names, quote
from bert_keras.errors import InputError

_SEVERAL_CLASSES = ("BertClassifier", "BertTokenClassifier")


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
    weights = dict(checkpoint.weights)
    names = list_weights(model, checkpoint.config, pooler=True, family=checkpoint.family)
    by_name = {name.huggingface: name for name in names}
    factors: dict[str, dict[str, StoredWeight]] = {}
    for tensor in adapter.tensors.values():
        if ".original_module." in tensor.name:  # the head that modules_to_save replaced
            continue
        ending = next((one for one in (FACTOR_A, FACTOR_B) if tensor.name.endswith(one)), "")
        name = by_name.get(_get_weight_name(tensor.name, ending))
        if name is None or (ending and not name.is_kernel):
            raise InputError(
                f"{adapter.source} has the tensor {quote(tensor.name)}, which belongs to no layer of a {model}; "
                "expected adapters of dense layers, and the weights of the head: the adapter is of another model than "
                f"{checkpoint}"
            )
        if ending:
            factors.setdefault(name.ours, {})[ending] = tensor
        else:
            weights[name.ours] = _transpose(tensor) if name.is_kernel else tensor
    if not factors:
        raise InputError(
            f"{adapter.source} has no tensors of LoRA (lora_A, lora_B); expected those of one or more layers: save the "
            "adapter again with save_pretrained"
        )
    for name, pair in factors.items():
        weights[name] = _merge(adapter, name, checkpoint, pair)
    _check_head(adapter, model, names, weights, checkpoint)
    expected = {name.ours: get_name_prefix(name, model, checkpoint.family) + name.huggingface for name in names}
    changes = {} if model == checkpoint.model and not _has_other_classes(checkpoint, weights) else {"task": None}
    if changes:
        changes |= {"settings": _make_settings(model, weights), "generator": None}
    return dataclasses.replace(checkpoint, model=model, weights=weights, expected_names=expected, **changes)


def _get_weight_name(tensor: str, ending: str) -> str:
    """Return the name in our table of the weight that a tensor of an adapter changes or replaces."""
    name = tensor.removeprefix(PREFIX)
    for wrapper in (".base_layer.", ".modules_to_save."):  # in the names of trained biases
        name = name.replace(wrapper, ".")
    return normalize_tensor_name(name.removesuffix(ending) + ".weight" if ending else name)


def _transpose(stored: StoredWeight) -> StoredWeight:
    return dataclasses.replace(stored, shape=stored.shape[::-1], read=lambda: stored.read().T)


def _merge(adapter: AdapterFolder, name: str, checkpoint: Checkpoint, pair: dict[str, StoredWeight]) -> StoredWeight:
    """Return a kernel `(in, out)` with its adapter, W + s (B A)^T, that is computed when it is read."""
    if len(pair) < 2:
        [tensor] = pair.values()
        raise InputError(
            f"{adapter.source} has the tensor {quote(tensor.name)} without the other matrix of its layer; expected "
            "lora_A and lora_B: save the adapter again with save_pretrained"
        )
    kernel = checkpoint.weights.get(name)
    if kernel is None:
        raise InputError(
            f"{adapter.source} adapts {name}, which {checkpoint} does not have; expected the model that the adapter "
            "was trained on: name another checkpoint"
        )
    a, b = pair[FACTOR_A], pair[FACTOR_B]
    num_inputs, num_outputs = kernel.shape
    if (a.shape, b.shape) != ((adapter.rank, num_inputs), (num_outputs, adapter.rank)):
        raise InputError(
            f"{adapter.source} has {quote(a.name)} of shape {a.shape} and lora_B of shape {b.shape}; expected "
            f"{(adapter.rank, num_inputs)} and {(num_outputs, adapter.rank)}, given its rank and {checkpoint}: the "
            "adapter is of another model"
        )
    return dataclasses.replace(kernel, read=_make_reader(kernel, a, b, adapter.scale))


def _make_reader(kernel: StoredWeight, a: StoredWeight, b: StoredWeight, scale: float) -> Callable[[], np.ndarray]:
    return lambda: kernel.read() + np.float32(scale) * (b.read() @ a.read()).T


def _check_head(
    adapter: AdapterFolder,
    model: str,
    names: list[WeightName],
    weights: dict[str, StoredWeight],
    checkpoint: Checkpoint,
) -> None:
    """Raise `InputError` if neither the adapter nor the checkpoint has the head of the model."""
    if model == checkpoint.model:
        return
    head = [name for name in names if not name.ours.startswith("encoder.")]
    if missing := [name.huggingface for name in head if name.ours not in weights]:
        raise InputError(
            f"{adapter.source} is an adapter for a {model}, and neither it nor {checkpoint} has "
            f"{format_names(missing)}; expected the weights of the head in the adapter: save it with modules_to_save, "
            "or name a checkpoint with this head"
        )


def _has_other_classes(checkpoint: Checkpoint, weights: dict[str, StoredWeight]) -> bool:
    """Whether the adapter replaces the head by one with another number of classes."""
    num_classes = checkpoint.settings.get("num_classes")
    return num_classes is not None and _count_classes(weights) != num_classes


def _count_classes(weights: dict[str, StoredWeight]) -> int:
    return weights["classifier.bias"].shape[0]


def _make_settings(model: str, weights: dict[str, StoredWeight]) -> dict[str, object]:
    """Return the arguments of the head; an adapter stores neither labels nor the kind of problem."""
    if model not in _SEVERAL_CLASSES:
        return {}
    num_classes = _count_classes(weights)
    settings: dict[str, object] = {"num_classes": num_classes, "labels": None}
    if model == "BertClassifier":  # as transformers chooses it
        settings["problem"] = "regression" if num_classes == 1 else "single_label"
    return settings
