"""What every verb prints about its own work."""

import subprocess
import sys

import pytest

from bert_keras.checks import format_count
from bert_keras.cli.console.report import peak_memory_bytes


def test_one_thing_is_named_in_the_singular():
    assert [format_count(number, "document") for number in (0, 1, 2, 12_345)] == [
        "0 documents",
        "1 document",
        "2 documents",
        "12,345 documents",
    ]


def test_the_peak_is_that_of_this_program_and_not_of_the_one_that_started_it():
    code = "from bert_keras.cli.console.report import peak_memory_bytes; print(peak_memory_bytes())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 1_000_000 < int(done.stdout) < peak_memory_bytes() / 2  # the tests have imported TensorFlow, it has not


def test_without_a_proc_file_system_the_peak_is_that_of_the_resource_module(monkeypatch):
    monkeypatch.setattr("bert_keras.cli.console.report._peak_on_linux", lambda: None)
    resource = pytest.importorskip("resource", reason="Windows has no resource module")
    unit = 1 if sys.platform == "darwin" else 1024
    assert peak_memory_bytes() == resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
