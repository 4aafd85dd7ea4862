"""Keras layers, the encoder and the models with heads, on `keras.ops`: the same code runs on TensorFlow and JAX.

Start with `layers.py` (the architecture) and `encoder.py`.
"""

from bert_keras.heads.classify.model import BertClassifier, BertQuestionAnswerer, BertTokenClassifier
from bert_keras.heads.pretraining.electra import ElectraPretrainer
from bert_keras.heads.embed.model import BertEmbedder
from bert_keras.architectures.encoder import BertEncoder
from bert_keras.heads.fill_mask.model import BertMaskedLM, BertPretrainer

__all__ = [
    "BertClassifier",
    "BertEmbedder",
    "BertEncoder",
    "BertMaskedLM",
    "BertPretrainer",
    "BertQuestionAnswerer",
    "BertTokenClassifier",
    "ElectraPretrainer",
]
