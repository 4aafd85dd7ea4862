"""Which layers of a model get a LoRA adapter, and how many parameters are then trained. No Keras here."""

import dataclasses
import math
import re
from collections.abc import Sequence

from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.huggingface.weight_names import WeightName, list_weights
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.heads.known_heads import get_head

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
        name for name in names if name.is_kernel and (_is_in_block(name, num_frozen_blocks) or name.ours in pooler)
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


def _is_in_block(name: WeightName, num_frozen_blocks: int) -> bool:
    match = _BLOCK.match(name.ours)
    return match is not None and int(match[1]) >= num_frozen_blocks


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
