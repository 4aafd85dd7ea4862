"""Write `export/saved_model/serving_ops.txt` from the wheels of TensorFlow releases; none of them is installed.

    for v in 2.12.1 2.13.1 2.14.1 2.15.1 2.16.2 2.17.1 2.18.1 2.19.1 2.20.0 2.21.0; do
        pip download -d WHEELS --no-deps --only-binary :all: --python-version 3.11 \\
            --platform manylinux2014_x86_64 --platform manylinux_2_27_x86_64 tensorflow-cpu==$v
    done
    pip download (the same options) tensorflow-text==2.12.1 tensorflow-text==2.21.1, each by itself
    python tests/export/saved_model/make_serving_ops.py WHEELS > export/saved_model/serving_ops.txt

2 GB of wheels; a minute. A release's libraries are unpacked and asked by a process of their own, through TensorFlow's
C API, what they have registered. TensorFlow 2.12 is there for tensorflow-text 2.12.1, which loads into no other.
"""

import pathlib
import subprocess
import sys
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Mapping

from tensorflow.core.framework import kernel_def_pb2, op_def_pb2, types_pb2

RELEASES = [f"2.{minor}" for minor in range(13, 22)]
TEXT_IN_SERVING = "2.12"  # what TensorFlow Serving links, see the table's head
_NEWEST = RELEASES[-1]
_LIBRARIES = ("tensorflow/libtensorflow_", "tensorflow_text/python/", "tensorflow/include/tensorflow/core/public/")

_HEAD = f"""\
# What a TensorFlow Serving release is the first to know, of all that TensorFlow {_NEWEST} and tensorflow-text
# {_NEWEST} can write into a graph. Not in here: known to 2.13 already.
# Made by tests/export/saved_model/make_serving_ops.py.
# A line: the release, a tab, and one of
#   GraphDef N        the version of graphs that this release writes and reads
#   Op                an op, or one whose numbers of inputs and outputs changed
#   Op.attribute      an older release ignores the attribute, whatever its value, and says so in its log
#   Op.attribute=X    a type or a word that an older op, or its kernel on CPUs, refuses
# TensorFlow Serving linked tensorflow-text 2.12 before its own 2.13, and still in 2025 (tensorflow/serving, pull
# requests 2119 and 4057). Which release links a later one is not known, so its ops count as {_NEWEST}'s.
# Left out: lists of types, and `_Mkl...`, which oneDNN puts into a graph that runs, and which no file holds."""


class Release:
    """What one release has registered: `ops` of TensorFlow, `text_ops`, the names alone, and its `graph_version`."""

    def __init__(self, wheels: pathlib.Path, release: str):
        with tempfile.TemporaryDirectory() as scratch:
            root = pathlib.Path(scratch)
            for wheel in (*wheels.glob(f"tensorflow_cpu-{release}.*"), *wheels.glob(f"tensorflow_text-{release}.*")):
                archive = zipfile.ZipFile(wheel)
                archive.extractall(root, [name for name in archive.namelist() if name.startswith(_LIBRARIES)])
            lister = pathlib.Path(__file__).with_name("list_registry.py")
            subprocess.run([sys.executable, lister, root], check=True, stderr=subprocess.DEVNULL)
            self.ops = parse_ops((root / "ops").read_bytes())
            self.text_ops = set(parse_ops((root / "ops_with_text").read_bytes())) - set(self.ops)
            self.kernel_types = parse_kernels((root / "kernels").read_bytes())
            self.graph_version = _graph_version(root)

    def facts(self) -> set[str]:
        """Returns all that this release knows, in the words of the table."""
        return {fact for op in self.ops.values() for fact in op_facts(op, self.kernel_types.get(op.name, {}))}


def parse_ops(data: bytes) -> dict[str, op_def_pb2.OpDef]:
    """Returns the ops of a registry by their names."""
    return {op.name: op for op in op_def_pb2.OpList.FromString(data).op if not op.name.lstrip("_").startswith("Mkl")}


def parse_kernels(data: bytes) -> dict[str, dict[str, set[int]]]:
    """Returns by op and attribute the types for which there are kernels on CPUs; an attribute left out: any."""
    constraints = defaultdict(list)
    for kernel in kernel_def_pb2.KernelList.FromString(data).kernel:
        if kernel.device_type == "CPU" and not kernel.label:
            constraints[kernel.op].append({item.name: set(item.allowed_values.list.type) for item in kernel.constraint})
    return {
        op: {name: set.union(*(one[name] for one in ones)) for name in set.intersection(*map(set, ones))}
        for op, ones in constraints.items()
    }


def op_facts(op: op_def_pb2.OpDef, kernel_types: Mapping[str, set[int]]) -> Iterable[str]:
    """Yields what there is to know of an op: its arguments, its attributes, and the values that they may have."""
    yield f"{op.name} {len(op.input_arg)}:{len(op.output_arg)}"
    for attribute in op.attr:
        name = f"{op.name}.{attribute.name}"
        yield name
        yield from (f"{name}={word.decode()}" for word in attribute.allowed_values.list.s)
        if attribute.type == "type":
            types = set(attribute.allowed_values.list.type or types_pb2.DataType.values())
            types &= kernel_types.get(attribute.name, types)
            yield from (f"{name}={types_pb2.DataType.Name(one).removeprefix('DT_').lower()}" for one in types)


def since_lines(facts: Mapping[str, set[str]], releases: list[str]) -> Iterable[tuple[str, str]]:
    """Yields (release, fact) for what the last of `releases` knows and the first does not, with who knew it first."""
    for fact in sorted(facts[releases[-1]] - facts[releases[0]]):
        unknown_to = [number for number, release in enumerate(releases) if fact not in facts[release]]
        yield releases[unknown_to[-1] + 1], fact.partition(" ")[0]


def table_lines(wheels: pathlib.Path) -> Iterable[str]:
    """Yields the lines of the table."""
    registered = {release: Release(wheels, release) for release in RELEASES}
    yield from _HEAD.split("\n")
    yield from (f"{release}\tGraphDef {registry.graph_version}" for release, registry in registered.items())
    since = dict(map(reversed, since_lines({name: one.facts() for name, one in registered.items()}, RELEASES)))
    since |= dict.fromkeys(registered[_NEWEST].text_ops - Release(wheels, TEXT_IN_SERVING).text_ops, _NEWEST)
    for fact, release in sorted(since.items(), key=lambda item: (RELEASES.index(item[1]), item[0])):
        owners = (fact.partition("=")[0], fact.partition("=")[0].partition(".")[0])
        if not any(since.get(owner) == release for owner in owners if owner != fact):
            yield f"{release}\t{fact}"  # of a new op all is new, which needs no saying


def _graph_version(root: pathlib.Path) -> int:
    for header in root.glob("tensorflow/include/tensorflow/core/public/*version.h"):
        for line in header.read_text().split("\n"):
            if line.startswith("#define TF_GRAPH_DEF_VERSION "):
                return int(line.split()[2])
    raise SystemExit(f"no header of {root} says the version of graphs")


if __name__ == "__main__":
    print("\n".join(table_lines(pathlib.Path(sys.argv[1]))))
