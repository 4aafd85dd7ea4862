"""The same training on several devices and in several processes, and the errors for a wrong set-up."""

import pytest
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.extras import Processor
from bert_keras.pipelines.batches.epochs import BatchShare
from bert_keras.training.backups import NO_BACKUP
from bert_keras.training.strategies import make_strategy, should_compile
from tests.training.processes import finish, start, wait_for_step
from tests.training.train_tiny import train

TOLERANCE = 1e-5
TWENTY_STEPS = ("--set", "budget.steps=20")


@pytest.fixture(scope="module")
def one_device(records):
    """The training on one device."""
    return train([records[0]], {"budget.steps": 20}, NO_BACKUP)


def assert_same_losses(ours: dict, theirs: dict) -> None:
    assert len(theirs["losses"]) == 20
    assert ours["losses"] == pytest.approx(theirs["losses"], abs=TOLERANCE)
    for our_line, their_line in zip(ours["log"], theirs["log"], strict=True):
        for name, value in their_line.items():
            assert our_line[name] == pytest.approx(value, abs=TOLERANCE), name


@pytest.mark.slow  # test_finetuning_strategies.py trains on mirrored devices too
@pytest.mark.parametrize("devices", [2, 4])
def test_mirrored_devices_train_as_one(devices, one_device, records, tmp_path):
    options = [*TWENTY_STEPS, "--strategy", "mirrored", "--devices", devices]
    mirrored = finish(start("train_tiny.py", records[0], tmp_path / "out.json", *options), tmp_path / "out.json")
    assert_same_losses(mirrored, one_device)


@pytest.mark.slow  # test_equal_gradients.py trains on two replicas, and the shares of the workers are tested below
def test_two_workers_train_as_one(one_device, records, two_workers, tmp_path):
    chief, other = two_workers("train_tiny.py", records[0], tmp_path / "out.json", *TWENTY_STEPS)
    report = finish(chief, tmp_path / "out.json")
    other.communicate(timeout=60)
    assert other.returncode == 0
    assert_same_losses(report, one_device)


@pytest.mark.slow
def test_two_workers_train_as_one_and_survive_a_killed_worker(one_device, records, two_workers, tmp_path):
    options = [*TWENTY_STEPS, "--backups", tmp_path / "backups", "--every", 3]
    chief, other = two_workers("train_tiny.py", records[0], tmp_path / "out.json", *options)
    wait_for_step(other, 8)
    other.kill()
    for process in (chief, other):
        process.kill()
        process.communicate()
    chief, other = two_workers("train_tiny.py", records[0], tmp_path / "out.json", *options, "--resume")
    again = finish(chief, tmp_path / "out.json")
    other.communicate(timeout=60)
    assert other.returncode == 0
    assert again["num_resumed"] in (6, 9)
    assert again["losses"] == pytest.approx(one_device["losses"][again["num_resumed"] :], abs=TOLERANCE)
    out = tmp_path / "alone.json"
    alone = finish(start("train_tiny.py", records[0], out, *options, "--resume"), out)  # from what two have written
    assert alone["losses"] == pytest.approx(one_device["losses"][alone["num_resumed"] :], abs=TOLERANCE)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "nonsense",
        "[]",
        "{}",
        "[" * 100_000,
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": -1}}',
        '{"cluster": {"worker": [1]}, "task": {"type": "worker", "index": 0}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": ["worker"], "index": 0}}',
    ],
    ids=lambda value: str(value)[:60],
)
def test_an_invalid_tf_config_is_reported(value, monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if value is not None:
        monkeypatch.setenv("TF_CONFIG", value)
    with pytest.raises(InputError, match=r"TF_CONFIG is .*; expected \{\"cluster\""):
        make_strategy("multi-worker")


@pytest.mark.parametrize("kinds", [("GPU", "CPU"), ("CPU",)])
def test_mirrored_uses_every_gpu_or_else_every_logical_cpu(kinds, monkeypatch):
    """With fake devices, because a process cannot change its devices after TensorFlow has started."""
    machine = {kind: [tf.config.LogicalDevice(f"/device:{kind}:{number}", kind) for number in (0, 1)] for kind in kinds}
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: machine.get(kind, []))
    monkeypatch.setattr(tf.distribute, "MirroredStrategy", list)
    assert make_strategy("mirrored") == [f"/device:{kinds[0]}:0", f"/device:{kinds[0]}:1"]


def test_an_unknown_strategy_and_a_missing_tpu_are_reported():
    with pytest.raises(InputError, match="there is no strategy 'ring'; expected one of one-device, mirrored"):
        make_strategy("ring")
    with pytest.raises(InputError, match="no TPU was found"):
        make_strategy("tpu")


def test_the_shares_of_a_batch_are_its_sequences_in_order():
    sequences = list(range(24))
    for num_workers in (1, 2, 3, 4):
        shares = [BatchShare(num_workers, worker, 2) for worker in range(num_workers)]
        assert [sequence for share in shares for sequence in sequences[share.worker_slice(24)]] == sequences
        assert {share.sequences_per_replica(24) for share in shares} == {24 // num_workers // 2}
    with pytest.raises(InputError, match="batch_size 9 cannot be divided among 4 replicas: make it a multiple of 4"):
        BatchShare(2, 0, 2).sequences_per_replica(9)
    with pytest.raises(InputError, match="worker 2 of 2"):
        BatchShare(2, 2)


@pytest.mark.parametrize(
    ("setting", "policy", "features", "expected"),
    [
        ("auto", "float32", ("AVX-512", "BF16"), True),
        ("auto", "mixed_bfloat16", ("AVX2",), True),
        ("auto", "mixed_bfloat16", ("AVX-512", "BF16"), False),
        (True, "mixed_bfloat16", ("AVX-512", "BF16"), True),
        (False, "float32", (), False),
    ],
)
def test_bfloat16_is_left_to_the_instructions_of_the_processor(setting, policy, features, expected):
    assert should_compile(setting, policy, Processor("", features)) is expected
