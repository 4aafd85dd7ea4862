"""Printed counts and peak memory."""

import subprocess
import sys

import pytest

from bert_keras.checks import format_count
from bert_keras.cli.console.report import get_peak_memory


def test_count_of_one_is_singular():
    assert [format_count(number, "document") for number in (0, 1, 2, 12_345)] == [
        "0 documents",
        "1 document",
        "2 documents",
        "12,345 documents",
    ]


def test_peak_memory_excludes_the_parent_process():
    code = "from bert_keras.cli.console.report import get_peak_memory; print(get_peak_memory())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 1_000_000 < int(done.stdout) < get_peak_memory() / 2  # only this process has imported TensorFlow


def test_peak_memory_comes_from_the_resource_module_without_proc(monkeypatch):
    monkeypatch.setattr("bert_keras.cli.console.report._read_linux_peak_memory", lambda: None)
    resource = pytest.importorskip("resource", reason="Windows has no resource module")
    unit = 1 if sys.platform == "darwin" else 1024
    assert get_peak_memory() == resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
