"""`count_cores`: the cores that a process may use, in a container too."""

import os
import subprocess
import sys

import pytest

from bert_keras.engines.cores import count_cores


@pytest.mark.parametrize(
    ("text", "expected"), [("max 100000", 8), ("200000 100000", 2), ("150000 100000", 2), ("50000 100000", 1), ("", 8)]
)
def test_limit_of_a_container(tmp_path, monkeypatch, text, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    (tmp_path / "cpu.max").write_text(text)
    assert count_cores(tmp_path) == expected


@pytest.mark.parametrize(("quota", "expected"), [("-1", 8), ("300000", 3), ("9900000", 8)])
def test_limit_of_an_older_kernel(tmp_path, monkeypatch, quota, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(quota + "\n")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert count_cores(tmp_path) == expected


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system cannot bind processes to cores")
def test_process_that_is_bound_to_one_core():
    code = "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\n"
    code += "from bert_keras.engines.cores import count_cores; print(count_cores())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "1\n"


def test_no_container(tmp_path):
    assert count_cores(tmp_path) >= 1
