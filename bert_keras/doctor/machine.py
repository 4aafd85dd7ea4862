"""The section "Machine": processor, memory, disks and GPUs."""

import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bert_keras.analysis.cost_model.machine_memory import get_machine_memory, read_available_memory
from bert_keras.doctor.findings import Section
from bert_keras.engines.cores import count_cores
from bert_keras.extras import Processor

_GIGABYTE = 1e9
_MIN_FREE_DISK = 1e9  # a checkpoint of BERT base has 0.44 GB, and is written next to the one that it replaces
_MIN_MEMORY = 2e9  # TensorFlow and a tiny model take about 1 GB
_NVIDIA_SMI_LIMIT_S = 20
_NVIDIA_PROC = pathlib.Path("/proc/driver/nvidia/gpus")


def recommend(processor: Processor) -> list[str]:
    """Return which files and data types suit a processor, as measured in docs/measurements/inference.md."""
    has = set(processor.features).__contains__
    if has("VNNI"):
        advice = ["8-bit ONNX in onnxruntime: a third to a half of the time of float32 (export --quantize auto)"]
    elif has("AVX-512"):
        advice = ["8-bit ONNX, static or per token, in OpenVINO; measure both"]
    elif has("AVX2"):
        advice = ["8-bit ONNX in onnxruntime: two thirds to three quarters of the time of float32; not in OpenVINO"]
    else:
        return ["no measurement for such a processor: compare the files with benchmarks/inference.py"]
    if has("BF16"):
        advice.append("float32 ONNX in OpenVINO, which computes in bfloat16 here: half the time of float32")
    else:
        advice.append("float32, not bfloat16: without BF16 instructions bfloat16 is slower")
    if has("AMX"):
        advice.append("AMX itself was not measured")
    return advice


class SystemGpus(NamedTuple):
    """The GPUs that the system has.

    Attributes:
        names: one for each GPU.
        problem: why they could not be listed; None: they could, or there is no driver.
    """

    names: Sequence[str]
    problem: str | None = None


def check_machine(processor: Processor, folder: pathlib.Path | None = None) -> Section:
    """Describe the processor, the memory and the disks, and what the processor favours.

    Args:
        processor: the processor.
        folder: the current folder.
    """
    section = Section("Machine")
    section.add_ok("processor", f"{processor.model}: {', '.join(processor.features) or 'unknown instructions'}")
    cores, all_cores = count_cores(), os.cpu_count() or 1
    section.add_ok("cores", f"{cores}" + (f" of {all_cores}, by the limit of the container" * (cores < all_cores)))
    for advice in recommend(processor):
        section.add_note("suits it", advice)
    check_memory(section, get_machine_memory(), read_available_memory())
    _check_disk(section, "current folder", pathlib.Path.cwd() if folder is None else folder)
    _check_disk(section, "temporary folder", pathlib.Path(tempfile.gettempdir()))
    return section


def check_memory(section: Section, total: int, available: int | None) -> None:
    """Check that there is enough memory for TensorFlow and a tiny model.

    Args:
        section: where to add the result.
        total: bytes of memory of the machine or its container.
        available: bytes that are available; None: unknown.
    """
    text, free = f"{total / _GIGABYTE:.1f} GB", total
    if available is not None:
        text, free = f"{text}, {available / _GIGABYTE:.1f} GB available", available
    if free < _MIN_MEMORY:
        section.add_note("memory", f"{text}: expected 2 GB or more, so end other programs or raise the limit")
    else:
        section.add_ok("memory", text)


def list_system_gpus(proc: pathlib.Path = _NVIDIA_PROC) -> SystemGpus:
    """Return the NVIDIA GPUs that the driver knows, by `nvidia-smi` or from `/proc`.

    Args:
        proc: the folder in which the driver describes the GPUs.
    """
    listed = _list_in_proc(proc)
    if (program := shutil.which("nvidia-smi")) is None:
        return SystemGpus(listed)
    command = [program, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_NVIDIA_SMI_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return SystemGpus(listed, f"nvidia-smi does not run ({error})")
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    if done.returncode:
        return SystemGpus(listed, f"nvidia-smi fails ({(lines or done.stderr.strip().splitlines() or ['?'])[0]})")
    return SystemGpus(lines or listed)


def check_gpus(section: Section, system: SystemGpus, tensorflow: Mapping[str, object] | None) -> None:
    """Compare the GPUs of the system with those that TensorFlow sees.

    Args:
        section: where to add the result.
        system: the GPUs of the system.
        tensorflow: `gpus`, their names, and `is_cuda_build`, as TensorFlow reports them; None: unknown.
    """
    for name in system.names or ("none that NVIDIA's driver shows",):
        section.add_ok("GPU", name)
    if system.problem:
        section.add_note("GPU", f"{system.problem}: without a GPU this is normal; with one, reinstall its driver")
    if tensorflow is None:
        if system.names:
            section.add_note("GPU in TensorFlow", "not checked, because TensorFlow was not imported")
        return
    seen, hidden = list(tensorflow["gpus"]), os.environ.get("CUDA_VISIBLE_DEVICES")
    if seen or not system.names:
        section.add_ok("GPU in TensorFlow", f"{len(seen)} seen" if seen else "none, the processor computes")
    elif hidden is not None and hidden.strip() in ("", "-1"):
        section.add_note("GPU in TensorFlow", f"none, because CUDA_VISIBLE_DEVICES is {hidden!r}")
    else:
        reason = "cannot load the CUDA libraries" if tensorflow["is_cuda_build"] else "is built without CUDA"
        section.add_fault(
            "GPU in TensorFlow",
            f"none of {len(system.names)}: this TensorFlow {reason}, so the processor computes",
            "pip install 'tensorflow[and-cuda]' in the installed version, with a driver for its CUDA",
        )


def _list_in_proc(proc: pathlib.Path) -> list[str]:
    names = []
    for path in sorted(proc.glob("*/information")):
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            lines = []
        models = [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]
        names.append(models[0] if models else "NVIDIA GPU")
    return names


def _check_disk(section: Section, name: str, folder: pathlib.Path) -> None:
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        section.add_fault(name, f"{folder} cannot be read ({error.strerror})", "start in another folder")
        return
    text = f"{free / _GIGABYTE:.1f} GB free in {folder}"
    if not os.access(folder, os.W_OK):
        section.add_note(name, f"{folder} cannot be written: give commands a folder elsewhere")
    elif free < _MIN_FREE_DISK:
        section.add_fault(
            name, text, "free some space, or set TMPDIR" if name.startswith("temp") else "free some space"
        )
    else:
        section.add_ok(name, text)
