"""`BertMaskedLM`, and `BertPretrainer` with the masked-LM and the next-sentence head."""

from typing import Any

import keras
from keras import ops

from bert_keras.architectures.base import INPUT_SHAPES
from bert_keras.architectures.encoder import BertEncoder
from bert_keras.architectures.head_model import (
    HeadModel,
    gather_positions,
    make_cls_positions,
    make_output_layer,
    select_extra_outputs,
)
from bert_keras.architectures.layers import ACTIVATIONS, ConfiguredLayer
from bert_keras.architectures.losses import CrossEntropy, GlobalBatchMean, TopAccuracy
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.features import Features, Tensor


@keras.saving.register_keras_serializable(package="bert_keras")
class MaskedLMHead(ConfiguredLayer):
    """Masked-LM head: vectors `(R, D)` to float32 logits over the vocabulary `(R, V)`.

    Dense, activation and layer norm, then the product with the transposed token embedding (tied weights) and a bias.
    It computes in float32 under every dtype policy: rounding a logit of 20 to bfloat16 moves it by 0.06.
    """

    def __init__(self, config: BertConfig, token_embedding: keras.layers.Embedding, *, head_act: str, **kwargs):
        super().__init__(config, dtype="float32", **kwargs)
        self.token_embedding = token_embedding
        self.activation = ACTIVATIONS[head_act]
        self.transform = self.dense(config.embedding_dim, "transform")
        self.layer_norm = self.norm("layer_norm")

    def build(self, input_shape: tuple | None = None):
        """Create the weights."""
        self.transform.build((None, self.config.hidden_dim))
        self.layer_norm.build((None, self.config.embedding_dim))
        self.bias = self.add_weight(shape=(self.config.vocabulary_size,), initializer="zeros", name="bias")

    def compute_output_shape(self, input_shape: tuple):
        """Return the shape of the output."""
        return (*input_shape[:-1], self.config.vocabulary_size)

    def call(self, vectors: Tensor):
        """Return logits `(R, V)` for vectors `(R, D)`."""
        hidden = self.layer_norm(self.activation(self.transform(vectors)))
        return ops.matmul(hidden, ops.transpose(self.token_embedding.embeddings)) + self.bias


class MaskedLMModel(HeadModel):
    """Base of the models with a masked-LM head."""

    extra_inputs = ("mask_positions",)
    config_names = ("head_act",)

    def __init__(self, encoder: BertEncoder, *, head_act: str | None = None, **kwargs):
        super().__init__(encoder, **kwargs)
        narrow = encoder.config.embedding_dim != encoder.config.hidden_dim
        # others have no published model and no form in any checkpoint format; with narrow embeddings as in ELECTRA
        allowed = ("gelu",) if narrow else (encoder.config.hidden_act, "gelu")
        if head_act is not None and head_act not in allowed:
            raise InputError(f"head_act is {head_act!r}, expected {' or '.join(map(repr, dict.fromkeys(allowed)))}")
        self.head_act = head_act or allowed[0]
        self.mlm_head = MaskedLMHead(encoder.config, encoder.embeddings.token, head_act=self.head_act, name="mlm_head")
        self.mlm_head.build((None, encoder.config.hidden_dim))

    def vocabulary_logits(self, vectors: Tensor):
        """Return the logits `(B, M, V)` of the encoder's vectors `(B, M, D)`."""
        batch, num_positions, width = ops.shape(vectors)
        logits = self.mlm_head(ops.reshape(vectors, (-1, width)))
        return ops.reshape(logits, (batch, num_positions, self.encoder.config.vocabulary_size))

    def default_loss(self):
        """Return the default loss, keyed by output name."""
        return {"mlm_logits": GlobalBatchMean(CrossEntropy("mlm"), "mlm_logits")}

    def default_metrics(self):
        """Return new metrics, keyed by output name."""
        return {"mlm_logits": [TopAccuracy()]}

    def match_labels(self, x: Tensor, y: Any, outputs: dict):
        """Return labels and outputs with the same keys."""
        return {"mlm_logits": y["mask_ids"]}, outputs

    def label_weights(self, x: Tensor, y: Any, sample_weight: Tensor | None):
        """Return the weight of each label, keyed by output name."""
        check_no_sample_weight(self, sample_weight)
        return {"mlm_logits": y["mask_weights"]}


@keras.saving.register_keras_serializable(package="bert_keras")
class BertMaskedLM(MaskedLMModel):
    """Masked language model (Devlin et al. 2018, 3.1, task 1). Only masked positions are projected to the vocabulary.

    Args:
        encoder: a `BertEncoder`; the head shares its token embedding.
        head_act: activation of the head: the encoder's (default) or "gelu". Encoders with embeddings narrower than
            their hidden width (ELECTRA's generator) always have "gelu".

    Call arguments:
        inputs: the features of `BertEncoder`, and optionally `mask_positions` `(B, M)`.

    Returns:
        A dict with `mlm_logits`, float32: `(B, M, V)`, or `(B, S, V)` without `mask_positions`.

    Labels for `fit`: a dict of `mask_ids` `(B, M)` and `mask_weights` `(B, M)`, 1.0 = a masked position, 0.0 = unused.
    The loss is the mean cross-entropy of the masked positions of the global batch.

    Raises:
        InputError: `head_act` is not valid for the encoder.

    Example:
        >>> config = bk.BertConfig.from_preset("tiny", vocabulary_size=100)
        >>> model = bk.BertMaskedLM(bk.BertEncoder(config, pooler=False))
        >>> model.compile("adam")  # cross-entropy and accuracy at the masked positions
        >>> ids = np.array([[2, 4, 30, 3]])
        >>> features = {"token_ids": ids, "padding_mask": np.ones_like(ids), "mask_positions": np.array([[1]])}
        >>> tuple(model(features)["mlm_logits"].shape)
        (1, 1, 100)
    """

    def __init__(self, encoder: BertEncoder, *, head_act: str | None = None, **kwargs):
        super().__init__(encoder, head_act=head_act, **kwargs)
        self.build(INPUT_SHAPES)

    def default_metrics(self):
        """Return new metrics, keyed by output name."""
        return {"mlm_logits": [TopAccuracy(name="mlm_accuracy")]}  # with one output Keras does not prefix its name

    def call(self, inputs: Features, training: bool | None = None, **returns):
        """Return `mlm_logits`, see the class."""
        if inputs.get("mask_positions") is None:
            encoded = self.encode(inputs, training, **returns)
            return {"mlm_logits": self.vocabulary_logits(encoded["sequence_output"]), **select_extra_outputs(encoded)}
        vectors, extra = self.encode_at(inputs["mask_positions"], inputs, training, **returns)
        return {"mlm_logits": self.vocabulary_logits(vectors), **extra}


@keras.saving.register_keras_serializable(package="bert_keras")
class BertPretrainer(MaskedLMModel):
    """BERT's pretraining model: masked LM and next-sentence prediction (Devlin et al. 2018, 3.1).

    Args:
        encoder: a `BertEncoder` with a pooler.
        head_act: as in `BertMaskedLM`.

    Call arguments:
        inputs: as in `BertMaskedLM`; for packed sequences also `pack_starts` `(B, K)`, the position of each packed
            example's [CLS].

    Returns:
        A dict with `mlm_logits`, as in `BertMaskedLM`, and float32 `next_sentence_logits` `(B, 2)`, or `(B, K, 2)` for
        packed sequences: class 0 = B follows A, class 1 = B is from another document (or, in records made with
        sentence order, A and B are swapped).

    Labels for `fit`: those of `BertMaskedLM`, and `next_sentence_labels` `(B,)`, or `(B, K)` with
    `next_sentence_weights` `(B, K)`, 1.0 = a packed example, 0.0 = unused. The loss is the sum of both losses.

    Raises:
        InputError: the encoder has no pooler, or `head_act` is not valid for it.

    Example:
        >>> model = bk.BertPretrainer(bk.BertEncoder(bk.BertConfig.from_preset("tiny", vocabulary_size=100)))
        >>> model.compile("adam")  # the losses and accuracies of both heads
        >>> ids = np.array([[2, 4, 30, 3]])
        >>> outputs = model({"token_ids": ids, "padding_mask": np.ones_like(ids)})
        >>> tuple(outputs["mlm_logits"].shape), tuple(outputs["next_sentence_logits"].shape)
        ((1, 4, 100), (1, 2))
    """

    extra_inputs = ("mask_positions", "pack_starts")

    def __init__(self, encoder: BertEncoder, *, head_act: str | None = None, **kwargs):
        if encoder.pooler is None:
            raise InputError("BertPretrainer needs an encoder with a pooler: build BertEncoder(pooler=True)")
        super().__init__(encoder, head_act=head_act, **kwargs)
        self.next_sentence = make_output_layer(encoder.config, 2, "next_sentence")
        self.build(INPUT_SHAPES)

    def call(self, inputs: Features, training: bool | None = None, **returns):
        """Return `mlm_logits` and `next_sentence_logits`, see the class."""
        starts = inputs.get("pack_starts")
        starts = make_cls_positions(inputs) if starts is None else ops.cast(starts, "int32")
        if inputs.get("mask_positions") is None:
            encoded = self.encode(inputs, training, **returns)
            vectors, extra = encoded["sequence_output"], select_extra_outputs(encoded)
            first = gather_positions(vectors, starts)
        else:
            positions = ops.concatenate([starts, ops.cast(inputs["mask_positions"], "int32")], axis=1)
            vectors, extra = self.encode_at(positions, inputs, training, **returns)
            first, vectors = vectors[:, : starts.shape[1]], vectors[:, starts.shape[1] :]
        logits = self.next_sentence(self.encoder.pool(first))  # (B, K, 2)
        if inputs.get("pack_starts") is None:
            logits = logits[:, 0]
        return {"mlm_logits": self.vocabulary_logits(vectors), "next_sentence_logits": logits, **extra}

    def default_loss(self):
        """Return the default loss, keyed by output name."""
        next_sentence = GlobalBatchMean(CrossEntropy("next_sentence"), "next_sentence_logits")
        return {**super().default_loss(), "next_sentence_logits": next_sentence}

    def default_metrics(self):
        """Return new metrics, keyed by output name."""
        return {**super().default_metrics(), "next_sentence_logits": [TopAccuracy()]}

    def match_labels(self, x: Tensor, y: Any, outputs: dict):
        """Return labels and outputs with the same keys."""
        labels, outputs = super().match_labels(x, y, outputs)
        return {**labels, "next_sentence_logits": y["next_sentence_labels"]}, outputs

    def label_weights(self, x: Tensor, y: Any, sample_weight: Tensor | None):
        """Return the weight of each label, keyed by output name."""
        every = ops.ones(ops.shape(y["next_sentence_labels"]), "float32")
        weights = super().label_weights(x, y, sample_weight)
        return {**weights, "next_sentence_logits": y.get("next_sentence_weights", every)}


def check_no_sample_weight(model: keras.Model, sample_weight: Tensor | None) -> None:
    """Raise `InputError` for `sample_weight`: masked positions have weights already."""
    if sample_weight is not None:
        raise InputError(
            f"sample_weight cannot be used with {type(model).__name__}, whose labels contain mask_weights (B, M): "
            "multiply the mask_weights of each example by its weight"
        )
