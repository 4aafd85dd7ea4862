"""`sort_tensors`: find the weight of a model that each tensor of an adapter changes or replaces. No Keras here."""

import dataclasses
from collections.abc import Mapping, Sequence

from bert_keras.checkpoints.adapters.adapter_files import FACTOR_A, FACTOR_B, PREFIX
from bert_keras.checkpoints.adapters.adapter_folder import AdapterFolder
from bert_keras.checkpoints.checkpoint import Checkpoint, StoredWeight, check_weights
from bert_keras.checkpoints.huggingface.weight_names import WeightName, normalize_tensor_name
from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.heads.known_heads import get_head

_WRAPPERS = (".base_layer.", ".modules_to_save.")  # in the names of trained biases, which PEFT can store twice


@dataclasses.dataclass(frozen=True, eq=False)
class AdapterTensors:
    """The tensors of an adapter, keyed by our names of the weights.

    Attributes:
        factors: the tensors of each adapted kernel, keyed by `FACTOR_A` and `FACTOR_B`, as PEFT stores them.
        replaced: the weights that replace those of the checkpoint, in our layout.
    """

    factors: Mapping[str, Mapping[str, StoredWeight]]
    replaced: Mapping[str, StoredWeight]


def sort_tensors(
    adapter: AdapterFolder, model: str, names: Sequence[WeightName], checkpoint: Checkpoint
) -> AdapterTensors:
    """Find the weight that each tensor of an adapter belongs to, and check the weights that are replaced.

    Args:
        adapter: the adapter.
        model: our class of the model for the task of the adapter.
        names: all weights of this model.
        checkpoint: the model that the adapter was trained on.

    Raises:
        InputError: a tensor belongs to no weight or to that of another tensor, or a weight that is replaced has another
            shape or an unsupported dtype, or only a part of a layer of the head is replaced.
    """
    by_name = {name.huggingface: name for name in names}
    found: dict[tuple[str, str], StoredWeight] = {}
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
        first = found.setdefault((name.ours, ending), tensor)
        if first is not tensor and (name.is_kernel or _unwrap(first.name) != _unwrap(tensor.name)):
            raise InputError(
                f"{adapter.source} has the tensors {quote(first.name)} and {quote(tensor.name)}, two names of one "
                "weight; expected one of them: save the adapter again with save_pretrained"
            )
    if not any(ending for _, ending in found):
        raise InputError(
            f"{adapter.source} has no tensors of LoRA (lora_A, lora_B); expected those of one or more layers: save the "
            "adapter again with save_pretrained"
        )
    return _check_replaced(adapter, model, names, checkpoint, found)


def view_as_checkpoint(adapter: AdapterFolder, checkpoint: Checkpoint, weights: Mapping) -> Checkpoint:
    """Return a checkpoint with tensors of an adapter alone, so that messages about them name the adapter."""
    return dataclasses.replace(checkpoint, source=adapter.source, hub_name=None, weights=weights)


def _get_weight_name(tensor: str, ending: str) -> str:
    """Return the name in our table of the weight that a tensor of an adapter changes or replaces."""
    name = _unwrap(tensor).removeprefix(PREFIX)
    return normalize_tensor_name(name.removesuffix(ending) + ".weight" if ending else name)


def _unwrap(tensor: str) -> str:
    for wrapper in _WRAPPERS:
        tensor = tensor.replace(wrapper, ".")
    return tensor


def _check_replaced(
    adapter: AdapterFolder,
    model: str,
    names: Sequence[WeightName],
    checkpoint: Checkpoint,
    found: Mapping[tuple[str, str], StoredWeight],
) -> AdapterTensors:
    """Return the tensors, after checking those that replace a weight."""
    factors: dict[str, dict[str, StoredWeight]] = {}
    for (name, ending), tensor in found.items():
        if ending:
            factors.setdefault(name, {})[ending] = tensor
    replaced = {name.ours: found[name.ours, ""] for name in names if (name.ours, "") in found}
    replaced = {name: _transpose(one) if name.endswith(".kernel") else one for name, one in replaced.items()}
    _check_layers_of_head(adapter, [name for name in names if not name.ours.startswith("encoder.")], replaced)
    num_classes = _count_classes(model, replaced, checkpoint)
    shapes = {name.ours: name.shape(checkpoint.config, num_classes) for name in names if name.ours in replaced}
    check_weights(view_as_checkpoint(adapter, checkpoint, replaced), shapes, model)
    return AdapterTensors(factors, replaced)


def _transpose(stored: StoredWeight) -> StoredWeight:
    return dataclasses.replace(stored, shape=stored.shape[::-1], read=lambda: stored.read().T)


def _check_layers_of_head(
    adapter: AdapterFolder, head: Sequence[WeightName], replaced: Mapping[str, StoredWeight]
) -> None:
    """Raise `InputError` if an adapter replaces some weights of a layer of the head and not the others."""
    for missing in head:
        layer = missing.ours.rpartition(".")[0]
        given = [name for name in head if name.ours.rpartition(".")[0] == layer and name.ours in replaced]
        are_trained_biases = adapter.trains_biases and all(name.huggingface.endswith(".bias") for name in given)
        if given and missing.ours not in replaced and not are_trained_biases:
            raise InputError(
                f"{adapter.source} has {quote(replaced[given[0].ours].name)} without {missing.huggingface}; expected "
                "all weights of a layer of the head: save the adapter again with the layer in modules_to_save"
            )


def _count_classes(model: str, replaced: Mapping[str, StoredWeight], checkpoint: Checkpoint) -> int | None:
    """Return the number of classes that the weights of the head must have: that of a new head, or of the checkpoint."""
    if get_head(model).has_num_classes and {"classifier.kernel", "classifier.bias"} <= replaced.keys():
        return max([1, *replaced["classifier.kernel"].shape[-1:]])
    return checkpoint.settings.get("num_classes")
