"""Keras layers, the encoder and the models with heads, on `keras.ops`: the same code runs on TensorFlow and JAX.

Start with `layers.py` (the architecture) and `encoder.py`.
"""

from bert_keras.modeling.classification import BertClassifier, BertQuestionAnswerer, BertTokenClassifier
from bert_keras.modeling.electra import ElectraPretrainer
from bert_keras.modeling.embedder import BertEmbedder
from bert_keras.modeling.encoder import BertEncoder
from bert_keras.modeling.masked_lm import BertMaskedLM, BertPretrainer

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
