"""`LabelTraining`: train all weights of a model, or those of the upper blocks, on labels."""

from collections.abc import Sequence

import keras

from bert_keras import modeling
from bert_keras.checkpoints.adapters.adapter_files import Adapter
from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.tasks.base import EncodedSequences, LabelledSequences, Task
from bert_keras.training.config.finetuning_settings import FineTuning
from bert_keras.training.optimizers.layer_decay import freeze


class LabelTraining:
    """Method of a fine-tuning: train a model with the task's head on labels.

    A subclass can train the model as a part of another one, and on more than labels.

    Attributes:
        adapter: the LoRA adapter, after `merge`, if one is trained.
    """

    adapter: Adapter | None = None

    def build_model(self, task: Task, checkpoint: Checkpoint, settings: FineTuning) -> keras.Model:
        """Build the model that is trained; called in the scope of the strategy and of the dtype policy."""
        model = getattr(modeling, task.model_class).from_checkpoint(checkpoint, **task.head_arguments())
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
