"""All encoders and models with heads, as `bert_keras` exports them; importing this module registers them with Keras."""

from bert_keras.architectures.encoder import BertEncoder
from bert_keras.heads.answer.model import BertQuestionAnswerer
from bert_keras.heads.classify.model import BertClassifier
from bert_keras.heads.embed.model import BertEmbedder
from bert_keras.heads.fill_mask.model import BertMaskedLM, BertPretrainer
from bert_keras.heads.pretraining.electra import ElectraPretrainer
from bert_keras.heads.tag.model import BertTokenClassifier

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
