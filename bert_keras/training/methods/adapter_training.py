"""`AdapterTraining`: train LoRA adapters and the head of a model."""

import keras

from bert_keras.checkpoints.adapters.adapted_layers import check_rank, select_layers
from bert_keras.checkpoints.adapters.lora_layers import LoraModel
from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.tasks.base import Task
from bert_keras.training.config.finetuning_settings import FineTuning
from bert_keras.training.methods.label_training import LabelTraining
from bert_keras.training.optimizers.layer_decay import freeze


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
