"""`TensorSpec`: an input or output of a signature."""

from typing import NamedTuple


class TensorSpec(NamedTuple):
    """The name, type and shape of an input or output; -1 = any length.

    Attributes:
        name: its name.
        dtype: "string", or a dtype of NumPy.
        shape: its shape.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
