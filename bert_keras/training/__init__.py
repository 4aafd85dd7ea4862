"""Optimizers, schedules and the two trainings, both plain `model.fit`."""

from bert_keras.training.finetune import finetune_classifier
from bert_keras.training.optimizers import WarmupLinearDecay, adamw
from bert_keras.training.pretrain import pretrain

__all__ = ["WarmupLinearDecay", "adamw", "finetune_classifier", "pretrain"]
