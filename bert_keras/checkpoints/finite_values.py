"""Refuse models whose weights or outputs contain NaN or infinity.

Keras is imported by the functions that need it, because a stored weight can be checked without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bert_keras.checks import format_names
from bert_keras.errors import InputError

if TYPE_CHECKING:
    import keras

_FIX = "expected finite numbers: use a checkpoint from before training diverged"


def check_finite_weight(name: str, value: np.ndarray, source: str) -> None:
    """Raise `InputError` if a weight that was read from `source` contains NaN or infinity."""
    if not np.isfinite(value).all():
        raise InputError(f"{source}: tensor {name} contains NaN or infinity; {_FIX}")


def check_finite_model(model: keras.Model, source: str) -> None:
    """Raise `InputError` if a weight of a model that was loaded from `source` contains NaN or infinity."""
    from keras import ops

    for variable in model.variables:
        if "float" in str(variable.dtype):
            check_finite_weight(variable.path, ops.convert_to_numpy(variable), source)


def check_finite_outputs(model: keras.Model, *values: np.ndarray) -> None:
    """Raise `InputError` if outputs of a model contain NaN or infinity; the message names weights that do too."""
    if all(np.isfinite(value).all() for value in values):
        return
    from keras import ops

    weights = [variable for variable in model.variables if "float" in str(variable.dtype)]
    names = [weight.path for weight in weights if not np.isfinite(ops.convert_to_numpy(weight)).all()]
    reason = f", as do its weights ({format_names(names)})" if names else " for this text"
    raise InputError(f"the model outputs NaN or infinity{reason}; {_FIX}")
