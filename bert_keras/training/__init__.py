"""Pretraining and fine-tuning through `model.fit`, with optimizers, schedules, recipes and backups.

Start with `pretraining.py` and `finetuning.py`. Names are imported lazily, so that recipes can be read and checked
before TensorFlow is loaded.
"""

import importlib

_PUBLIC_NAMES = {
    "BackupFolder": "backups",
    "FineTuning": "config.finetuning_settings",
    "BackupOptions": "fitting",
    "Lamb": "optimizers.adamw_and_lamb",
    "Pretraining": "config.recipes",
    "TimedLearningRate": "optimizers.schedules",
    "WarmupDecay": "optimizers.schedules",
    "adamw": "optimizers.adamw_and_lamb",
    "finetune": "finetuning",
    "lamb": "optimizers.adamw_and_lamb",
    "make_optimizer": "optimizers.adamw_and_lamb",
    "pretrain": "pretraining",
    "rate_shape": "optimizers.schedules",
}

__all__ = list(_PUBLIC_NAMES)


def __getattr__(name: str):
    if name in _PUBLIC_NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_PUBLIC_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; its names are {', '.join(__all__)}")
