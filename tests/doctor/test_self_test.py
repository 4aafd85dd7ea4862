"""TensorFlow is imported and used in another process, so that its crash is an item of the report."""

import json

import pytest

from bert_keras.doctor.self_test import IMPORT, STAGES, check_self_test, run_self_test

from .conftest import run_doctor, write_program

CRASHES = {
    "raise ImportError('libcudart.so.99: cannot open shared object file')": "ImportError: libcudart.so.99: cannot open",
    "import os; os.kill(os.getpid(), 11)": "crashed: signal 11 ended the process",
    "import os; os._exit(3)": "ended with status 3",
    # a full disk: an incomplete line of the report
    "import os, sys; os.write(os.open(sys.argv[1], os.O_WRONLY), b'{\"sta'); os._exit(4)": "ended with status 4",
    "import time; time.sleep(60)": "took more than 2 s and was ended",
}


@pytest.mark.parametrize("code", CRASHES)
def test_an_import_that_fails_is_a_fault(code, tmp_path, monkeypatch):
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow/__init__.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    test = run_self_test(limit_s=2 if "sleep" in code else 60)
    assert test.tensorflow is None
    [item] = check_self_test(test).items
    assert (item.mark, item.name) == ("FAULT", IMPORT)
    assert item.text.startswith(CRASHES[code])
    assert "pip install" in item.fix
    assert "tensorflow>=2.21" in item.fix


@pytest.mark.slow
def test_the_self_test_passes_and_an_unseen_gpu_is_found(tmp_path):
    import tensorflow as tf

    write_program(tmp_path / "bin/nvidia-smi", "#!/bin/sh\necho 'NVIDIA H100, 81559 MiB, 560.1'\n")
    path = f"{tmp_path / 'bin'}:/usr/bin:/bin"
    report = run_doctor("--json", cwd=tmp_path, PATH=path, KERAS_HOME=str(tmp_path))
    items = {item["name"]: item for item in report.items}
    assert [items[stage]["mark"] for stage in STAGES] == ["ok"] * len(STAGES)
    assert [one["title"] for one in json.loads(report.stdout)["sections"]][-1] == "Self-test"
    sees_gpu = bool(tf.config.list_physical_devices("GPU"))
    assert items["GPU in TensorFlow"]["mark"] == ("ok" if sees_gpu else "FAULT")
    assert report.status == (0 if sees_gpu else 1)
