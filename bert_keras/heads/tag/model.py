"""`BertTokenClassifier`: a tag for each token."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from bert_keras.architectures.base import INPUT_SHAPES
from bert_keras.architectures.encoder import BertEncoder
from bert_keras.architectures.head_model import (
    select_extra_outputs,
)
from bert_keras.features import IGNORED_LABEL, Features, Tensor
from bert_keras.heads.classify.model import ClassModel


@keras.saving.register_keras_serializable(package="bert_keras")
class BertTokenClassifier(ClassModel):
    """Token classifier for named entities, parts of speech and other tags (Devlin et al. 2018, 5.3).

    Args:
        encoder: a `BertEncoder`; its pooler is not used.
        num_classes: number of tags, C.
        labels: names of the tags, saved with the checkpoint.
        dropout_rate: dropout before the logits; default: the encoder's `hidden_dropout_rate`.

    Call arguments:
        inputs: the features of `BertEncoder`.

    Returns:
        A dict with `logits` `(B, S, C)`, float32.

    Labels for `fit`: int `(B, S)`; -100 = the token has no label.

    Raises:
        InputError: an argument is out of range.

    Example:
        >>> encoder = bk.BertEncoder(bk.BertConfig.from_preset("tiny", vocabulary_size=100), pooler=False)
        >>> model = bk.BertTokenClassifier(encoder, num_classes=9)
        >>> model.compile("adam")  # cross-entropy and accuracy of the tokens with a label
        >>> ids = np.array([[2, 17, 30, 3]])
        >>> tuple(model({"token_ids": ids, "padding_mask": np.ones_like(ids)})["logits"].shape)
        (1, 4, 9)
    """

    def __init__(
        self,
        encoder: BertEncoder,
        num_classes: int,
        *,
        labels: Sequence[str] | None = None,
        dropout_rate: float | None = None,
        **kwargs,
    ):
        super().__init__(encoder, num_classes, labels=labels, dropout_rate=dropout_rate, **kwargs)
        self.build(INPUT_SHAPES)

    def call(self, inputs: Features, training: bool | None = None, **returns):
        """Return `logits` `(B, S, C)`."""
        encoded = self.encode(inputs, training, **returns)
        vectors = self.dropout(encoded["sequence_output"], training=self.encoder.applies_dropout(training))
        return {"logits": self.classifier(vectors), **select_extra_outputs(encoded)}

    def match_labels(self, x: Tensor, y: Any, outputs: dict):
        """Return labels and outputs with the same keys."""
        return {"logits": ops.where(ops.not_equal(y, IGNORED_LABEL), y, 0)}, outputs

    def label_weights(self, x: Tensor, y: Any, sample_weight: Tensor | None):
        """Give tokens without a label the weight 0, so that loss and accuracy count the same tokens."""
        weights = ops.cast(ops.not_equal(y, IGNORED_LABEL), "float32")
        if sample_weight is not None:
            sample_weight = ops.cast(sample_weight, "float32")
            weights = weights * (sample_weight if len(sample_weight.shape) == 2 else sample_weight[:, None])
        return {"logits": weights}
