"""The machine is described from files of the system, any of which may be missing."""

import pathlib

import pytest

from bert_keras.analysis.cost_model.machine_memory import get_machine_memory, read_available_memory
from bert_keras.doctor import machine
from bert_keras.doctor.findings import Section
from bert_keras.doctor.machine import recommend
from bert_keras.extras import Processor, read_processor

from .conftest import write_program

CPUINFO = "processor\t: 0\nmodel name\t: A {0}\nflags\t\t: fpu {0}\n\nprocessor\t: 1\nflags\t\t: fpu\n"
ADVICE = {
    "avx2": ("AVX2",),
    "avx2 avx512f": ("AVX2", "AVX-512"),
    "avx2 avx_vnni": ("AVX2", "VNNI"),
    "avx2 avx512f avx512_vnni avx512_bf16": ("AVX2", "AVX-512", "VNNI", "BF16"),
    "avx2 avx512f avx512_vnni avx512_bf16 amx_tile amx_int8": ("AVX2", "AVX-512", "VNNI", "BF16", "AMX"),
    "asimd": ("NEON",),
    "sse2": (),
}


@pytest.mark.parametrize("flags", ADVICE)
def test_features_are_read_from_cpuinfo(flags, tmp_path):
    (tmp_path / "cpuinfo").write_text(CPUINFO.format(flags))
    processor = read_processor(tmp_path / "cpuinfo")
    assert processor == Processor(f"A {flags}", ADVICE[flags])
    assert recommend(processor)


def test_advice_differs_by_processor_and_repeats_the_measurements():
    page = (pathlib.Path(__file__).parents[2] / "docs/measurements/inference.md").read_text(encoding="utf-8")
    assert "a third to a half of the time of float32" in page
    assert "two thirds to three quarters of the time of float32" in page
    advice = {" ".join(recommend(Processor("", features))) for features in ADVICE.values()}
    assert len(advice) == len(ADVICE) - 1  # NEON and unknown processors share one: not measured


def test_missing_files_of_the_system_are_no_error(tmp_path):
    assert read_processor(tmp_path / "none").model
    assert machine.list_system_gpus(tmp_path / "none").problem is None
    assert get_machine_memory(tmp_path) > 1e8
    assert read_available_memory(tmp_path / "none", tmp_path) is None


@pytest.mark.parametrize(
    ("limit", "usage"),
    [
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ],
)
def test_the_memory_limit_of_a_container_counts(limit, usage, tmp_path):
    (tmp_path / "memory").mkdir()
    (tmp_path / limit).write_text("300000000\n")
    assert get_machine_memory(tmp_path) == 300_000_000
    (tmp_path / usage).write_text("100000000\n")
    (tmp_path / "meminfo").write_text("MemTotal: 9000000 kB\nMemAvailable: 8000000 kB\n")
    assert read_available_memory(tmp_path / "meminfo", tmp_path) == 200_000_000
    (tmp_path / limit).write_text("max\n")
    assert get_machine_memory(tmp_path) > 300_000_000


@pytest.mark.parametrize(
    ("available", "mark", "text"),
    [(0, "note", "8.0 GB, 0.0 GB available: expected"), (3e9, "ok", "8.0 GB, 3.0 GB avail"), (None, "ok", "8.0 GB")],
)
def test_a_machine_without_free_memory_is_noted(available, mark, text):
    section = Section("Machine")
    machine.check_memory(section, 8_000_000_000, available)
    [item] = section.items
    assert (item.mark, item.text[: len(text)]) == (mark, text)


def test_gpus_are_listed_by_the_driver(tmp_path, monkeypatch):
    information = tmp_path / "gpus/0000:01:00.0/information"
    information.parent.mkdir(parents=True)
    information.write_text("Model: \t NVIDIA A100\nIRQ: 1\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.list_system_gpus(tmp_path / "gpus").names == ["NVIDIA A100"]
    write_program(tmp_path / "nvidia-smi", "#!/bin/sh\necho 'NVIDIA H100, 81559 MiB, 560.1'\n")
    assert machine.list_system_gpus(tmp_path / "gpus").names == ["NVIDIA H100, 81559 MiB, 560.1"]
    write_program(tmp_path / "nvidia-smi", "#!/bin/sh\necho 'couldn'\\''t communicate with the driver'\nexit 9\n")
    listed = machine.list_system_gpus(tmp_path / "none")
    assert listed == machine.SystemGpus([], "nvidia-smi fails (couldn't communicate with the driver)")


@pytest.mark.parametrize(
    ("gpus", "is_cuda_build", "hidden", "mark", "text"),
    [
        (["H100"], True, None, "ok", "1 seen"),
        ([], True, None, "FAULT", "none of 1: this TensorFlow cannot load the CUDA libraries"),
        ([], False, None, "FAULT", "none of 1: this TensorFlow is built without CUDA"),
        ([], True, "-1", "note", "none, because CUDA_VISIBLE_DEVICES is '-1'"),
    ],
)
def test_a_gpu_that_tensorflow_does_not_see_is_a_fault(gpus, is_cuda_build, hidden, mark, text, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if hidden is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    section = Section("Machine")
    machine.check_gpus(section, machine.SystemGpus(["H100"]), {"gpus": gpus, "is_cuda_build": is_cuda_build})
    item = section.items[-1]
    assert (item.mark, item.text[: len(text)]) == (mark, text)
    assert mark != "FAULT" or "tensorflow[and-cuda]" in item.fix


def test_a_full_disk_is_a_fault(small_disk):
    section = machine.check_machine(Processor("", ()), small_disk)
    [item] = [item for item in section.items if item.name == "current folder"]
    assert item.mark == "FAULT"
    assert item.text.startswith("0.0 GB free in ")
    assert item.fix == "free some space"
