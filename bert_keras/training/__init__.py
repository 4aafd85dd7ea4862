"""Optimizers, schedules, recipes and the two trainings, both plain `model.fit`.

The names are handed on lazily, so that recipes can be read and checked before TensorFlow is loaded.
"""

import importlib

_PUBLIC_NAMES = {
    "BackupFolder": "backups",
    "FineTuning": "tuning_settings",
    "Keeping": "fitting",
    "Lamb": "optimizers",
    "Pretraining": "recipes",
    "TimedLearningRate": "schedules",
    "WarmupDecay": "schedules",
    "adamw": "optimizers",
    "finetune": "finetuning",
    "lamb": "optimizers",
    "make_optimizer": "optimizers",
    "pretrain": "pretraining",
    "rate_shape": "schedules",
}

__all__ = list(_PUBLIC_NAMES)


def __getattr__(name: str):
    if name in _PUBLIC_NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_PUBLIC_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; its names are {', '.join(__all__)}")
