"""BERT for TensorFlow and Keras: raw text to a trained model to a proven artifact.

Public names are imported lazily: `import bert_keras` loads no TensorFlow.
"""

import importlib

from bert_keras.registration import register_with_keras

__version__ = "0.2.0"

_PUBLIC_NAMES = {
    "BertConfig": "bert_keras.config",
    "InputError": "bert_keras.errors",
    "BertTokenizer": "bert_keras.pipelines.text.tokenizer",
    "learn_vocabulary": "bert_keras.pipelines.text.learned_vocabulary",
    "make_records": "bert_keras.pipelines.records.making_records",
    "pack": "bert_keras.pipelines.batches.packing",
    "BertEncoder": "bert_keras.architectures.encoder",
    "BertPretrainer": "bert_keras.heads.fill_mask.model",
    "BertMaskedLM": "bert_keras.heads.fill_mask.model",
    "BertClassifier": "bert_keras.heads.classify.model",
    "BertTokenClassifier": "bert_keras.heads.tag.model",
    "BertQuestionAnswerer": "bert_keras.heads.answer.model",
    "BertEmbedder": "bert_keras.heads.embed.model",
    "ElectraPretrainer": "bert_keras.heads.pretraining.electra",
    "load": "bert_keras.checkpoints",
    "load_tokenizer": "bert_keras.checkpoints",
    "save": "bert_keras.checkpoints",
    "convert": "bert_keras.checkpoints",
    "fill_mask": "bert_keras.engines.mask_filling",
    "Predictor": "bert_keras.engines.predictor",
    "evaluate": "bert_keras.engines.evaluation",
    "pretrain": "bert_keras.training.pretraining",
    "finetune": "bert_keras.training.finetuning_to_folder",
    "distill": "bert_keras.training.distilling.distilling_to_folder",
    "export_model": "bert_keras.export.artifacts",
    "push": "bert_keras.export.pushing.pushing",
    "plan": "bert_keras.analysis.cost_model.planning",
    "inspect": "bert_keras.analysis.inspection.inspecting",
}
_PUBLIC_MODULES = ("export", "pipelines")

__all__ = [*_PUBLIC_NAMES, *_PUBLIC_MODULES, "__version__"]


def __getattr__(name: str):
    if name in _PUBLIC_NAMES:
        return getattr(importlib.import_module(_PUBLIC_NAMES[name]), name)
    if name in _PUBLIC_MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module 'bert_keras' has no attribute {name!r}; its names are {', '.join(__all__)}")


def __dir__():
    return sorted(__all__)


register_with_keras()
