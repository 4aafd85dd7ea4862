"""`AdapterFolder`: a LoRA adapter in the format of PEFT, `adapter_config.json` and `adapter_model.safetensors`.

`adapter_files.py` writes such files, `merged_checkpoint.py` merges them. No Keras here.
"""

import collections
import dataclasses
import os
import pathlib
from collections.abc import Mapping

import numpy as np

from bert_keras.checkpoints.adapters.adapter_files import CONFIG, HEAD, WEIGHTS
from bert_keras.checkpoints.checkpoint import StoredWeight, check_finite_weight
from bert_keras.checkpoints.huggingface.weights_file import open_weights_file
from bert_keras.checks import quote, read_field
from bert_keras.config import PROBLEMS
from bert_keras.errors import InputError
from bert_keras.files import check_checksums, read_json
from bert_keras.heads.known_heads import find_model_of_peft
from bert_keras.hub.names import is_hub_name

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
