"""`BertQuestionAnswerer`: the start and the end of an answer in a context."""

from typing import Any

import keras

from bert_keras.architectures.base import INPUT_SHAPES
from bert_keras.architectures.encoder import BertEncoder
from bert_keras.architectures.head_model import (
    HeadModel,
    make_example_weights,
    make_output_layer,
    select_extra_outputs,
)
from bert_keras.architectures.losses import GlobalBatchMean
from bert_keras.architectures.sequence_layout import make_padding_bias
from bert_keras.features import Features, Tensor


@keras.saving.register_keras_serializable(package="bert_keras")
class BertQuestionAnswerer(HeadModel):
    """Extractive question answering: each token is scored as the start and as the end (Devlin et al. 2018, 4.2).

    Args:
        encoder: a `BertEncoder`; its pooler is not used.

    Call arguments:
        inputs: the features of `BertEncoder`.

    Returns:
        A dict with `start_logits` and `end_logits`, float32 `(B, S)` each. Padding is scored too; decode only tokens
        of the context.

    Labels for `fit`: a dict of int `(B,)` `start_positions` and `end_positions`. The loss is the mean of both; its
    softmax excludes padding, while Google's and transformers' includes it.

    Example:
        >>> encoder = bk.BertEncoder(bk.BertConfig.from_preset("tiny", vocabulary_size=100), pooler=False)
        >>> model = bk.BertQuestionAnswerer(encoder)
        >>> model.compile("adam")  # cross-entropy and accuracy of the start and of the end
        >>> ids = np.array([[2, 17, 3, 30, 3]])
        >>> outputs = model({"token_ids": ids, "padding_mask": np.ones_like(ids)})
        >>> tuple(outputs["start_logits"].shape), tuple(outputs["end_logits"].shape)
        ((1, 5), (1, 5))
    """

    def __init__(self, encoder: BertEncoder, **kwargs):
        super().__init__(encoder, **kwargs)
        self.span = make_output_layer(encoder.config, 2, "span")
        self.build(INPUT_SHAPES)

    def call(self, inputs: Features, training: bool | None = None, **returns):
        """Return `start_logits` and `end_logits`, `(B, S)` each."""
        encoded = self.encode(inputs, training, **returns)
        logits = self.span(encoded["sequence_output"])  # (B, S, 2)
        return {"start_logits": logits[:, :, 0], "end_logits": logits[:, :, 1], **select_extra_outputs(encoded)}

    def default_loss(self):
        """Return the default loss, keyed by output name."""
        return {
            name: GlobalBatchMean(
                keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none", name=name), name
            )
            for name in ("start_logits", "end_logits")
        }

    def default_loss_weights(self):
        """Return the weights of the losses, keyed by output name."""
        return {"start_logits": 0.5, "end_logits": 0.5}

    def default_metrics(self):
        """Return new metrics, keyed by output name."""
        return {
            name: [keras.metrics.SparseCategoricalAccuracy(name="accuracy")] for name in ("start_logits", "end_logits")
        }

    def match_labels(self, x: Tensor, y: Any, outputs: dict):
        """Return labels and outputs with the same keys."""
        bias = make_padding_bias(x["padding_mask"])[:, 0, 0, :]
        outputs = {name: logits + bias for name, logits in outputs.items()}
        return {"start_logits": y["start_positions"], "end_logits": y["end_positions"]}, outputs

    def label_weights(self, x: Tensor, y: Any, sample_weight: Tensor | None):
        """Return the weight of each label, keyed by output name."""
        if not isinstance(sample_weight, dict):  # `fit` on arrays passes a dict keyed by label
            sample_weight = dict.fromkeys(("start_positions", "end_positions"), sample_weight)
        return {
            f"{end}_logits": make_example_weights(y[f"{end}_positions"], sample_weight[f"{end}_positions"])
            for end in ("start", "end")
        }
