"""Which check a folder gets, and what is announced before it."""

import pytest

from bert_keras.doctor import checkpoint_check, data_check
from bert_keras.doctor.examination import examine_environment, find_check
from bert_keras.errors import InputError

from .conftest import write_program


@pytest.mark.parametrize("config", ["config.json", "bert_config.json", "modules.json"])
def test_a_checkpoint_with_another_manifest_is_no_records_folder(config, tmp_path):
    (tmp_path / "manifest.json").write_text("{}")
    assert find_check(tmp_path) is data_check.check_records
    (tmp_path / config).write_text("{}")
    assert find_check(tmp_path) is checkpoint_check.check_checkpoint


def test_a_file_is_no_backup(tmp_path):
    (tmp_path / "step-by-step.md").touch()
    with pytest.raises(InputError, match="no folder or file that doctor can check"):
        find_check(tmp_path)
    (tmp_path / "step-000000010").mkdir()
    assert find_check(tmp_path) is data_check.check_backups


@pytest.mark.parametrize(("self_test", "tested"), [(True, " and testing a tiny model"), (False, "")])
def test_a_tiny_model_is_announced_only_with_the_self_test(self_test, tested, tmp_path, monkeypatch):
    write_program(tmp_path / "bin/nvidia-smi", "#!/bin/sh\necho 'NVIDIA H100, 81559 MiB, 560.1'\n")
    write_program(tmp_path / "tensorflow/__init__.py", "raise ImportError('not needed here')")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.syspath_prepend(tmp_path)
    announced = []
    examine_environment(self_test=self_test, progress=announced.append)
    assert announced == [f"importing TensorFlow{tested}, which takes up to a minute"]
