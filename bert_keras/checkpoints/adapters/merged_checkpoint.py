"""`merge_adapter`: a checkpoint with the weights of a LoRA adapter that PEFT or `bk.finetune` trained. No Keras here.

The adapter is a folder in the format of PEFT: `adapter_config.json` and `adapter_model.safetensors`, which
`adapter_files.py` writes.
"""

import collections
import dataclasses
import math
import os
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from bert_keras.checkpoints.adapters.adapter_files import CONFIG, FACTOR_A, FACTOR_B, HEAD, PREFIX, WEIGHTS
from bert_keras.checkpoints.checkpoint import Checkpoint, StoredWeight, check_finite_weight, check_weights
from bert_keras.checkpoints.huggingface.huggingface_folder import get_name_prefix
from bert_keras.checkpoints.huggingface.weight_names import WeightName, list_weights, normalize_tensor_name
from bert_keras.checkpoints.huggingface.weights_file import open_weights_file
from bert_keras.checks import format_names, quote, read_field
from bert_keras.config import PROBLEMS
from bert_keras.errors import InputError
from bert_keras.files import check_checksums, read_json
from bert_keras.heads.known_heads import find_model_of_peft, get_head
from bert_keras.hub.names import is_hub_name

_NO_LABELS = "label names, which PEFT does not store"
_NO_PROBLEM = (
    "label names and the kind of problem, which PEFT does not store: a classifier with several outputs is single-label"
)
_WRAPPERS = (".base_layer.", ".modules_to_save.")  # in the names of trained biases, which PEFT can store twice
_LARGEST_RANK = 2**20
# keys that change what the adapter computes, with the only values that we support
_SUPPORTED_VALUES = {
    "use_dora": (False, None),
    "use_qalora": (False, None),
    "use_bdlora": (False, None),
    "lora_bias": (False, None),
    "rank_pattern": ({}, None),
    "alpha_pattern": ({}, None),
    "layer_replication": (None,),
    "alora_invocation_tokens": (None,),
    "target_parameters": (None, []),
    "trainable_token_indices": (None,),
    # other values replace the weights of the base model when the training starts
    "init_lora_weights": (True, False, None, "gaussian", "orthogonal"),
}


@dataclasses.dataclass(frozen=True, eq=False)
class AdapterFolder:
    """A stored adapter.

    Attributes:
        source: the folder, for messages.
        model: our class for the task of the adapter; None = that of the base model.
        rank: r, the width of the adapters.
        scale: the factor of each product B A.
        trains_biases: whether biases were trained too, also those of a head that stays.
        tensors: the stored tensors, keyed by their names in the file.
        head: `problem` and `labels` of the model, those that it has; None = PEFT wrote the folder and stores neither.
    """

    source: str
    model: str | None
    rank: int
    scale: float
    trains_biases: bool
    tensors: Mapping[str, StoredWeight]
    head: Mapping[str, object] | None


def merge_adapter(checkpoint: Checkpoint, folder: str | os.PathLike) -> Checkpoint:
    """Return a checkpoint with an adapter merged into it; weights are computed when they are read.

    Args:
        checkpoint: the model that the adapter was trained on; its head may be another one.
        folder: the folder of the adapter, which PEFT's `save_pretrained` or `bk.finetune` wrote.

    Raises:
        InputError: the adapter cannot be read, or does not belong to the checkpoint: a tensor belongs to no weight or
            to that of another tensor, a weight has another shape or an unsupported dtype, or a part is missing.
    """
    adapter = read_adapter_folder(folder)
    model = adapter.model or checkpoint.model
    names = list_weights(model, checkpoint.config, pooler=True)
    return _Merger(adapter, checkpoint, model, names).merge()


@dataclasses.dataclass(frozen=True, eq=False)
class _Merger:
    """Merges an adapter into a checkpoint.

    Attributes:
        adapter: the adapter.
        checkpoint: the model that the adapter was trained on.
        model: our class of the model for the task of the adapter.
        names: all weights of this model.
    """

    adapter: AdapterFolder
    checkpoint: Checkpoint
    model: str
    names: Sequence[WeightName]

    @property
    def head_names(self) -> list[WeightName]:
        """The weights of the head."""
        return [name for name in self.names if not name.ours.startswith("encoder.")]

    def merge(self) -> Checkpoint:
        """Return the merged checkpoint."""
        found = self._find_weights()
        replaced = self._check_replaced({name: tensor for (name, ending), tensor in found.items() if not ending})
        weights = {**self.checkpoint.weights, **replaced}
        for name in self.names:
            if pair := [found[name.ours, ending] for ending in (FACTOR_A, FACTOR_B) if (name.ours, ending) in found]:
                weights[name.ours] = self._merge_kernel(name, pair)
        if missing := [name.huggingface for name in self.head_names if name.ours not in weights]:
            raise InputError(
                f"{self.adapter.source} is an adapter for a {self.model}, and neither it nor {self.checkpoint} has "
                f"{format_names(missing)}; expected the weights of the head in the adapter: save it with "
                "modules_to_save, or name a checkpoint with this head"
            )
        config = self.checkpoint.config
        expected = {name.ours: get_name_prefix(name, self.model, config) + name.huggingface for name in self.names}
        changes = self._list_changes(weights)
        return dataclasses.replace(
            self.checkpoint, model=self.model, weights=weights, expected_names=expected, **changes
        )

    def _find_weights(self) -> dict[tuple[str, str], StoredWeight]:
        """Return the tensors, keyed by our name of the weight and `FACTOR_A`, `FACTOR_B` or "" if they replace it."""
        by_name = {name.huggingface: name for name in self.names}
        found: dict[tuple[str, str], StoredWeight] = {}
        for tensor in self.adapter.tensors.values():
            if ".original_module." in tensor.name:  # the head that modules_to_save replaced
                continue
            ending = next((one for one in (FACTOR_A, FACTOR_B) if tensor.name.endswith(one)), "")
            module = _unwrap(tensor.name).removeprefix(PREFIX)
            name = by_name.get(normalize_tensor_name(module.removesuffix(ending) + ".weight" if ending else module))
            if name is None or (ending and not name.is_kernel):
                raise InputError(
                    f"{self.adapter.source} has the tensor {quote(tensor.name)}, which belongs to no layer of a "
                    f"{self.model}; expected adapters of dense layers, and the weights of the head: the adapter is of "
                    f"another model than {self.checkpoint}"
                )
            first = found.setdefault((name.ours, ending), tensor)
            if first is not tensor and (name.is_kernel or _unwrap(first.name) != _unwrap(tensor.name)):
                raise InputError(
                    f"{self.adapter.source} has the tensors {quote(first.name)} and {quote(tensor.name)}, two names of "
                    "one weight; expected one of them: save the adapter again with save_pretrained"
                )
        if not any(ending for _, ending in found):
            raise InputError(
                f"{self.adapter.source} has no tensors of LoRA (lora_A, lora_B); expected those of one or more layers: "
                "save the adapter again with save_pretrained"
            )
        return found

    def _check_replaced(self, found: Mapping[str, StoredWeight]) -> dict[str, StoredWeight]:
        """Return the weights that replace those of the checkpoint, in our layout."""
        names = [name for name in self.names if name.ours in found]
        replaced = {name.ours: _transpose(found[name.ours]) if name.is_kernel else found[name.ours] for name in names}
        for missing in self.head_names:
            layer = missing.ours.rpartition(".")[0]
            given = [name for name in self.head_names if name in names and name.ours.rpartition(".")[0] == layer]
            only_biases = all(name.huggingface.endswith(".bias") for name in given)
            if given and missing not in names and not (self.adapter.trains_biases and only_biases):
                raise InputError(
                    f"{self.adapter.source} has {quote(replaced[given[0].ours].name)} without {missing.huggingface}; "
                    "expected all weights of a layer of the head: save the adapter again with the layer in "
                    "modules_to_save"
                )
        num_classes = self.checkpoint.settings.get("num_classes")
        if get_head(self.model).has_num_classes and {"classifier.kernel", "classifier.bias"} <= replaced.keys():
            num_classes = max([1, *replaced["classifier.kernel"].shape[-1:]])  # those of a new head
        self._check_weights(replaced, {name.ours: name.shape(self.checkpoint.config, num_classes) for name in names})
        return replaced

    def _check_weights(self, weights: Mapping[str, StoredWeight], shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Check tensors of the adapter alone, so that messages about them name it."""
        alone = dataclasses.replace(self.checkpoint, source=self.adapter.source, hub_name=None, weights=weights)
        check_weights(alone, shapes, self.model)

    def _merge_kernel(self, name: WeightName, pair: Sequence[StoredWeight]) -> StoredWeight:
        """Return a kernel `(in, out)` with its adapter, W + s (B A)^T, that is computed when it is read."""
        adapter, checkpoint = self.adapter, self.checkpoint
        if len(pair) < 2:
            raise InputError(
                f"{adapter.source} has the tensor {quote(pair[0].name)} without the other matrix of its layer; "
                "expected lora_A and lora_B: save the adapter again with save_pretrained"
            )
        kernel = checkpoint.weights.get(name.ours)
        if kernel is None:
            raise InputError(
                f"{adapter.source} adapts {name.ours}, which {checkpoint} does not have; expected the model that the "
                "adapter was trained on: name another checkpoint"
            )
        shape = name.shape(checkpoint.config, checkpoint.settings.get("num_classes"))
        check_weights(checkpoint, {name.ours: shape})
        a, b = pair
        shapes = (adapter.rank, shape[0]), (shape[1], adapter.rank)
        if (a.shape, b.shape) != shapes:
            raise InputError(
                f"{adapter.source} has {quote(a.name)} of shape {a.shape} and lora_B of shape {b.shape}; expected "
                f"{shapes[0]} and {shapes[1]}, given its rank and {checkpoint}: the adapter is of another model"
            )
        self._check_weights({one.name: one for one in pair}, {one.name: one.shape for one in pair})
        scale = np.float32(adapter.scale)
        return dataclasses.replace(kernel, read=lambda: kernel.read() + scale * (b.read() @ a.read()).T)

    def _list_changes(self, weights: Mapping[str, StoredWeight]) -> dict[str, object]:
        """Return the fields of the checkpoint that change with its head; none if the head stays that of it."""
        settings, head, stored = self._make_settings(weights), get_head(self.model), self.checkpoint.settings
        known = ("num_classes",) if self.adapter.head is None else ("num_classes", "labels", "problem")
        if self.model == self.checkpoint.model and all(_get(settings, key) == _get(stored, key) for key in known):
            return {}
        lost = list(self.checkpoint.not_carried_over)
        if self.adapter.head is None and head.has_num_classes:
            lost.append(_NO_PROBLEM if head.has_problem else _NO_LABELS)
        return {"task": None, "settings": settings, "generator": None, "not_carried_over": lost}

    def _make_settings(self, weights: Mapping[str, StoredWeight]) -> dict[str, object]:
        """Return the arguments of the head; an adapter of PEFT stores neither labels nor the kind of problem."""
        head = get_head(self.model)
        if not head.has_num_classes:
            return {}
        num_classes = math.prod(weights["classifier.bias"].shape)
        stored = self.adapter.head or {}
        labels = stored.get("labels")
        if labels is not None and len(labels) != num_classes:
            raise InputError(
                f"{self.adapter.source} has {len(labels):,} labels in {HEAD}, and a head with {num_classes:,} classes; "
                "expected one label for each class: restore the folder from its source"
            )
        settings: dict[str, object] = {"num_classes": num_classes, "labels": labels}
        if head.has_problem:  # without the file, as transformers chooses it
            settings["problem"] = stored.get("problem") or ("regression" if num_classes == 1 else "single_label")
        return settings


def _get(settings: Mapping[str, object], key: str) -> object:
    value = settings.get(key)
    return list(value) if key == "labels" and value is not None else value


def _unwrap(tensor: str) -> str:
    for wrapper in _WRAPPERS:
        tensor = tensor.replace(wrapper, ".")
    return tensor


def _transpose(stored: StoredWeight) -> StoredWeight:
    return dataclasses.replace(stored, shape=stored.shape[::-1], read=lambda: stored.read().T)


def read_adapter_folder(folder: str | os.PathLike) -> AdapterFolder:
    """Read and check a folder that PEFT or `bk.finetune` wrote. Its tensors are read on demand.

    Raises:
        InputError: a file is missing or damaged, or the adapter is not LoRA, or of a kind that we do not support.
    """
    if is_hub_name(folder):
        raise InputError(f"{folder} is on the Hub; expected a folder on this machine: download it first")
    folder = pathlib.Path(folder)
    if not folder.exists():
        raise InputError(f"{folder} does not exist; expected the folder of an adapter: check the path")
    if not (folder / CONFIG).is_file():
        raise InputError(
            f"{folder} has no {CONFIG}; expected a folder with an adapter of PEFT: name the folder that "
            "save_pretrained wrote"
        )
    if not (folder / WEIGHTS).is_file():
        raise InputError(
            f"{folder} has no {WEIGHTS}; expected the adapter in this format, because a pickle can run code when "
            "loaded: save it again with save_pretrained(..., safe_serialization=True)"
        )
    check_checksums(folder)
    source = str(folder / CONFIG)
    values = read_json(source)
    _check_function(values, source)
    rank = read_field(values, "r", int, source=source, minimum=1, maximum=_LARGEST_RANK)
    alpha = read_field(values, "lora_alpha", float, source=source, minimum=0)
    is_rank_stabilized = read_field(values, "use_rslora", bool, source=source, default=None)
    bias = read_field(values, "bias", str, source=source, default=None)
    task_type = read_field(values, "task_type", str, source=source, default=None)
    model = None if task_type == "FEATURE_EXTRACTION" else find_model_of_peft(task_type)
    scale = alpha / (rank**0.5 if is_rank_stabilized else rank)  # that of "rsLoRA" (Kalajdzievski 2023) is larger
    tensors = {weight.name: _check_when_read(weight, folder) for weight in open_weights_file(folder / WEIGHTS)}
    return AdapterFolder(str(folder), model, rank, scale, bias not in (None, "none"), tensors, _read_head(folder))


def _check_when_read(weight: StoredWeight, folder: pathlib.Path) -> StoredWeight:
    """Return a weight that raises `InputError` when it is read and contains NaN or infinity."""

    def read() -> np.ndarray:
        value = weight.read()
        check_finite_weight(weight.name, value, str(folder))
        return value

    return dataclasses.replace(weight, read=read)


def _read_head(folder: pathlib.Path) -> dict[str, object] | None:
    """Return the arguments of the head in `bert_keras.json`, or None without this file."""
    source = folder / HEAD
    if not source.exists():
        return None
    values = read_json(source)
    labels = read_field(values, "labels", list[str], source=source, default=None)
    if repeated := [label for label, number in collections.Counter(labels).items() if number > 1]:
        raise InputError(
            f"{source} has the label {quote(repeated[0])} for more than one class; expected a different label for each "
            "class: restore the file from its source"
        )
    problem = read_field(values, "problem", str, source=source, default=None, choices=PROBLEMS)
    return {"problem": problem, "labels": labels}


def _check_function(values: dict, source: str) -> None:
    """Raise `InputError` if the adapter computes something else than W + s B A."""
    kind = values.get("peft_type")
    if kind != "LORA":
        raise InputError(
            f"{source} has peft_type {quote(kind)}; expected 'LORA': merge the adapter with PEFT's merge_and_unload, "
            "and convert the merged model"
        )
    for key, allowed in _SUPPORTED_VALUES.items():
        if values.get(key) not in allowed:
            raise InputError(
                f"{source} sets {key} to {quote(values[key])}, which changes what the adapter computes; expected "
                f"{allowed[0]!r} or no such key: merge the adapter with PEFT's merge_and_unload, and convert the "
                "merged model"
            )
