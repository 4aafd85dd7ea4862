"""Commands that train keep freed memory in the process; the library does not."""

import types

import pytest

from bert_keras.cli.main import main
from bert_keras.errors import InputError
from bert_keras.training import run_pretraining
from bert_keras.training.strategies import keep_freed_memory


@pytest.fixture
def mallopt_calls(monkeypatch):
    """The arguments of the calls of glibc's `mallopt`."""
    calls = []
    library = types.SimpleNamespace(mallopt=lambda *setting: calls.append(setting) or 1)
    monkeypatch.setattr("bert_keras.training.strategies.ctypes.CDLL", lambda name: library)
    return calls


EXPECTED = [(-4, 0), (-1, 2**31 - 1)]  # M_MMAP_MAX: no mappings of their own; M_TRIM_THRESHOLD: nothing goes back


def test_two_malloc_settings_keep_freed_memory(mallopt_calls):
    assert keep_freed_memory()
    assert mallopt_calls == EXPECTED


def test_nothing_is_done_without_glibc(monkeypatch):
    monkeypatch.setattr("bert_keras.training.strategies.ctypes.CDLL", lambda name: types.SimpleNamespace())
    assert not keep_freed_memory()


@pytest.fixture
def no_training(monkeypatch):
    """End a pretraining before `fit`."""

    def end(*_, **__):
        raise InputError("the end of the test")

    monkeypatch.setattr("bert_keras.training.pretraining.fit_phases", end)


def test_the_library_leaves_the_allocator_alone(records, tiny_run, mallopt_calls, no_training):
    folder, manifest = records
    with pytest.raises(InputError, match="the end of the test"):
        run_pretraining(tiny_run(manifest), [folder])
    assert mallopt_calls == []


def test_a_command_that_trains_keeps_freed_memory(records, mallopt_calls, no_training, tmp_path, capsys):
    sizes = [f"--set=model.{name}" for name in ("num_layers=1", "num_heads=2", "hidden_dim=16", "intermediate_dim=32")]
    command = ["pretrain", str(records[0]), str(tmp_path / "out"), *sizes, "--batch-size=8", "--steps=1", "--no-xla"]
    assert main(command) == 2
    assert "the end of the test" in capsys.readouterr().err
    assert mallopt_calls == EXPECTED
