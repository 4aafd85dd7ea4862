"""Pretraining heads of BERT: `BertMaskedLM` and `BertPretrainer` (masked LM + next sentence)."""

import keras
from keras import ops

from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.modeling.encoder import BertEncoder
from bert_keras.modeling.heads import HeadModel, check_pooler, gather_rows, handed_on, output_layer
from bert_keras.modeling.layers import ACTIVATIONS, ConfiguredLayer


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
        self.mlm_head.build()

    def slot_logits(self, encoded, inputs):
        """Returns the logits at the masked slots (B, M, V), or everywhere (B, S, V) if none are named."""
        sequence, positions = encoded["sequence_output"], inputs.get("mask_positions")
        if positions is None:
            batch, slots, width = ops.shape(sequence)
            rows = ops.reshape(sequence, (-1, width))
        else:
            batch, slots = ops.shape(positions)
            rows = gather_rows(sequence, positions)
        return ops.reshape(self.mlm_head(rows), (batch, slots, self.encoder.config.vocabulary_size))

    def default_loss(self):
        return {"mlm_logits": weighted_cross_entropy("mlm")}

    def default_metrics(self):
        return {"mlm_logits": [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]}

    def match_labels(self, x, y, outputs, sample_weight):
        return {"mlm_logits": y["mask_ids"]}, outputs, {"mlm_logits": y["mask_weights"]}

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
        self.build()

    def call(self, inputs, training=None, **returns):
        encoded = self.encode(inputs, training, **returns)
        return {"mlm_logits": self.slot_logits(encoded, inputs), **handed_on(encoded)}


@keras.saving.register_keras_serializable(package="bert_keras")
class BertPretrainer(MaskedLMModel):
    """BERT's two pretraining tasks at once: masked LM and next-sentence prediction (Devlin et al. 2018, 3.1).

    Args:
        encoder: a `BertEncoder` with a pooler.
        head_act: as in `BertMaskedLM`.

    Returns: `mlm_logits` as `BertMaskedLM`, and `next_sentence_logits` (B, 2), float32:
    column 0 = B follows A, column 1 = B is a random sentence.
    Labels for `fit`: those of `BertMaskedLM` and `next_sentence_labels` (B,). The loss is the sum of both.

    Raises:
        InputError: the encoder has no pooler.
    """

    def __init__(self, encoder: BertEncoder, *, head_act: str | None = None, **kwargs):
        check_pooler(encoder, "BertPretrainer")
        super().__init__(encoder, head_act=head_act, **kwargs)
        self.next_sentence = output_layer(encoder.config, 2, "next_sentence")
        self.build()

    def call(self, inputs, training=None, **returns):
        encoded = self.encode(inputs, training, **returns)
        return {
            "mlm_logits": self.slot_logits(encoded, inputs),
            "next_sentence_logits": self.next_sentence(encoded["pooled_output"]),
            **handed_on(encoded),
        }

    def default_loss(self):
        return {**super().default_loss(), "next_sentence_logits": weighted_cross_entropy("next_sentence")}

    def default_metrics(self):
        accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
        return {**super().default_metrics(), "next_sentence_logits": [accuracy]}

    def match_labels(self, x, y, outputs, sample_weight):
        labels, outputs, weights = super().match_labels(x, y, outputs, sample_weight)
        next_sentence = y["next_sentence_labels"]
        labels["next_sentence_logits"] = next_sentence
        weights["next_sentence_logits"] = ops.ones(ops.shape(next_sentence), "float32")
        return labels, outputs, weights


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


def weighted_cross_entropy(name: str) -> keras.losses.Loss:
    """Cross-entropy of integer labels, averaged over the slots by their weights; 0 when no slot counts."""
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight", name=name)
