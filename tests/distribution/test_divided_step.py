"""A step in parts or on replicas is the step of one device with the whole batch, dropout included."""

import numpy as np
import pytest

HEADS = ("pretrainer", "electra", "classifier", "multi_label", "token_classifier", "question_answerer")
TOLERANCE = 1e-5  # of losses and accuracies, over 20 steps


def assert_same_training(ours: dict, theirs: dict, tolerance: float) -> None:
    assert len(ours["steps"]) == len(theirs["steps"])
    for step, (our_logs, their_logs) in enumerate(zip(ours["steps"], theirs["steps"], strict=True)):
        assert our_logs.keys() == their_logs.keys()
        for name, value in their_logs.items():
            assert our_logs[name] == pytest.approx(value, abs=tolerance), (step, name)
    for name, value in theirs["scores"].items():
        assert ours["scores"][name] == pytest.approx(value, abs=tolerance), name


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("division", [("--parts", "4"), ("--devices", "2")], ids=" ".join)
def test_the_division_of_a_step_changes_nothing(head, division, train_heads):
    whole, divided = train_heads()[head], train_heads(*division)[head]
    assert_same_training(divided, whole, TOLERANCE)
    np.testing.assert_allclose(divided["weights"], whole["weights"], rtol=0, atol=TOLERANCE)
    losses = [logs["loss"] for logs in whole["steps"]]
    assert len(set(losses)) == 20  # something was trained


@pytest.mark.slow
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("division", [("--devices", "4", "--parts", "2"), ("--devices", "2", "--jit")], ids=" ".join)
def test_nor_do_parts_on_replicas_or_a_compiler(head, division, train_heads):
    assert_same_training(train_heads(*division)[head], train_heads()[head], TOLERANCE)
