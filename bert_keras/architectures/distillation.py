"""`Distiller`: train a student on the outputs, the hidden states and the attention of a frozen teacher."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_keras.architectures.base import INPUT_SHAPES
from bert_keras.architectures.head_model import HeadModel, make_example_weights
from bert_keras.architectures.layers import make_dense
from bert_keras.architectures.losses import GlobalBatchMean, make_loss_name
from bert_keras.errors import InputError
from bert_keras.features import Features, Tensor

# an integer label that is unknown, so that the example counts for the teacher's losses only; for floats it is NaN
NO_LABEL = -1
_TEACHER = "teacher_"  # prefix of the teacher's outputs
_LABELS = "labels"
_SOFT = "soft_"  # prefix of losses on the teacher's outputs
_SMALLEST = 1e-30  # above the smallest float32, so that the logarithm of an attention probability is finite


class _Divergence(keras.losses.Loss):
    """Base of losses on what a teacher computes, by default without a reduction."""

    def __init__(self, name: str | None = None, reduction: str = "none", **kwargs):
        super().__init__(name=name or make_loss_name(self), reduction=reduction, **kwargs)


class SoftmaxDivergence(_Divergence):
    """Kullback-Leibler divergence of the softmax of logits `(..., C)`, times the squared temperature.

    Hinton et al. 2015, 2: dividing the logits by T divides the gradients by about T squared.
    """

    def __init__(self, temperature: float, **kwargs):
        super().__init__(**kwargs)
        self.temperature = temperature

    def call(self, y_true: Tensor, y_pred: Tensor):
        """Compute the loss over the last axis."""
        teacher = ops.log_softmax(y_true / self.temperature, axis=-1)
        student = ops.log_softmax(y_pred / self.temperature, axis=-1)
        return ops.sum(ops.exp(teacher) * (teacher - student), axis=-1) * self.temperature**2


class BernoulliDivergence(SoftmaxDivergence):
    """Kullback-Leibler divergence of the sigmoid of each logit `(..., C)`, averaged, times the squared temperature."""

    def call(self, y_true: Tensor, y_pred: Tensor):
        """Compute the loss over the last axis."""
        teacher, student = y_true / self.temperature, y_pred / self.temperature
        yes = ops.sigmoid(teacher) * (ops.log_sigmoid(teacher) - ops.log_sigmoid(student))
        no = ops.sigmoid(-teacher) * (ops.log_sigmoid(-teacher) - ops.log_sigmoid(-student))
        return ops.mean(yes + no, axis=-1) * self.temperature**2


class SquaredDistance(_Divergence):
    """Squared distance of vectors `(..., D)`; of unit vectors it is twice 1 minus the cosine."""

    def call(self, y_true: Tensor, y_pred: Tensor):
        """Compute the loss over the last axis."""
        return ops.sum(ops.square(y_true - y_pred), axis=-1)


class AttentionDivergence(_Divergence):
    """Kullback-Leibler divergence of attention probabilities `(B, N, S, S)` (Wang et al. 2020, 3.1).

    Returns the mean over the heads for each query, `(B, S)`. Jiao et al. (2020) compare the scores before the softmax.
    """

    def call(self, y_true: Tensor, y_pred: Tensor):
        """Compute the loss of each query."""
        logarithms = ops.log(ops.maximum(y_true, _SMALLEST)) - ops.log(ops.maximum(y_pred, _SMALLEST))
        return ops.mean(ops.sum(y_true * logarithms, axis=-1), axis=1)


def _check_pair(
    student: HeadModel, teacher: HeadModel | None, hidden_weight: float, attention_weight: float, *, has_ids: bool
) -> None:
    """Raise `InputError` unless a student can learn from a teacher, or from its outputs if `teacher` is None."""
    if teacher is None:
        if hidden_weight > 0 or attention_weight > 0:
            raise InputError(
                f"hidden_weight is {hidden_weight:g} and attention_weight {attention_weight:g}, and there is no "
                "teacher to compare with; expected 0 for both: pass a teacher, or set them to 0"
            )
        return
    kinds = type(student).__name__, type(teacher).__name__
    if kinds[0] != kinds[1] or _count_outputs(student) != _count_outputs(teacher):
        raise InputError(
            f"the student is a {kinds[0]} with {_count_outputs(student)} outputs and the teacher a {kinds[1]} with "
            f"{_count_outputs(teacher)}; expected the same: build the student with the head of the teacher"
        )
    sizes = student.encoder.config.vocabulary_size, teacher.encoder.config.vocabulary_size
    if not has_ids and sizes[0] != sizes[1]:
        raise InputError(
            f"the student has {sizes[0]} tokens and the teacher {sizes[1]}; expected the same vocabulary, or the ids "
            "of the student's tokens in the teacher's: pass teacher_ids"
        )
    heads = student.encoder.config.num_heads, teacher.encoder.config.num_heads
    if attention_weight > 0 and heads[0] != heads[1]:
        raise InputError(
            f"attention_weight is {attention_weight:g}, the student has {heads[0]} heads per layer and the teacher "
            f"{heads[1]}; expected the same number: set attention_weight to 0, or num_heads to {heads[1]}"
        )


def _count_outputs(model: HeadModel) -> int | None:
    """Return the number of classes, or the width of sentence vectors; None: the outputs of all models are alike."""
    if model.has_vectors:
        [shape] = model.compute_output_shape().values()
        return shape[-1]
    return getattr(model, "num_classes", None)


class Distiller(HeadModel):
    """A student and its frozen teacher (Hinton et al. 2015; Sanh et al. 2019; Jiao et al. 2020).

    The loss is the weighted sum of four losses: on the labels (`label_weight`), on the teacher's outputs
    (1 - `label_weight`), on its hidden states (`hidden_weight`) and on its attention probabilities
    (`attention_weight`). The student's hidden states and attention are compared with those of the teacher's layers
    that `map_layers` names.

    The teacher is not a part of the model: its weights are neither trained nor saved.

    Args:
        student: the model to train, with a head; after `fit` it is the result.
        teacher: the frozen model, with a head of the same kind and size. None: `fit` gets the teacher's outputs
            together with the labels.
        temperature: divides the logits of classes.
        label_weight: from 0, only the teacher's outputs count, to 1, only the labels do.
        hidden_weight: weight of the mean squared difference of the hidden states. If the widths differ, a linear layer
            that is trained with the student projects the student's.
        attention_weight: weight of the divergence of the attention probabilities. It needs the same number of heads.
        teacher_ids: `(V,)` integers, the id of each of the student's tokens in the teacher's vocabulary; None: the
            vocabularies are equal.

    Call arguments:
        inputs: the features of the student.

    Returns:
        A dict with the outputs of the student, those of the teacher under `teacher_...`, and the layers to compare.

    Labels for `fit`: those of the student; -1, or NaN for floats, where a label is unknown. Without a teacher, a dict
    of these `labels` and of the teacher's outputs, such as `teacher_logits`.

    Raises:
        InputError: the two heads differ, the numbers of heads differ, or hidden states are compared without a teacher.

    Example:
        >>> from bert_keras.architectures.distillation import Distiller
        >>> teacher = bk.load("demo/classifier")
        >>> student = bk.BertClassifier.from_checkpoint("demo/pretrained", num_classes=4)
        >>> distiller = Distiller(student, teacher, temperature=2.0, label_weight=0.1)
        >>> distiller.compile("adam")
        >>> ids = np.array([[2, 17, 30, 3]])
        >>> labels = np.array([1])
        >>> bool(distiller.train_on_batch({"token_ids": ids, "padding_mask": np.ones_like(ids)}, labels)[0] > 0)
        True
    """

    def __init__(
        self,
        student: HeadModel,
        teacher: HeadModel | None,
        *,
        temperature: float = 2.0,
        label_weight: float = 0.1,
        hidden_weight: float = 0.0,
        attention_weight: float = 0.0,
        teacher_ids: np.ndarray | None = None,
        **kwargs,
    ):
        if not (math.isfinite(temperature) and temperature > 0):
            raise InputError(f"temperature is {temperature}; expected a number above 0, such as 2: change it")
        if not 0 <= label_weight <= 1:
            raise InputError(f"label_weight is {label_weight}; expected a number from 0 to 1: change it")
        for name, weight in {"hidden_weight": hidden_weight, "attention_weight": attention_weight}.items():
            if not (math.isfinite(weight) and weight >= 0):
                raise InputError(f"{name} is {weight}; expected a number from 0 on: change it")
        _check_pair(student, teacher, hidden_weight, attention_weight, has_ids=teacher_ids is not None)
        super().__init__(student.encoder, **kwargs)
        self.student = student
        self._teacher = None if teacher is None else _FrozenTeacher(teacher, teacher_ids)
        self.temperature = temperature
        self.label_weight = label_weight
        self.hidden_weight = hidden_weight
        self.attention_weight = attention_weight
        self.hidden_projection = None
        if hidden_weight > 0 and teacher.encoder.config.hidden_dim != self.encoder.config.hidden_dim:
            config, width = self.encoder.config, teacher.encoder.config.hidden_dim
            self.hidden_projection = make_dense(config, width, "hidden_projection", dtype=self.dtype_policy)
            self.hidden_projection.build((None, config.hidden_dim))
        self.build(INPUT_SHAPES)

    @property
    def extra_inputs(self) -> tuple[str, ...]:
        """The optional features of the student."""
        return self.student.extra_inputs

    def compile(self, *args, unpad: bool = False, **kwargs):
        """Configure the model for training, see `HeadModel.compile`; `unpad` leaves out the teacher's padding, too."""
        super().compile(*args, unpad=unpad, **kwargs)
        if self._teacher is not None:
            self._teacher.model.encoder.unpad_in_inference = unpad

    def call(self, inputs: Features, training: bool | None = None):
        """Run the student and the teacher."""
        returns = {"return_hidden_states": self.hidden_weight > 0, "return_attention_scores": self.attention_weight > 0}
        outputs = self.student(inputs, training=training, **returns)
        if self._teacher is None:
            return outputs
        teacher_outputs = self._teacher(inputs, **returns)
        layers = map_layers(self.encoder.config.num_layers, self._teacher.model.encoder.config.num_layers)
        if self.hidden_weight > 0:
            states, teacher_states = outputs.pop("hidden_states"), teacher_outputs.pop("hidden_states")
            if self.hidden_projection is not None:
                states = [self.hidden_projection(state) for state in states]
            outputs["hidden"] = ops.concatenate(states, axis=-1)  # (B, S, (layers + 1) * D)
            teacher_outputs["hidden"] = ops.concatenate([teacher_states[layer] for layer in (0, *layers)], axis=-1)
        if self.attention_weight > 0:
            scores = teacher_outputs.pop("attention_scores")
            outputs["attention"] = ops.concatenate(outputs.pop("attention_scores"), axis=1)  # (B, layers * N, S, S)
            teacher_outputs["attention"] = ops.concatenate([scores[layer - 1] for layer in layers], axis=1)
        return outputs | {_TEACHER + name: ops.stop_gradient(value) for name, value in teacher_outputs.items()}

    def default_loss(self):
        """Return the losses, keyed by name."""
        losses = dict(self.student.default_loss())
        losses |= {_SOFT + name: GlobalBatchMean(self._make_soft_loss(), _SOFT + name) for name in losses}
        losses["hidden"] = GlobalBatchMean(keras.losses.MeanSquaredError(reduction="none"), "hidden")
        losses["attention"] = GlobalBatchMean(AttentionDivergence(), "attention")
        return {name: losses[name] for name in self.default_loss_weights()}

    def default_loss_weights(self):
        """Return the weights of the losses, keyed by name; a loss without a weight is not computed."""
        shares = self.student.default_loss_weights() or dict.fromkeys(self.student.default_loss(), 1.0)
        weights = {name: self.label_weight * share for name, share in shares.items()}
        weights |= {_SOFT + name: (1.0 - self.label_weight) * share for name, share in shares.items()}
        weights |= {"hidden": self.hidden_weight, "attention": self.attention_weight}
        return {name: weight for name, weight in weights.items() if weight > 0}

    def default_metrics(self):
        """Return the metrics of the student, if there is a loss on labels."""
        return self.student.default_metrics() if self.label_weight > 0 else []

    def match_labels(self, x: Tensor, y: Any, outputs: dict):
        """Return the targets and the predictions of each loss, keyed by its name."""
        labels, given = _split_labels(y)
        labels = _map_labels(_fill_unknown, labels)
        prefixed = {name: value for name, value in outputs.items() if name.startswith(_TEACHER)} | given
        teacher_outputs = {name.removeprefix(_TEACHER): value for name, value in prefixed.items()}
        student_outputs = {name: value for name, value in outputs.items() if not name.startswith(_TEACHER)}
        names = list(self.student.default_loss())
        soft_names = names if self.label_weight < 1 else []
        if missing := [_TEACHER + name for name in soft_names if name not in teacher_outputs]:
            raise InputError(
                f"the labels come without {' and '.join(missing)}, and the Distiller has no teacher; expected a dict "
                f"of {_LABELS} and of the teacher's outputs: add them, or pass a teacher"
            )
        select = {name: student_outputs[name] for name in names}
        targets, predictions = self.student.match_labels(x, labels, select)
        _, soft_targets = self.student.match_labels(x, labels, {name: teacher_outputs[name] for name in soft_names})
        targets = {**teacher_outputs, **targets, **{_SOFT + name: value for name, value in soft_targets.items()}}
        predictions = {**student_outputs, **predictions, **{_SOFT + name: value for name, value in predictions.items()}}
        used = self.default_loss_weights()
        return {name: targets[name] for name in used}, {name: predictions[name] for name in used}

    def label_weights(self, x: Tensor, y: Any, sample_weight: Tensor | None):
        """Return the weight of each label, keyed by the name of its loss; 0 where a label is unknown."""
        labels, _ = _split_labels(y)
        sample_weight = _select_sample_weight(labels, sample_weight)
        soft = self.student.label_weights(x, _map_labels(_fill_unknown, labels), sample_weight)
        # `match_labels` gives each label, and here whether it is known, the name of its output
        is_known, _ = self.student.match_labels(x, _map_labels(_mark_known, labels), dict.fromkeys(soft, 0.0))
        tokens = ops.cast(x["padding_mask"], "float32")
        tokens = tokens * _make_token_weights(x, sample_weight)
        weights = {name: value * _flatten_like(is_known[name], value) for name, value in soft.items()}
        weights |= {_SOFT + name: value for name, value in soft.items()}
        weights |= {"hidden": tokens, "attention": tokens}
        return {name: weights[name] for name in self.default_loss_weights()}

    def get_config(self):
        """Raise `InputError`: the student is what can be saved."""
        raise InputError("a Distiller cannot be saved; expected its student: save distiller.student with bk.save")

    def _make_soft_loss(self) -> keras.losses.Loss:
        """Return the loss on the teacher's outputs."""
        if self.student.has_vectors:
            return SquaredDistance()
        problem = getattr(self.student, "problem", "single_label")
        if problem == "regression":
            return keras.losses.MeanSquaredError(reduction="none")
        return (BernoulliDivergence if problem == "multi_label" else SoftmaxDivergence)(self.temperature)


class _FrozenTeacher:
    """A model that Keras does not see as a part of another: not trained, not saved, not in backups."""

    def __init__(self, model: HeadModel, token_ids: np.ndarray | None):
        self.model = model
        self._token_ids = None if token_ids is None else np.asarray(token_ids, np.int32)

    def __call__(self, inputs: Features, **returns) -> dict:
        """Run the model in inference mode, on the ids of its own vocabulary."""
        if self._token_ids is not None:
            token_ids = ops.take(ops.convert_to_tensor(self._token_ids), inputs["token_ids"], axis=0)
            inputs = {**inputs, "token_ids": token_ids}
        return self.model(inputs, training=False, **returns)


def map_layers(num_layers: int, num_teacher_layers: int) -> list[int]:
    """Return the teacher's layer, from 1, that each layer of the student learns from: evenly spaced, with the last.

    The rule of Jiao et al. (2020), 3.1, layer i from layer i T / S of T and S layers, rounded up. A student with more
    layers than its teacher learns some of them twice.

    Example:
        >>> from bert_keras.architectures.distillation import map_layers
        >>> map_layers(3, 6), map_layers(4, 6)
        ([2, 4, 6], [2, 3, 5, 6])
    """
    return [-(-layer * num_teacher_layers // num_layers) for layer in range(1, num_layers + 1)]


def _select_sample_weight(labels: Any, sample_weight: Any) -> Any:
    """Return the weights of the student's labels; for a dict of labels and teacher's outputs, `fit` passes a dict."""
    if not isinstance(sample_weight, Mapping):
        return sample_weight
    sample_weight = sample_weight.get(_LABELS, sample_weight)
    if isinstance(sample_weight, Mapping) and not isinstance(labels, Mapping):
        raise InputError(
            f"sample_weight is a dict with {', '.join(map(str, sample_weight))}; expected a weight per example, or a "
            f"dict with {_LABELS}: pass an array"
        )
    return sample_weight


def _split_labels(y: Any) -> tuple[Any, dict]:
    """Return the labels, and the teacher's outputs that came with them."""
    if not isinstance(y, Mapping) or _LABELS not in y:
        return y, {}
    return y[_LABELS], {name: value for name, value in y.items() if name.startswith(_TEACHER)}


def _map_labels(function: Callable, labels: Any):
    """Apply a function to labels, which are a tensor or a dict of tensors."""
    return {name: function(one) for name, one in labels.items()} if isinstance(labels, Mapping) else function(labels)


def _fill_unknown(labels: Tensor):
    """Return labels with 0 where they are unknown."""
    labels = ops.convert_to_tensor(labels)
    is_float = keras.backend.is_float_dtype(labels.dtype)
    return ops.where(ops.isnan(labels) if is_float else ops.equal(labels, NO_LABEL), ops.zeros_like(labels), labels)


def _mark_known(labels: Tensor):
    """Return 1.0 where labels are known: `(B,)`, or `(B, S)` for the labels of tokens."""
    labels = ops.convert_to_tensor(labels)
    if not keras.backend.is_float_dtype(labels.dtype):
        return ops.cast(ops.not_equal(labels, NO_LABEL), "float32")
    is_known = ops.cast(ops.logical_not(ops.isnan(labels)), "float32")
    return is_known if len(labels.shape) == 1 else is_known[:, 0]


def _flatten_like(is_known: Any, weights: Tensor):
    """Return `is_known` as `(B,)` if the labels `(B, 1)` have weights `(B,)`."""
    has_extra_axis = not isinstance(is_known, float) and len(is_known.shape) > len(weights.shape)
    return ops.reshape(is_known, (-1,)) if has_extra_axis else is_known


def _make_token_weights(x: Features, sample_weight: Any):
    """Return what to multiply with the weights of tokens `(B, S)`, from weights of examples, tokens, start and end."""
    if isinstance(sample_weight, Mapping):  # of start and end
        sample_weight = sum(ops.cast(one, "float32") for one in sample_weight.values()) / len(sample_weight)
    if sample_weight is not None and len(sample_weight.shape) == 2 and sample_weight.shape[1] != 1:
        return ops.cast(sample_weight, "float32")
    return make_example_weights(x["padding_mask"], sample_weight)[:, None]
