"""Pretraining and fine-tuning with `model.fit`: settings, optimizers, schedules, backups.

Start with `pretraining.py` (`bk.pretrain`) and `finetuning.py`, which build a model and call `fitting.py`;
`finetuning_to_folder.py` is `bk.finetune`. Names are imported lazily: settings can be checked without TensorFlow.
"""

import importlib

_PUBLIC_NAMES = {
    "BackupFolder": "backups",
    "BackupOptions": "backups",
    "FineTuning": "config.finetuning_settings",
    "Lamb": "optimizers.update_rules",
    "Pretraining": "config.recipes",
    "TimedLearningRate": "optimizers.schedules",
    "WarmupDecay": "optimizers.schedules",
    "adamw": "optimizers.schedules",
    "lamb": "optimizers.schedules",
    "muon": "optimizers.schedules",
    "make_optimizer": "optimizers.schedules",
    "compute_rate": "optimizers.schedules",
    "run_finetuning": "finetuning",
    "run_pretraining": "pretraining",
}

__all__ = list(_PUBLIC_NAMES)


def __getattr__(name: str) -> object:
    if name in _PUBLIC_NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_PUBLIC_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; its names are {', '.join(__all__)}")
