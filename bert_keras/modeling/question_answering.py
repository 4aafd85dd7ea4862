"""`BertQuestionAnswerer`: where the answer starts and ends."""

import keras

from bert_keras.modeling.base import INPUT_SHAPES
from bert_keras.modeling.encoder import BertEncoder
from bert_keras.modeling.heads import HeadModel, handed_on, output_layer, row_weights
from bert_keras.modeling.layers import padding_bias
from bert_keras.modeling.losses import StepMean


@keras.saving.register_keras_serializable(package="bert_keras")
class BertQuestionAnswerer(HeadModel):
    """Scores each token as the start and as the end of the answer (Devlin et al. 2018, 4.2).

    Args:
        encoder: a `BertEncoder`; its pooler is not read.

    Returns: `start_logits` and `end_logits`, each (B, S), float32. Padding is scored too:
    the caller looks only at the tokens of the context.
    Labels for `fit`: a dict of int (B,) `start_positions` and `end_positions`. The loss is the mean of both, over
    tokens; Google's and transformers' count padding as places where an answer might be, too.
    """

    def __init__(self, encoder: BertEncoder, **kwargs):
        super().__init__(encoder, **kwargs)
        self.span = output_layer(encoder.config, 2, "span")
        self.build(INPUT_SHAPES)

    def call(self, inputs, training=None, **returns):
        encoded = self.encode(inputs, training, **returns)
        logits = self.span(encoded["sequence_output"])  # (B, S, 2)
        return {"start_logits": logits[:, :, 0], "end_logits": logits[:, :, 1], **handed_on(encoded)}

    def default_loss(self):
        return {
            name: StepMean(
                keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none", name=name), name
            )
            for name in ("start_logits", "end_logits")
        }

    def default_loss_weights(self):
        return {"start_logits": 0.5, "end_logits": 0.5}

    def default_metrics(self):
        return {
            name: [keras.metrics.SparseCategoricalAccuracy(name="accuracy")] for name in ("start_logits", "end_logits")
        }

    def match_labels(self, x, y, outputs):
        hidden = padding_bias(x["padding_mask"])[:, 0, 0, :]
        outputs = {name: logits + hidden for name, logits in outputs.items()}
        return {"start_logits": y["start_positions"], "end_logits": y["end_positions"]}, outputs

    def label_weights(self, x, y, sample_weight):
        if not isinstance(sample_weight, dict):  # `fit` on arrays makes it one, by label
            sample_weight = dict.fromkeys(("start_positions", "end_positions"), sample_weight)
        return {
            f"{end}_logits": row_weights(y[f"{end}_positions"], sample_weight[f"{end}_positions"])
            for end in ("start", "end")
        }
