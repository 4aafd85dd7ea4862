"""In which types layers keep their weights and compute."""

import contextlib
from collections.abc import Iterator

import keras


@contextlib.contextmanager
def dtype_policy_scope(name: str) -> Iterator[None]:
    """Makes every layer that is built in the block one of this Keras dtype policy."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
