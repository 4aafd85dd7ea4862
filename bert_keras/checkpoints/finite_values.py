"""NaN and infinity in a model: in its weights, and in what it computes."""

import numpy as np
from keras import ops

from bert_keras.checks import format_names
from bert_keras.errors import InputError

_REMEDY = "expected finite numbers: take a checkpoint from before its training went astray"


def check_finite_weight(name: str, value: np.ndarray, source: str) -> None:
    """Raises `InputError` if a weight that was read from `source` holds NaN or infinity."""
    if not np.isfinite(value).all():
        raise InputError(f"{source}: tensor {name} holds NaN or infinity; {_REMEDY}")


def check_finite_model(model, source: str) -> None:
    """Raises `InputError` if a weight of a model that was loaded from `source` holds NaN or infinity."""
    for variable in model.variables:
        if "float" in str(variable.dtype):
            check_finite_weight(variable.path, ops.convert_to_numpy(variable), source)


def check_finite_outputs(model, *values: np.ndarray) -> None:
    """Raises `InputError` if what a model computed holds NaN or infinity; its weights that do are named."""
    if all(np.isfinite(value).all() for value in values):
        return
    weights = [variable for variable in model.variables if "float" in str(variable.dtype)]
    names = [one.path for one in weights if not np.isfinite(ops.convert_to_numpy(one)).all()]
    reason = f", as its weights do ({format_names(names)})" if names else " on this text"
    raise InputError(f"the model computes NaN or infinity{reason}; {_REMEDY}")
