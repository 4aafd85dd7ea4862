"""Short measurements: the tests check what is measured, not how long it takes."""

import pytest

from bert_keras.analysis.cost_model import step_memory


@pytest.fixture(autouse=True)
def short_measurements(monkeypatch):
    """Run each product once."""
    for name, value in {"_NUM_ROUNDS": 1, "_MIN_RUNS": 1, "_MIN_SECONDS": 0.0}.items():
        assert hasattr(step_memory, name)
        monkeypatch.setattr(step_memory, name, value)
