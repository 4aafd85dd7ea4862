"""A model that several tests share."""

import functools

import keras
import pytest


@pytest.fixture(scope="module")
def shared_model(make_model):
    """A function like `make_model` that builds each model once per module, for tests that do not change it."""

    @functools.cache
    def make(_policy, kind, **changes):
        return make_model(kind, **changes)

    return lambda kind, **changes: make(keras.config.dtype_policy().name, kind, **changes)
