"""The labels of a `Distiller`: known and unknown ones, with or without the outputs of a teacher, and their weights."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
from keras import ops

from bert_keras.errors import InputError
from bert_keras.features import Features, Tensor
from bert_keras.modeling.heads import make_example_weights

# an integer label that is unknown, so that the example counts for the teacher's losses only; for floats it is NaN
NO_LABEL = -1
TEACHER = "teacher_"  # prefix of the teacher's outputs
_LABELS = "labels"


def check_outputs_given(names: Sequence[str], teacher_outputs: Mapping) -> None:
    """Raise `InputError` unless there are all outputs of the teacher."""
    if missing := [TEACHER + name for name in names if name not in teacher_outputs]:
        raise InputError(
            f"the labels come without {' and '.join(missing)}, and the Distiller has no teacher; expected a dict of "
            f"{_LABELS} and of the teacher's outputs: add them, or pass a teacher"
        )


def select_sample_weight(labels: Any, sample_weight: Any) -> Any:
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


def split_labels(y: Any) -> tuple[Any, dict]:
    """Return the labels, and the teacher's outputs that came with them."""
    if not isinstance(y, Mapping) or _LABELS not in y:
        return y, {}
    return y[_LABELS], {name: value for name, value in y.items() if name.startswith(TEACHER)}


def map_labels(function: Callable, labels: Any):
    """Apply a function to labels, which are a tensor or a dict of tensors."""
    return {name: function(one) for name, one in labels.items()} if isinstance(labels, Mapping) else function(labels)


def fill_unknown(labels: Tensor):
    """Return labels with 0 where they are unknown."""
    labels = ops.convert_to_tensor(labels)
    is_float = keras.backend.is_float_dtype(labels.dtype)
    return ops.where(ops.isnan(labels) if is_float else ops.equal(labels, NO_LABEL), ops.zeros_like(labels), labels)


def mark_known(labels: Tensor):
    """Return 1.0 where labels are known: `(B,)`, or `(B, S)` for the labels of tokens."""
    labels = ops.convert_to_tensor(labels)
    if not keras.backend.is_float_dtype(labels.dtype):
        return ops.cast(ops.not_equal(labels, NO_LABEL), "float32")
    is_known = ops.cast(ops.logical_not(ops.isnan(labels)), "float32")
    return is_known if len(labels.shape) == 1 else is_known[:, 0]


def flatten_like(is_known: Any, weights: Tensor):
    """Return `is_known` as `(B,)` if the labels `(B, 1)` have weights `(B,)`."""
    has_extra_axis = not isinstance(is_known, float) and len(is_known.shape) > len(weights.shape)
    return ops.reshape(is_known, (-1,)) if has_extra_axis else is_known


def make_token_weights(x: Features, sample_weight: Any):
    """Return what to multiply with the weights of tokens `(B, S)`, from weights of examples, tokens, start and end."""
    if isinstance(sample_weight, Mapping):  # of start and end
        sample_weight = sum(ops.cast(one, "float32") for one in sample_weight.values()) / len(sample_weight)
    if sample_weight is not None and len(sample_weight.shape) == 2 and sample_weight.shape[1] != 1:
        return ops.cast(sample_weight, "float32")
    return make_example_weights(x["padding_mask"], sample_weight)[:, None]
