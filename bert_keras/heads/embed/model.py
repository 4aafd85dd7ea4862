"""`BertEmbedder`: one vector per text."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops

from bert_keras.architectures.base import INPUT_SHAPES
from bert_keras.architectures.encoder import BertEncoder
from bert_keras.architectures.head_model import HeadModel, make_example_weights, select_extra_outputs
from bert_keras.architectures.losses import CosineError, GlobalBatchMean
from bert_keras.embedding_settings import SIMILARITIES, check_pooling, check_prompts
from bert_keras.errors import InputError
from bert_keras.features import Features, Tensor

_LOWEST = -3e38  # finite, below every value of a vector


@keras.saving.register_keras_serializable(package="bert_keras")
class BertEmbedder(HeadModel):
    """Sentence embedder for search and comparison (Reimers & Gurevych 2019, Sentence-BERT).

    Args:
        encoder: a `BertEncoder`. A pooler is saved with the weights but neither used nor trained.
        pooling: how token vectors are combined: "mean", "cls" (the first token), "max", "mean_sqrt_len_tokens" (the
            sum divided by the square root of the number of tokens), "weightedmean" (position i has weight i),
            "lasttoken"; or several, whose vectors are concatenated in that order.
        normalize: whether to scale vectors to length 1, so that a dot product is the cosine.
        include_prompt: whether the tokens of a prompt, including [CLS], are pooled together with those of the text.
        prompts: texts to put before the input, keyed by name, such as {"query": "query: "}. The model takes tokens;
            `Predictor`, artifacts and the checkpoint folder use the prompts.
        default_prompt_name: the prompt to use where none is named; None: no prompt.
        similarity: how vectors should be compared: "cosine", "dot", "euclidean", "manhattan" or None. Saved for
            sentence-transformers; it changes nothing here.

    Call arguments:
        inputs: the features of `BertEncoder`, and optionally `pooling_mask` `(B, S)`, 1 = pooled, 0 = prompt or
            padding.

    Returns:
        A dict with `embedding`, float32 `(B, D)`, or `(B, k D)` with k poolings.

    Labels for `fit`: float `(B,)`, the target cosine of each pair; the two texts of a pair are consecutive sequences
    with the same label. Other losses take examples of any number of texts, see `ColumnLoss` in `architectures.losses`.

    Raises:
        InputError: an unknown pooling or similarity, or a default prompt that is not among the prompts.

    Example:
        >>> encoder = bk.BertEncoder(bk.BertConfig.from_preset("tiny", vocabulary_size=100), pooler=False)
        >>> model = bk.BertEmbedder(encoder, pooling="mean")
        >>> model.compile("adam")  # squared error between the cosine of a pair and its score
        >>> ids = np.array([[2, 17, 30, 3]])
        >>> tuple(model({"token_ids": ids, "padding_mask": np.ones_like(ids)})["embedding"].shape)
        (1, 128)
    """

    extra_inputs = ("pooling_mask",)
    has_vectors = True
    config_names = ("pooling", "normalize", "include_prompt", "prompts", "default_prompt_name", "similarity")

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

    def call(self, inputs: Features, training: bool | None = None, **returns):
        """Return `embedding` `(B, D)`."""
        encoded = self.encode(inputs, training, **returns)
        sequence = ops.cast(encoded["sequence_output"], "float32")
        poolings = (self.pooling,) if isinstance(self.pooling, str) else self.pooling
        vectors = [_pool(pooling, sequence, inputs) for pooling in poolings]
        embedding = vectors[0] if len(vectors) == 1 else ops.concatenate(vectors, axis=-1)
        if self.normalize:
            length = ops.sqrt(ops.sum(ops.square(embedding), axis=-1, keepdims=True))
            embedding = embedding / ops.maximum(length, 1e-12)
        return {"embedding": embedding, **select_extra_outputs(encoded)}

    def default_loss(self):
        """Return the default loss, keyed by output name."""
        return {"embedding": GlobalBatchMean(CosineError(), "embedding")}

    def match_labels(self, x: Tensor, y: Any, outputs: dict):
        """Return labels and outputs with the same keys."""
        return {"embedding": y}, outputs

    def label_weights(self, x: Tensor, y: Any, sample_weight: Tensor | None):
        """Return the weight of each label, keyed by output name."""
        return {"embedding": make_example_weights(y, sample_weight)}


def _pool(pooling: str, sequence: Tensor, inputs: Features):
    """Pool `(B, S, D)` to `(B, D)`; a sequence without tokens becomes zeros."""
    if pooling == "cls" and "pooling_mask" not in inputs:
        return sequence[:, 0, :]
    mask = inputs.get("pooling_mask", inputs["padding_mask"])
    weights = ops.cast(mask, "float32")[..., None]
    if pooling in ("cls", "lasttoken"):
        return ops.sum(sequence * _mark_edge_token(mask, last=pooling == "lasttoken")[..., None], axis=1)
    if pooling == "max":
        highest = ops.max(ops.where(weights > 0, sequence, _LOWEST), axis=1)
        return ops.where(ops.max(weights, axis=1) > 0, highest, 0.0)
    if pooling == "weightedmean":
        weights = weights * _count_positions(mask)[..., None]
    total, count = ops.sum(sequence * weights, axis=1), ops.maximum(ops.sum(weights, axis=1), 1e-9)
    return total / (ops.sqrt(count) if pooling == "mean_sqrt_len_tokens" else count)


def _mark_edge_token(mask: Tensor, *, last: bool):
    """Return 1.0 at the first or last token of `mask` `(B, S)`, 0.0 elsewhere."""
    positions, mask = _count_positions(mask), ops.cast(mask, "float32")
    rank = mask * (positions if last else 1.0 / positions)
    return mask * ops.cast(rank == ops.max(rank, axis=1, keepdims=True), "float32")


def _count_positions(mask: Tensor):
    """Return 1.0, 2.0, ... `(B, S)`, as a cumulative sum because the length of a symbolic mask is unknown."""
    return ops.cumsum(ops.ones_like(mask, dtype="float32"), axis=1)
