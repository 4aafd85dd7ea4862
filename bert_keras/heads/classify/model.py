"""`BertClassifier` (texts and pairs of texts), `BertTokenClassifier` (tagging) and `BertQuestionAnswerer`."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from bert_keras.architectures.known_architectures import get_architecture
from bert_keras.checks import check_integer
from bert_keras.config import PROBLEMS
from bert_keras.errors import InputError
from bert_keras.features import IGNORED_LABEL, Features, Tensor
from bert_keras.architectures.base import INPUT_SHAPES
from bert_keras.architectures.encoder import BertEncoder
from bert_keras.architectures.head_model import (
    HeadModel,
    check_labels,
    make_cls_positions,
    make_example_weights,
    make_output_layer,
    select_extra_outputs,
)
from bert_keras.architectures.layers import ACTIVATIONS, Dropout, make_dense
from bert_keras.architectures.losses import GlobalBatchMean
from bert_keras.architectures.sequence_layout import make_padding_bias


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


class _ClassModel(HeadModel):
    """Base of the two classifiers: dropout, then `num_classes` logits with labels."""

    config_names = ("num_classes", "labels", "dropout_rate")

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
        }[getattr(self, "problem", "single_label")]
        return {"logits": GlobalBatchMean(loss, "logits")}

    def default_metrics(self):
        """Return new metrics, keyed by output name."""
        metric = {
            "single_label": keras.metrics.SparseCategoricalAccuracy(name="accuracy"),
            "multi_label": keras.metrics.BinaryAccuracy(name="accuracy", threshold=0.0),  # logit 0 = probability 1/2
            "regression": keras.metrics.RootMeanSquaredError(name="rmse"),
        }[getattr(self, "problem", "single_label")]
        return {"logits": [metric]}


@keras.saving.register_keras_serializable(package="bert_keras")
class BertClassifier(_ClassModel):
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

    config_names = (*_ClassModel.config_names, "problem")

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


@keras.saving.register_keras_serializable(package="bert_keras")
class BertTokenClassifier(_ClassModel):
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
