"""The releases of TensorFlow Serving and the ops that each one knows, from `serving_ops.txt`. No TensorFlow here."""

import functools
import pathlib
import re

from bert_keras.errors import InputError

OLDEST_SERVING = "2.13"
_TABLE = pathlib.Path(__file__).with_name("serving_ops.txt")


def check_release(version: str) -> str:
    """Return the release of a version, for example "2.13" for "2.13.1".

    Raises:
        InputError: the release is not in the table.
    """
    releases = list(read_graph_versions())[:-1]  # TensorFlow Serving has not caught up with the last one
    release = re.fullmatch(r"(\d+\.\d+)(\.\d+)?", version)
    if release is None or release[1] not in releases:
        raise InputError(
            f"TensorFlow Serving {version} is not in the table of ops; expected {releases[0]} to {releases[-1]}"
        )
    return release[1]


@functools.cache
def _read_table() -> list[tuple[str, str]]:
    """Return the lines of the table: a release, and an op, attribute, value or graph version that is new in it."""
    lines = _TABLE.read_text(encoding="utf-8").split("\n")
    return [tuple(line.split("\t")) for line in lines if line and not line.startswith("#")]


def read_graph_versions() -> dict[str, int]:
    """Return the graph version of each release in the table, the oldest release first."""
    return {release: int(fact.split()[1]) for release, fact in _read_table() if fact.startswith("GraphDef ")}


def read_first_releases() -> dict[str, str]:
    """Return the first release that knows each op, attribute or attribute value of the table."""
    return {fact: release for release, fact in _read_table() if " " not in fact}
