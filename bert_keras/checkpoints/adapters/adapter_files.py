"""`Adapter`: a trained LoRA adapter, the layers that have one, and its files in the format of PEFT. No Keras here.

`merged_checkpoint.py` reads such files.
"""

import dataclasses
import hashlib
import math
import os
import re
from collections.abc import Mapping, Sequence

import numpy as np
import safetensors.numpy

from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.huggingface.huggingface_folder import get_name_prefix
from bert_keras.checkpoints.huggingface.weight_names import WeightName, list_weights
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.files import CHECKSUMS, format_json
from bert_keras.heads.known_heads import get_head
from bert_keras.hub.names import is_hub_name, parse_hub_name

ADAPTER_FOLDER = "adapter"  # in the folder of a fine-tuned checkpoint
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
HEAD = "bert_keras.json"  # the labels and the kind of problem, which PEFT does not store
PREFIX = "base_model.model."  # of every tensor's name: PEFT wraps the model of transformers in two attributes
FACTOR_A, FACTOR_B = ".lora_A.weight", ".lora_B.weight"
_POOLER = "encoder.pooler.kernel"
_BLOCK = re.compile(r"encoder\.blocks\.(\d+)\.")


@dataclasses.dataclass(frozen=True)
class AdaptedLayers:
    """The weights of a model for a task that LoRA trains, all others are frozen.

    Attributes:
        model: our class of the model for the task.
        config: the config of the encoder.
        names: all weights of the model.
        kernels: the matrices of dense layers that get an adapter.
        trained: the weights that are trained directly, without an adapter: those of the head, and a pooler that the
            checkpoint lacks.
    """

    model: str
    config: BertConfig
    names: Sequence[WeightName]
    kernels: Sequence[WeightName]
    trained: Sequence[WeightName]


def select_layers(model: str, checkpoint: Checkpoint, num_frozen_blocks: int = 0) -> AdaptedLayers:
    """Select the layers that get an adapter: all dense layers of the blocks, and the pooler of a classifier.

    Args:
        model: our class of the model that is trained, with a new head on the encoder of the checkpoint.
        checkpoint: the start of the training.
        num_frozen_blocks: number of blocks, counted from the embeddings, without adapters.

    Raises:
        InputError: no layer is left.
    """
    has_pooler = checkpoint.wants_pooler_for(model)
    names = list_weights(model, checkpoint.config, pooler=has_pooler)
    uses_pooler = has_pooler and not get_head(model).keeps_pooler
    pooler = {_POOLER} if uses_pooler and checkpoint.has_pooler else set()
    kernels = [
        name
        for name in names
        if name.is_kernel
        and (name.ours in pooler or ((block := _BLOCK.match(name.ours)) and int(block[1]) >= num_frozen_blocks))
    ]
    if not kernels:
        raise InputError(
            f"lora_rank is set and all {checkpoint.config.num_layers} blocks are frozen, so no layer is left for an "
            "adapter; expected fewer frozen blocks: freeze fewer, or leave lora_rank out"
        )
    fresh = "encoder.pooler." if uses_pooler and not checkpoint.has_pooler else None
    trained = [
        name for name in names if not name.ours.startswith("encoder.") or (fresh and name.ours.startswith(fresh))
    ]
    return AdaptedLayers(model, checkpoint.config, names, kernels, trained)


def check_rank(rank: int, checkpoint: Checkpoint) -> None:
    """Raise `InputError` if an adapter of this rank has more parameters than a square layer of the model's width."""
    if 2 * rank > checkpoint.config.hidden_dim:
        raise InputError(
            f"lora_rank is {rank} for a model of width {checkpoint.config.hidden_dim}; expected at most half the "
            "width, because larger adapters have more parameters than the layers: choose a lower rank, such as 8, or "
            "leave lora_rank out"
        )


def count_trained_parameters(
    model: str, checkpoint: Checkpoint, rank: int, *, num_classes: int | None, num_frozen_blocks: int = 0
) -> tuple[int, int]:
    """Count the parameters that LoRA trains, and those of the model with its adapters merged.

    Args:
        model: our class of the model for the task.
        checkpoint: the start of the training.
        rank: the rank of the adapters.
        num_classes: number of classes of the task, for the heads that have it.
        num_frozen_blocks: see `select_layers`.

    Raises:
        InputError: see `select_layers`.
    """
    layers = select_layers(model, checkpoint, num_frozen_blocks)
    num_classes = num_classes if get_head(model).has_num_classes else None

    def count(names: Sequence[WeightName]) -> int:
        return sum(math.prod(name.shape(checkpoint.config, num_classes)) for name in names)

    adapters = sum(rank * sum(name.shape(checkpoint.config)) for name in layers.kernels)
    return adapters + count(layers.trained), count(layers.names)


@dataclasses.dataclass(frozen=True, eq=False)
class Adapter:
    """A trained adapter: what it adds to the layers of the checkpoint that it was trained on.

    Attributes:
        layers: the layers with an adapter, and the weights that were trained directly, without an adapter.
        rank: r, the width of the adapters.
        alpha: the adapters are scaled by `alpha` / `rank`.
        factors: the matrices A `(in, r)` and B `(r, out)` of each adapted layer, keyed by our name of its kernel, which
            becomes W + (alpha / r) A B.
        trained: the values of the weights that were trained directly, without an adapter, keyed by our names.
        head: the arguments `problem` and `labels` of the model, those that it has.
    """

    layers: AdaptedLayers
    rank: int
    alpha: int
    factors: Mapping[str, tuple[np.ndarray, np.ndarray]]
    trained: Mapping[str, np.ndarray]
    head: Mapping[str, object] = dataclasses.field(default_factory=dict)

    def compute_change(self, kernel: str) -> np.ndarray:
        """Compute what the adapter adds to a kernel `(in, out)`, in float32."""
        a, b = self.factors[kernel]
        return np.float32(self.alpha / self.rank) * (a @ b)


def build_adapter_files(adapter: Adapter, base: str | os.PathLike) -> dict[str, bytes]:
    """Return the files of an adapter, which `peft.PeftModel.from_pretrained(model, folder)` opens, keyed by name.

    The folder has a `SHA256SUMS` of its own, so that it can be moved. A classifier also has `bert_keras.json`, which
    PEFT ignores: its labels and its kind of problem.

    Args:
        adapter: the adapter.
        base: the checkpoint that it was trained on, as the user named it.
    """
    tensors: dict[str, np.ndarray] = {}
    for name in adapter.layers.kernels:
        a, b = adapter.factors[name.ours]
        module = PREFIX + _get_tensor_name(name, adapter.layers).removesuffix(".weight")
        tensors |= {module + FACTOR_A: a.T, module + FACTOR_B: b.T}
    for name in adapter.layers.trained:
        value = adapter.trained[name.ours]
        tensors[PREFIX + _get_tensor_name(name, adapter.layers)] = value.T if name.is_kernel else value
    tensors = {name: np.ascontiguousarray(value, "float32") for name, value in tensors.items()}
    hashed = {WEIGHTS: safetensors.numpy.save(tensors, metadata={"format": "pt"})}
    if adapter.head:
        hashed[HEAD] = _encode_json(adapter.head)
    checksums = [f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in hashed.items()]
    return {CONFIG: _encode_json(_build_config(adapter, base)), **hashed, CHECKSUMS: "".join(checksums).encode()}


def _encode_json(values: Mapping[str, object]) -> bytes:
    return (format_json(values, indent=2) + "\n").encode()


def _build_config(adapter: Adapter, base: str | os.PathLike) -> dict[str, object]:
    """Return `adapter_config.json`: the keys that PEFT needs; it has the same defaults for the others."""
    name, revision = os.fspath(base), None
    if is_hub_name(base):
        hub_name = parse_hub_name(name)
        name, revision = hub_name.repository, hub_name.revision
    return {
        "peft_type": "LORA",
        "task_type": get_head(adapter.layers.model).peft,
        "base_model_name_or_path": name,
        "revision": revision,
        "r": adapter.rank,
        "lora_alpha": adapter.alpha,
        "target_modules": _list_target_modules(adapter.layers),
        # those that were trained directly, without an adapter: `classifier`, `qa_outputs`, `pooler`
        "modules_to_save": list(dict.fromkeys(one.huggingface.split(".")[0] for one in adapter.layers.trained)) or None,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "init_lora_weights": True,
        "lora_dropout": 0.0,
        "use_dora": False,
        "use_rslora": False,
    }


def _get_tensor_name(name: WeightName, layers: AdaptedLayers) -> str:
    return get_name_prefix(name, layers.model, layers.config) + name.huggingface


def _list_target_modules(layers: AdaptedLayers) -> list[str]:
    """Return the names of the adapted layers in their block, or the full names if only some blocks are adapted.

    PEFT adapts every layer whose name ends with a dot and one of them.
    """
    modules = {name: _get_tensor_name(name, layers).removesuffix(".weight") for name in layers.names if name.is_kernel}
    adapted = [modules[name] for name in layers.kernels]
    endings = list(dict.fromkeys(_get_ending(name) for name in layers.kernels))
    matched = [module for module in modules.values() if module.endswith(tuple(f".{ending}" for ending in endings))]
    return endings if matched == adapted else adapted


def _get_ending(name: WeightName) -> str:
    """Return the name of a dense layer without its block: `attention.self.query`, `pooler.dense`."""
    parts = name.huggingface.removesuffix(".weight").split(".")
    return ".".join(parts[3:] if parts[:2] == ["encoder", "layer"] else parts)
