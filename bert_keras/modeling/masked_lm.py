"""Pretraining heads of BERT: `BertMaskedLM` and `BertPretrainer` (masked LM + next sentence)."""

import keras
from keras import ops

from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.modeling.base import INPUT_SHAPES
from bert_keras.modeling.encoder import BertEncoder
from bert_keras.modeling.heads import HeadModel, check_pooler, first_positions, handed_on, output_layer, rows_at
from bert_keras.modeling.layers import ACTIVATIONS, ConfiguredLayer
from bert_keras.modeling.losses import CrossEntropy, StepMean, TopAccuracy


@keras.saving.register_keras_serializable(package="bert_keras")
class MaskedLMHead(ConfiguredLayer):
    """Rows (R, D) to float32 logits over the vocabulary (R, V), through the tied token embedding.

    Transform, activation, norm, then the product with the transposed token table, plus a bias.
    The layer computes in float32 under every policy: rounding a logit of 20 to bfloat16 moves it by 0.06.
    """

    def __init__(self, config: BertConfig, token_embedding: keras.layers.Embedding, *, head_act: str, **kwargs):
        super().__init__(config, dtype="float32", **kwargs)
        self.token_embedding = token_embedding
        self.activation = ACTIVATIONS[head_act]
        self.transform = self.dense(config.embedding_dim, "transform")
        self.layer_norm = self.norm("layer_norm")

    def build(self, input_shape=None):
        self.transform.build((None, self.config.hidden_dim))
        self.layer_norm.build((None, self.config.embedding_dim))
        self.bias = self.add_weight(shape=(self.config.vocabulary_size,), initializer="zeros", name="bias")

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.config.vocabulary_size)

    def call(self, rows):
        hidden = self.layer_norm(self.activation(self.transform(rows)))
        return ops.matmul(hidden, ops.transpose(self.token_embedding.embeddings)) + self.bias


class MaskedLMModel(HeadModel):
    """What the models with a masked-LM head share: the head, its slots, its labels."""

    extra_inputs = ("mask_positions",)

    def __init__(self, encoder: BertEncoder, *, head_act: str | None = None, **kwargs):
        super().__init__(encoder, **kwargs)
        self.head_act = checked_head_act(encoder.config, head_act)
        self.mlm_head = MaskedLMHead(encoder.config, encoder.embeddings.token, head_act=self.head_act, name="mlm_head")
        self.mlm_head.build((None, encoder.config.hidden_dim))

    def slot_logits(self, vectors):
        """Returns the logits (B, M, V) of the encoder's vectors (B, M, D)."""
        batch, num_slots, width = ops.shape(vectors)
        logits = self.mlm_head(ops.reshape(vectors, (-1, width)))
        return ops.reshape(logits, (batch, num_slots, self.encoder.config.vocabulary_size))

    def default_loss(self):
        return {"mlm_logits": StepMean(CrossEntropy("mlm"), "mlm_logits")}

    def default_metrics(self):
        return {"mlm_logits": [TopAccuracy()]}

    def match_labels(self, x, y, outputs):
        return {"mlm_logits": y["mask_ids"]}, outputs

    def label_weights(self, x, y, sample_weight):
        check_no_sample_weight(self, sample_weight)
        return {"mlm_logits": y["mask_weights"]}

    def get_config(self):
        return {**super().get_config(), "head_act": self.head_act}


@keras.saving.register_keras_serializable(package="bert_keras")
class BertMaskedLM(MaskedLMModel):
    """Predicts masked tokens (Devlin et al. 2018, 3.1, task 1). Only masked slots are projected to the vocabulary.

    Args:
        encoder: a `BertEncoder`; its token table is the head's output matrix.
        head_act: activation in the head: the encoder's (default), or "gelu", which is the only one
            where the embeddings are narrower than the encoder, as in ELECTRA's generator.

    Call: the encoder's inputs, and `mask_positions` (B, M) to pick slots.
    Returns: `mlm_logits`, float32, (B, M, V), or (B, S, V) without `mask_positions`.
    Labels for `fit`: a dict of `mask_ids` (B, M) and `mask_weights` (B, M), 1.0 = counts.
    The loss is the cross-entropy's mean over the slots that count, across the whole batch.
    """

    def __init__(self, encoder: BertEncoder, *, head_act: str | None = None, **kwargs):
        super().__init__(encoder, head_act=head_act, **kwargs)
        self.build(INPUT_SHAPES)

    def default_metrics(self):
        return {"mlm_logits": [TopAccuracy(name="mlm_accuracy")]}  # of one output Keras leaves out the name

    def call(self, inputs, training=None, **returns):
        if inputs.get("mask_positions") is None:
            encoded = self.encode(inputs, training, **returns)
            return {"mlm_logits": self.slot_logits(encoded["sequence_output"]), **handed_on(encoded)}
        vectors, extra = self.encode_at(inputs["mask_positions"], inputs, training, **returns)
        return {"mlm_logits": self.slot_logits(vectors), **extra}


@keras.saving.register_keras_serializable(package="bert_keras")
class BertPretrainer(MaskedLMModel):
    """BERT's two pretraining tasks at once: masked LM and next-sentence prediction (Devlin et al. 2018, 3.1).

    Args:
        encoder: a `BertEncoder` with a pooler.
        head_act: as in `BertMaskedLM`.

    Call: as `BertMaskedLM`; `pack_starts` (B, K) says where the examples of packed rows begin.
    Returns: `mlm_logits` as `BertMaskedLM`, and `next_sentence_logits` (B, 2), or (B, K, 2) of packed rows, float32:
    column 0 = B follows A, column 1 = B is a random sentence (or, where records were made so, the two are swapped).
    Labels for `fit`: those of `BertMaskedLM` and `next_sentence_labels` (B,), or (B, K) with
    `next_sentence_weights` (B, K), 1.0 = counts. The loss is the sum of both.

    Raises:
        InputError: the encoder has no pooler.
    """

    extra_inputs = ("mask_positions", "pack_starts")

    def __init__(self, encoder: BertEncoder, *, head_act: str | None = None, **kwargs):
        check_pooler(encoder, "BertPretrainer")
        super().__init__(encoder, head_act=head_act, **kwargs)
        self.next_sentence = output_layer(encoder.config, 2, "next_sentence")
        self.build(INPUT_SHAPES)

    def call(self, inputs, training=None, **returns):
        starts = inputs.get("pack_starts")
        starts = first_positions(inputs) if starts is None else ops.cast(starts, "int32")
        if inputs.get("mask_positions") is None:
            encoded = self.encode(inputs, training, **returns)
            vectors, extra = encoded["sequence_output"], handed_on(encoded)
            first = rows_at(starts, vectors)
        else:
            positions = ops.concatenate([starts, ops.cast(inputs["mask_positions"], "int32")], axis=1)
            read, extra = self.encode_at(positions, inputs, training, **returns)
            first, vectors = read[:, : starts.shape[1]], read[:, starts.shape[1] :]
        logits = self.next_sentence(self.encoder.pool(first))  # (B, K, 2)
        if inputs.get("pack_starts") is None:
            logits = logits[:, 0]
        return {"mlm_logits": self.slot_logits(vectors), "next_sentence_logits": logits, **extra}

    def default_loss(self):
        next_sentence = StepMean(CrossEntropy("next_sentence"), "next_sentence_logits")
        return {**super().default_loss(), "next_sentence_logits": next_sentence}

    def default_metrics(self):
        return {**super().default_metrics(), "next_sentence_logits": [TopAccuracy()]}

    def match_labels(self, x, y, outputs):
        labels, outputs = super().match_labels(x, y, outputs)
        return {**labels, "next_sentence_logits": y["next_sentence_labels"]}, outputs

    def label_weights(self, x, y, sample_weight):
        every = ops.ones(ops.shape(y["next_sentence_labels"]), "float32")
        weights = super().label_weights(x, y, sample_weight)
        return {**weights, "next_sentence_logits": y.get("next_sentence_weights", every)}


def check_no_sample_weight(model, sample_weight) -> None:
    """Raise `InputError` for weights of examples, which the masked positions have already."""
    if sample_weight is not None:
        raise InputError(
            f"{type(model).__name__} was given sample_weight; expected none: its labels carry mask_weights (B, M), so "
            "multiply those of each example by its weight"
        )


def checked_head_act(config: BertConfig, head_act: str | None) -> str:
    """Returns the head's activation: the encoder's in BERT, always "gelu" in ELECTRA (narrow embeddings).

    Raises:
        InputError: another one, which no published model has and no checkpoint format could say.
    """
    narrow = config.embedding_dim != config.hidden_dim
    allowed = ("gelu",) if narrow else (config.hidden_act, "gelu")
    if head_act is not None and head_act not in allowed:
        raise InputError(f"head_act is {head_act!r}, expected {' or '.join(map(repr, dict.fromkeys(allowed)))}")
    return head_act or allowed[0]
