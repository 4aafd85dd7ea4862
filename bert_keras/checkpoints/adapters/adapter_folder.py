"""`AdapterFolder`: a LoRA adapter in the format of PEFT, `adapter_config.json` and `adapter_model.safetensors`.

`adapter_files.py` writes such files. No Keras here.
"""

import dataclasses
import os
import pathlib
from collections.abc import Mapping

from bert_keras.checkpoints.adapters.adapter_files import CONFIG, TASK_TYPES, WEIGHTS
from bert_keras.checkpoints.checkpoint import StoredWeight
from bert_keras.checkpoints.huggingface.weights_file import open_weights_file
from bert_keras.checks import quote, read_field
from bert_keras.errors import InputError
from bert_keras.files import check_checksums, read_json

_LARGEST_RANK = 2**20
# keys that change what the adapter computes, with the only values that we support
_FUNCTION_KEYS = {
    "use_dora": (False, None),
    "use_qalora": (False, None),
    "use_bdlora": (False, None),
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
        tensors: the stored tensors, keyed by their names in the file.
    """

    source: str
    model: str | None
    rank: int
    scale: float
    tensors: Mapping[str, StoredWeight]


def read_adapter_folder(folder: str | os.PathLike) -> AdapterFolder:
    """Read and check a folder that PEFT wrote. Its tensors are read on demand.

    Raises:
        InputError: a file is missing or damaged, or the adapter is not LoRA, or of a kind that we do not support.
    """
    folder = pathlib.Path(folder)
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
    root = read_field(values, "use_rslora", bool, source=source, default=False)
    task_type = read_field(values, "task_type", str, source=source, default=None)
    model = None if task_type == "FEATURE_EXTRACTION" else TASK_TYPES.get(task_type)
    tensors = {weight.name: weight for weight in open_weights_file(folder / WEIGHTS)}
    # the scale of "rsLoRA" (Kalajdzievski 2023) is larger
    return AdapterFolder(str(folder), model, rank, alpha / (rank**0.5 if root else rank), tensors)


def _check_function(values: dict, source: str) -> None:
    """Raise `InputError` if the adapter computes something else than W + s B A."""
    kind = values.get("peft_type")
    if kind != "LORA":
        raise InputError(
            f"{source} has peft_type {quote(kind)}; expected 'LORA': merge the adapter with PEFT's merge_and_unload, "
            "and convert the merged model"
        )
    for key, allowed in _FUNCTION_KEYS.items():
        if values.get(key) not in allowed:
            raise InputError(
                f"{source} sets {key} to {quote(values[key])}, which changes what the adapter computes; expected "
                f"{allowed[0]!r} or no such key: merge the adapter with PEFT's merge_and_unload, and convert the "
                "merged model"
            )
