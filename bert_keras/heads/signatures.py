"""Inputs and outputs of the signatures of our SavedModels, and arrays with a row for each example.

`Task.compute_signature` returns what the head's `graph.py` returns, from logits alone, so that a
client of TensorFlow Serving gets the same from `bert-keras serve`, whichever engine runs.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

Arrays = dict[str, np.ndarray]


class TensorSpec(NamedTuple):
    """The name, type and shape of an input or output; -1 means any length.

    Attributes:
        name: its name.
        dtype: "string", or a dtype of NumPy.
        shape: its shape.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]


def make_specs(types: dict[str, str], shape: tuple[int, ...] = (-1,)) -> list[TensorSpec]:
    """Return a spec of the same shape for each name and type."""
    return [TensorSpec(name, dtype, shape) for name, dtype in types.items()]


def make_strings(values: Sequence[str]) -> np.ndarray:
    """Return strings as an array of `str` objects `(B,)`."""
    strings = np.empty(len(values), object)
    strings[:] = values
    return strings


def pad_rows(rows: Sequence[Sequence], padding: object, dtype: type, min_width: int = 0) -> np.ndarray:
    """Return rows of different lengths as an array `(B, W)`."""
    padded = np.full((len(rows), max([min_width, *map(len, rows)])), padding, dtype)
    for index, row in enumerate(rows):
        padded[index, : len(row)] = row
    return padded
