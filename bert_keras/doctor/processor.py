"""The processor: its model, its instructions for small numbers, and the file and engine that they favour."""

import dataclasses
import pathlib
import platform
import subprocess

_CPUINFO = pathlib.Path("/proc/cpuinfo")
_FEATURES = {  # name: flags of Linux, any of which means the feature
    "AVX2": ("avx2",),
    "AVX-512": ("avx512f",),
    "VNNI": ("avx512_vnni", "avx_vnni"),
    "BF16": ("avx512_bf16",),
    "AMX": ("amx_int8", "amx_bf16", "amx_tile"),
    "NEON": ("neon", "asimd"),
}


@dataclasses.dataclass(frozen=True)
class Processor:
    """A processor.

    Attributes:
        model: its name.
        features: those of AVX2, AVX-512, VNNI, BF16, AMX and NEON that it has.
    """

    model: str
    features: tuple[str, ...]


def read_processor(cpuinfo: pathlib.Path = _CPUINFO) -> Processor:
    """Return the processor of this machine. Without `/proc/cpuinfo` its features are unknown, so empty.

    Args:
        cpuinfo: the file in which Linux describes the processor.
    """
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        features = ("NEON",) if platform.machine() in ("arm64", "aarch64") else ()
        return Processor(_read_mac_model() or platform.processor() or platform.machine(), features)
    pairs = [line.partition(":") for line in lines]
    values = {name.strip(): value.strip() for name, _, value in reversed(pairs)}  # of the first core
    flags = set(values.get("flags", values.get("Features", "")).split())
    features = tuple(name for name, names in _FEATURES.items() if flags.intersection(names))
    return Processor(values.get("model name") or platform.machine(), features)


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


def _read_mac_model() -> str | None:
    try:
        done = subprocess.run(["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
