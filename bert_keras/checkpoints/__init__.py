"""The checkpoint folder, and the ways from and to Google's, Hugging Face's and KerasHub's formats.

Its names are handed on lazily, since reading a folder loads no TensorFlow. The public names of the models come from
here: with the first of them the models are given their `from_checkpoint`.
"""

import importlib

_MODELS = (
    "BertClassifier",
    "BertEmbedder",
    "BertEncoder",
    "BertMaskedLM",
    "BertPretrainer",
    "BertQuestionAnswerer",
    "BertTokenClassifier",
    "ElectraPretrainer",
)
_FUNCTIONS = {
    "convert": "bert_keras.checkpoints.converting",
    "load": "bert_keras.checkpoints.loading",
    "load_tokenizer": "bert_keras.checkpoints.loading",
    "save": "bert_keras.checkpoints.saving",
}

__all__ = [*_MODELS, *_FUNCTIONS]


def __getattr__(name: str):
    if name in _FUNCTIONS:
        return getattr(importlib.import_module(_FUNCTIONS[name]), name)
    if name in _MODELS:
        importlib.import_module("bert_keras.checkpoints.loading")
        return getattr(importlib.import_module("bert_keras.modeling"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; its names are {', '.join(__all__)}")
