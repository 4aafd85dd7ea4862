"""`BertEmbedder`: one vector a text."""

from collections.abc import Mapping, Sequence

import keras
from keras import ops

from bert_keras.embedding_settings import SIMILARITIES, check_pooling, check_prompts
from bert_keras.errors import InputError
from bert_keras.modeling.base import INPUT_SHAPES
from bert_keras.modeling.encoder import BertEncoder
from bert_keras.modeling.heads import HeadModel, handed_on, row_weights
from bert_keras.modeling.losses import StepMean
from bert_keras.modeling.pair_losses import CosineError

_NO_VALUE = -3e38  # below every float of a vector, and finite


@keras.saving.register_keras_serializable(package="bert_keras")
class BertEmbedder(HeadModel):
    """Sentence vectors for search and comparison (Reimers & Gurevych 2019, Sentence-BERT).

    Args:
        encoder: a `BertEncoder`. A pooler is kept with the weights but neither read nor trained.
        pooling: how the vectors of a text's tokens become one: "mean", "cls" (the first token), "max",
            "mean_sqrt_len_tokens" (the sum divided by the root of their number), "weightedmean" (position i counts i
            times), "lasttoken"; or several, whose vectors are joined in that order.
        normalize: whether vectors have length 1, so that a dot product is the cosine.
        include_prompt: whether the tokens of a prompt, [CLS] among them, are pooled with those of the text.
        prompts: what is to stand before texts, by name, such as {"query": "query: "}. The model reads tokens and
            keeps the prompts for those who make them: `Predictor`, artifacts and the checkpoint folder.
        default_prompt_name: the prompt that stands before a text where none is named; None: none.
        similarity: how vectors are meant to be compared: "cosine", "dot", "euclidean" or "manhattan"; None: not said.
            It is kept for sentence-transformers and changes nothing here.

    The optional feature `pooling_mask` (B, S) says which tokens are pooled: 1 = pooled, 0 = prompt or padding.

    Returns: `embedding` (B, D), float32; (B, k D) of k poolings.
    Labels for `fit`: float (B,); rows 2i and 2i + 1 are the texts of a pair and both have its score, which their cosine
    is to become. `modeling.pair_losses` has another loss, for pairs without scores.

    Raises:
        InputError: an unknown pooling or similarity, or a default prompt that is none of the prompts.
    """

    extra_inputs = ("pooling_mask",)

    def __init__(
        self,
        encoder: BertEncoder,
        *,
        pooling: str | Sequence[str] = "mean",
        normalize: bool = True,
        include_prompt: bool = True,
        prompts: Mapping[str, str] | None = None,
        default_prompt_name: str | None = None,
        similarity: str | None = None,
        **kwargs,
    ):
        pooling, prompts = check_pooling(pooling), check_prompts(prompts, default_prompt_name)
        if similarity not in (None, *SIMILARITIES):
            raise InputError(f"similarity is {similarity!r}, expected one of {', '.join(SIMILARITIES)}, or none")
        super().__init__(encoder, **kwargs)
        self.pooling = pooling
        self.normalize = normalize
        self.include_prompt = include_prompt
        self.prompts = prompts
        self.default_prompt_name = default_prompt_name
        self.similarity = similarity
        if encoder.pooler is not None:
            encoder.pooler.trainable = False
        self.build(INPUT_SHAPES)

    def call(self, inputs, training=None, **returns):
        encoded = self.encode(inputs, training, **returns)
        sequence = ops.cast(encoded["sequence_output"], "float32")
        poolings = (self.pooling,) if isinstance(self.pooling, str) else self.pooling
        vectors = [_pooled(pooling, sequence, inputs) for pooling in poolings]
        embedding = vectors[0] if len(vectors) == 1 else ops.concatenate(vectors, axis=-1)
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
        return {
            **super().get_config(),
            "pooling": self.pooling if isinstance(self.pooling, str) else list(self.pooling),
            "normalize": self.normalize,
            "include_prompt": self.include_prompt,
            "prompts": dict(self.prompts),
            "default_prompt_name": self.default_prompt_name,
            "similarity": self.similarity,
        }


def _pooled(pooling: str, sequence, inputs):
    """Pools (B, S, D) to (B, D); a row without any token gives zeros."""
    if pooling == "cls" and "pooling_mask" not in inputs:
        return sequence[:, 0, :]
    mask = inputs.get("pooling_mask", inputs["padding_mask"])
    weights = ops.cast(mask, "float32")[..., None]
    if pooling in ("cls", "lasttoken"):
        return ops.sum(sequence * _edge_of(mask, last=pooling == "lasttoken")[..., None], axis=1)
    if pooling == "max":
        highest = ops.max(ops.where(weights > 0, sequence, _NO_VALUE), axis=1)
        return ops.where(ops.max(weights, axis=1) > 0, highest, 0.0)
    if pooling == "weightedmean":
        weights = weights * _places(mask)[..., None]
    total, count = ops.sum(sequence * weights, axis=1), ops.maximum(ops.sum(weights, axis=1), 1e-9)
    return total / (ops.sqrt(count) if pooling == "mean_sqrt_len_tokens" else count)


def _edge_of(mask, *, last: bool):
    """Returns 1.0 at the first or the last token (B, S) that `mask` has, 0.0 elsewhere."""
    places, mask = _places(mask), ops.cast(mask, "float32")
    rank = mask * (places if last else 1.0 / places)
    return mask * ops.cast(rank == ops.max(rank, axis=1, keepdims=True), "float32")


def _places(mask):
    """Returns 1.0, 2.0, ... (B, S); the length of a symbolic mask is not known, so it is counted."""
    return ops.cumsum(ops.ones_like(mask, dtype="float32"), axis=1)
