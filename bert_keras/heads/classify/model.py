"""`BertClassifier`: texts and pairs of texts."""

from collections.abc import Sequence
from typing import Any

import keras

from bert_keras.architectures.base import INPUT_SHAPES
from bert_keras.architectures.encoder import BertEncoder
from bert_keras.architectures.head_model import (
    HeadModel,
    check_labels,
    make_cls_positions,
    make_example_weights,
    make_output_layer,
)
from bert_keras.architectures.known_architectures import get_architecture
from bert_keras.architectures.layers import ACTIVATIONS, Dropout, make_dense
from bert_keras.architectures.losses import GlobalBatchMean
from bert_keras.checks import check_integer
from bert_keras.config import PROBLEMS
from bert_keras.errors import InputError
from bert_keras.features import Features, Tensor


class ClassModel(HeadModel):
    """Base class of the classifiers of texts and of tokens: dropout, then `num_classes` logits with labels."""

    config_names = ("num_classes", "labels", "dropout_rate")
    problem = "single_label"

    def __init__(
        self,
        encoder: BertEncoder,
        num_classes: int,
        *,
        labels: Sequence[str] | None = None,
        dropout_rate: float | None = None,
        **kwargs,
    ):
        super().__init__(encoder, **kwargs)
        self.num_classes = num_classes = check_integer("num_classes", num_classes)
        self.labels = check_labels(labels, num_classes)
        self.dropout_rate = dropout_rate
        rate = encoder.config.hidden_dropout_rate if dropout_rate is None else dropout_rate
        self.dropout = Dropout(rate, name="head_dropout")
        self.dropout.build((None, encoder.config.hidden_dim))
        self.classifier = make_output_layer(encoder.config, num_classes, "classifier")

    def default_loss(self):
        """Return the default loss, keyed by output name."""
        loss = {
            "single_label": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none"),
            "multi_label": keras.losses.BinaryCrossentropy(from_logits=True, reduction="none"),
            "regression": keras.losses.MeanSquaredError(reduction="none"),
        }[self.problem]
        return {"logits": GlobalBatchMean(loss, "logits")}

    def default_metrics(self):
        """Return new metrics, keyed by output name."""
        metric = {
            "single_label": keras.metrics.SparseCategoricalAccuracy(name="accuracy"),
            "multi_label": keras.metrics.BinaryAccuracy(name="accuracy", threshold=0.0),  # logit 0 = probability 1/2
            "regression": keras.metrics.RootMeanSquaredError(name="rmse"),
        }[self.problem]
        return {"logits": [metric]}


@keras.saving.register_keras_serializable(package="bert_keras")
class BertClassifier(ClassModel):
    """Classifier or regressor for texts and pairs of texts (Devlin et al. 2018, 4.1).

    The logits are computed from `pooled_output`; for an encoder without a pooler from [CLS] with the head of its
    architecture. A BERT without a pooler has the head of ELECTRA: dropout, dense, GELU (Clark et al. 2020).

    Args:
        encoder: a `BertEncoder`.
        num_classes: number of classes, labels or scores, C.
        problem: "single_label" (softmax), "multi_label" (one sigmoid per label) or "regression".
        labels: names of the classes, saved with the checkpoint.
        dropout_rate: dropout before the logits; default: the encoder's `hidden_dropout_rate`.

    Call arguments:
        inputs: the features of `BertEncoder`.

    Returns:
        A dict with `logits` `(B, C)`, float32.

    Labels for `fit`: int `(B,)`; float `(B, C)` of 0 and 1 for "multi_label"; float `(B,)` or `(B, C)` for
    "regression".

    Raises:
        InputError: an argument is out of range.

    Example:
        >>> encoder = bk.BertEncoder(bk.BertConfig.from_preset("tiny", vocabulary_size=100))
        >>> model = bk.BertClassifier(encoder, num_classes=2, labels=["bad", "good"])
        >>> model.compile("adam")  # cross-entropy and accuracy
        >>> ids = np.array([[2, 17, 30, 3]])
        >>> tuple(model({"token_ids": ids, "padding_mask": np.ones_like(ids)})["logits"].shape)
        (1, 2)
    """

    config_names = (*ClassModel.config_names, "problem")

    def __init__(
        self,
        encoder: BertEncoder,
        num_classes: int,
        *,
        problem: str = "single_label",
        labels: Sequence[str] | None = None,
        dropout_rate: float | None = None,
        **kwargs,
    ):
        if problem not in PROBLEMS:
            raise InputError(f"problem is {problem!r}, expected one of {', '.join(PROBLEMS)}")
        if encoder.pooler is not None and encoder.config.embedding_dim != encoder.config.hidden_dim:
            raise InputError(
                "the encoder has a pooler and embeddings narrower than its hidden width, which no published model "
                "combines: build BertEncoder(pooler=False); the classifier then uses ELECTRA's head"
            )
        super().__init__(encoder, num_classes, labels=labels, dropout_rate=dropout_rate, **kwargs)
        self.problem = problem
        self.cls_dense = None
        if encoder.pooler is None:
            record = get_architecture(encoder.config.model_type)
            self.cls_act = ACTIVATIONS[record.classifier_act]
            self.cls_dense = make_dense(encoder.config, encoder.config.hidden_dim, "cls_dense", dtype=self.dtype_policy)
            self.cls_dense.build((None, encoder.config.hidden_dim))
            self.cls_dropout = Dropout(self.dropout.rate if record.has_classifier_dropout else 0, name="cls_dropout")
            self.cls_dropout.build((None, encoder.config.hidden_dim))
        self.build(INPUT_SHAPES)

    def call(self, inputs: Features, training: bool | None = None, **returns):
        """Return `logits` `(B, C)`."""
        first, extra = self.encode_at(make_cls_positions(inputs), inputs, training, **returns)  # (B, 1, D)
        applies_dropout = self.encoder.applies_dropout(training)
        if self.cls_dense is None:
            pooled = self.encoder.pool(first[:, 0])
        else:
            pooled = self.cls_act(self.cls_dense(self.cls_dropout(first[:, 0], training=applies_dropout)))
        return {"logits": self.classifier(self.dropout(pooled, training=applies_dropout)), **extra}

    def match_labels(self, x: Tensor, y: Any, outputs: dict):
        """Return labels and outputs with the same keys."""
        return {"logits": y}, outputs

    def label_weights(self, x: Tensor, y: Any, sample_weight: Tensor | None):
        """Return the weight of each label, keyed by output name."""
        return {"logits": make_example_weights(y, sample_weight)}
