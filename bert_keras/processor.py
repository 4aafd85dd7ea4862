"""The processor: its model, and its instructions for products of small numbers."""

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


def _read_mac_model() -> str | None:
    try:
        done = subprocess.run(["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
