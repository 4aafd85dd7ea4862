"""`BertEmbedder`: one vector a text."""

import keras
from keras import ops

from bert_keras.errors import InputError
from bert_keras.modeling.base import INPUT_SHAPES
from bert_keras.modeling.encoder import BertEncoder
from bert_keras.modeling.heads import HeadModel, handed_on, row_weights
from bert_keras.modeling.losses import StepMean
from bert_keras.modeling.pair_losses import CosineError

POOLINGS = ("mean", "cls")


@keras.saving.register_keras_serializable(package="bert_keras")
class BertEmbedder(HeadModel):
    """Sentence vectors for search and comparison (Reimers & Gurevych 2019, Sentence-BERT).

    Args:
        encoder: a `BertEncoder`. A pooler is kept with the weights but neither read nor trained.
        pooling: "mean" over the real tokens, or "cls", the first token.
        normalize: whether vectors have length 1, so that a dot product is the cosine.

    Returns: `embedding` (B, D), float32.
    Labels for `fit`: float (B,); rows 2i and 2i + 1 are the texts of a pair and both have its score, which their cosine
    is to become. `modeling.pair_losses` has another loss, for pairs without scores.

    Raises:
        InputError: an unknown pooling.
    """

    def __init__(self, encoder: BertEncoder, *, pooling: str = "mean", normalize: bool = True, **kwargs):
        if pooling not in POOLINGS:
            raise InputError(f"pooling is {pooling!r}, expected one of {', '.join(POOLINGS)}")
        super().__init__(encoder, **kwargs)
        self.pooling = pooling
        self.normalize = normalize
        if encoder.pooler is not None:
            encoder.pooler.trainable = False
        self.build(INPUT_SHAPES)

    def call(self, inputs, training=None, **returns):
        encoded = self.encode(inputs, training, **returns)
        sequence = ops.cast(encoded["sequence_output"], "float32")
        embedding = sequence[:, 0, :] if self.pooling == "cls" else _mean(sequence, inputs["padding_mask"])
        if self.normalize:
            length = ops.sqrt(ops.sum(ops.square(embedding), axis=-1, keepdims=True))
            embedding = embedding / ops.maximum(length, 1e-12)
        return {"embedding": embedding, **handed_on(encoded)}

    def default_loss(self):
        return {"embedding": StepMean(CosineError(), "embedding")}

    def match_labels(self, x, y, outputs):
        return {"embedding": y}, outputs

    def label_weights(self, x, y, sample_weight):
        return {"embedding": row_weights(y, sample_weight)}

    def get_config(self):
        return {**super().get_config(), "pooling": self.pooling, "normalize": self.normalize}


def _mean(sequence, padding_mask):
    """Averages the real tokens of (B, S, D); a row without any gives zeros."""
    weights = ops.cast(padding_mask, "float32")[..., None]
    return ops.sum(sequence * weights, axis=1) / ops.maximum(ops.sum(weights, axis=1), 1e-9)
