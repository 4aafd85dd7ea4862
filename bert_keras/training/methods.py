"""Methods of fine-tuning: train all weights or LoRA adapters on labels; frozen blocks, layer-wise learning rates."""

import re
from collections.abc import Sequence

import keras

from bert_keras.checkpoints.adapters.adapted_layers import check_rank, select_layers
from bert_keras.checkpoints.adapters.adapter_files import Adapter
from bert_keras.checkpoints.adapters.lora_layers import LoraModel
from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.errors import InputError
from bert_keras.tasks.base import EncodedSequences, LabelledSequences, Task
from bert_keras.training.config.finetuning_settings import FineTuning


class LabelTraining:
    """Method of a fine-tuning: train a model with the task's head on labels.

    A subclass can train the model as a part of another one, and on more than labels.

    Attributes:
        adapter: the LoRA adapter, after `merge`, if one is trained.
    """

    adapter: Adapter | None = None

    def build_model(self, task: Task, checkpoint: Checkpoint, settings: FineTuning) -> keras.Model:
        """Build the model that is trained; called in the scope of the strategy and of the dtype policy."""
        model = task.head.load("model").from_checkpoint(checkpoint, **task.head_arguments())
        if settings.frozen_blocks is not None:
            freeze(model, settings.frozen_blocks)
        return model

    def get_result(self, model: keras.Model) -> keras.Model:
        """Return the part of the trained model that is scored after each epoch."""
        return model

    def merge(self, model: keras.Model) -> keras.Model:
        """Return the model to keep, after the training."""
        return self.get_result(model)

    def add_labels(self, task: Task, sequences: EncodedSequences, examples: Sequence) -> LabelledSequences:
        """Add to encoded training examples what the model learns."""
        return task.add_labels(sequences, examples)

    def loss(self, task: Task) -> object:
        """Return the loss for `compile`."""
        return task.loss()

    def identify(self) -> dict[str, object]:
        """Return plain values that identify what is learned besides labels, keyed by a name for messages."""
        return {}


class AdapterTraining(LabelTraining):
    """Train LoRA adapters and the head on labels; the model to keep has the adapters merged."""

    def __init__(self):
        self._lora: LoraModel | None = None
        self._frozen_blocks: int | None = None

    def build_model(self, task: Task, checkpoint: Checkpoint, settings: FineTuning) -> keras.Model:
        """Build the model, add adapters to it, and freeze the rest of its encoder."""
        check_rank(settings.lora_rank, checkpoint)
        model = super().build_model(task, checkpoint, settings)
        layers = select_layers(type(model).__name__, checkpoint, settings.frozen_blocks or 0)
        self._lora = LoraModel(model, layers, settings.lora_rank, settings.lora_alpha)
        self._frozen_blocks = settings.frozen_blocks
        return model

    def merge(self, model: keras.Model) -> keras.Model:
        """Keep a copy of the adapter, and build a model with the adapter merged and the same frozen blocks."""
        self.adapter = self._lora.read_adapter()
        merged = self._lora.merge()
        if self._frozen_blocks is not None:
            freeze(merged, self._frozen_blocks)
        return merged


def freeze(model: keras.Model, num_blocks: int) -> None:
    """Freeze the embeddings and the first `num_blocks` blocks: `fit` does not change their weights.

    Raises:
        InputError: the model has fewer blocks.
    """
    encoder = model.encoder
    if num_blocks > len(encoder.blocks):
        raise InputError(
            f"{num_blocks} blocks cannot be frozen, because the model has {len(encoder.blocks)}; expected at most that "
            "many: freeze fewer"
        )
    for layer in (encoder.embeddings, encoder.embedding_projection, *encoder.blocks[:num_blocks]):
        if layer is not None:
            layer.trainable = False


def compute_rate_factors(model: keras.Model, layer_decay: float, head_rate_factor: float = 1.0) -> list[float] | None:
    """Compute the factor of each trainable variable's learning rate; None if all are 1.

    The factor is `layer_decay` to the power of the depth: 0 for the head and the pooler, 2 for the last block, one more
    for each block below it, and one more for the embeddings, as in ELECTRA's fine-tuning code (`_get_layer_lrs`). That
    of the head, which is every variable outside the encoder, is `head_rate_factor`.
    """
    if layer_decay == head_rate_factor == 1:
        return None
    num_blocks = len(model.encoder.blocks)
    encoder = {id(variable) for variable in model.encoder.variables}
    return [
        layer_decay ** _get_depth(variable.path, num_blocks) * (1 if id(variable) in encoder else head_rate_factor)
        for variable in model.trainable_variables
    ]


def _get_depth(path: str, num_blocks: int) -> int:
    if block := re.search(r"(?:^|/)block_(\d+)/", path):
        return num_blocks + 1 - int(block[1])
    return num_blocks + 2 if re.search(r"(?:^|/)(embeddings|embedding_projection)/", path) else 0
