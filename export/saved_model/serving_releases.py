"""Which releases of TensorFlow Serving there are, and what each knows: `serving_ops.txt`, read without TensorFlow."""

import functools
import pathlib
import re

from bert_keras.errors import InputError

OLDEST_SERVING = "2.13"
_TABLE = pathlib.Path(__file__).with_name("serving_ops.txt")


def known_release(version: str) -> str:
    """Return the release of a version, "2.13" of "2.13.1"; raise `InputError` if the table does not have it."""
    known = list(graph_versions())[:-1]  # of the last one there is no server yet
    release = re.fullmatch(r"(\d+\.\d+)(\.\d+)?", version)
    if release is None or release[1] not in known:
        raise InputError(f"TensorFlow Serving {version} is not in the table of ops; expected {known[0]} to {known[-1]}")
    return release[1]


@functools.cache
def _table() -> list[tuple[str, str]]:
    lines = _TABLE.read_text(encoding="utf-8").split("\n")
    return [tuple(line.split("\t")) for line in lines if line and not line.startswith("#")]


def graph_versions() -> dict[str, int]:
    """Return the version of graphs that each release of the table reads, the oldest release first."""
    return {release: int(what.split()[1]) for release, what in _table() if what.startswith("GraphDef ")}


def introduced_in() -> dict[str, str]:
    """Return the release that knew an op, attribute or value of one first, in the words of the table."""
    return {what: release for release, what in _table() if " " not in what}
