"""The checkpoint folder, and the converters from and to the formats of Google, Hugging Face and KerasHub.

Start with `checkpoint.py`, which holds what every format is converted to. Names are imported lazily, because checking a
folder needs no TensorFlow.
"""

import importlib

_PUBLIC_NAMES = {
    "convert": "bert_keras.checkpoints.saving",
    "load": "bert_keras.checkpoints.loading",
    "load_tokenizer": "bert_keras.checkpoints.loading",
    "save": "bert_keras.checkpoints.saving",
}

__all__ = list(_PUBLIC_NAMES)


def __getattr__(name: str):
    if name in _PUBLIC_NAMES:
        return getattr(importlib.import_module(_PUBLIC_NAMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; its names are {', '.join(__all__)}")
