"""`dtype_policy_scope`: the Keras dtype policy of the layers that are created in a `with` block."""

import contextlib
from collections.abc import Iterator

import keras


@contextlib.contextmanager
def dtype_policy_scope(name: str) -> Iterator[None]:
    """Set Keras's default dtype policy within the block, such as "mixed_bfloat16"."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
