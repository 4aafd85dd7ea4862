"""The checkpoint folder, and the ways from and to Google's, Hugging Face's and KerasHub's formats.

Importing it gives the models their `from_checkpoint`, so the public names of the models come from here.
"""

from bert_keras.checkpoints.huggingface_folder import save
from bert_keras.checkpoints.load import convert, load, load_tokenizer
from bert_keras.modeling import (
    BertClassifier,
    BertEmbedder,
    BertEncoder,
    BertMaskedLM,
    BertPretrainer,
    BertQuestionAnswerer,
    BertTokenClassifier,
    ElectraPretrainer,
)

__all__ = [
    "BertClassifier",
    "BertEmbedder",
    "BertEncoder",
    "BertMaskedLM",
    "BertPretrainer",
    "BertQuestionAnswerer",
    "BertTokenClassifier",
    "ElectraPretrainer",
    "convert",
    "load",
    "load_tokenizer",
    "save",
]
