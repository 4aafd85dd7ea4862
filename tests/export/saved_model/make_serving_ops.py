"""Write `export/saved_model/serving_ops.txt` from the wheels of TensorFlow releases, without installing them.

    for v in 2.12.1 2.13.1 2.14.1 2.15.1 2.16.2 2.17.1 2.18.1 2.19.1 2.20.0 2.21.0; do
        pip download -d WHEELS --no-deps --only-binary :all: --python-version 3.11 \\
            --platform manylinux2014_x86_64 --platform manylinux_2_27_x86_64 tensorflow-cpu==$v
    done
    pip download (the same options) tensorflow-text==2.12.1 tensorflow-text==2.21.1, in separate calls
    python tests/export/saved_model/make_serving_ops.py WHEELS > export/saved_model/serving_ops.txt

The script takes a minute and 2 GB of wheels. A separate process per release loads its libraries and lists their
registered ops through TensorFlow's C API. tensorflow-text 2.12.1 loads only into TensorFlow 2.12.
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
TEXT_IN_SERVING = "2.12"  # linked into TensorFlow Serving; see the head of the table
_NEWEST = RELEASES[-1]
_LIBRARIES = ("tensorflow/libtensorflow_", "tensorflow_text/python/", "tensorflow/include/tensorflow/core/public/")

_HEAD = f"""\
# The first TensorFlow Serving release that knows each op, attribute and attribute value that TensorFlow {_NEWEST} and
# tensorflow-text {_NEWEST} can write to a graph. Those that 2.13 already knows are not listed.
# Written by tests/export/saved_model/make_serving_ops.py.
# Each line is the release, a tab, and one of
#   GraphDef N        the version of graphs that this release writes and reads
#   Op                a new op, or an op whose number of inputs or outputs changed
#   Op.attribute      an attribute that older releases ignore, whatever its value, and mention in their log
#   Op.attribute=X    a type or string that the older op, or its CPU kernel, does not support
# TensorFlow Serving linked tensorflow-text 2.12 before its own 2.13, and still did in 2025 (tensorflow/serving, pull
# requests 2119 and 4057). The release that links a newer one is unknown, so newer ops count as those of {_NEWEST}.
# Not listed: lists of types, and `_Mkl...` ops, which oneDNN adds to running graphs and which no file contains."""


class Release:
    """The registry of one release: `ops` of TensorFlow, names of `text_ops`, `kernel_types` and `graph_version`."""

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
            self.graph_version = _read_graph_version(root)

    def list_facts(self) -> set[str]:
        """Return the ops, attributes and values of this release, spelled as in the table."""
        return {fact for op in self.ops.values() for fact in list_facts(op, self.kernel_types.get(op.name, {}))}


def parse_ops(data: bytes) -> dict[str, op_def_pb2.OpDef]:
    """Return the ops of a registry, keyed by name."""
    return {op.name: op for op in op_def_pb2.OpList.FromString(data).op if not op.name.lstrip("_").startswith("Mkl")}


def parse_kernels(data: bytes) -> dict[str, dict[str, set[int]]]:
    """Return the types with CPU kernels, keyed by op and attribute; other attributes support all types."""
    constraints = defaultdict(list)
    for kernel in kernel_def_pb2.KernelList.FromString(data).kernel:
        if kernel.device_type == "CPU" and not kernel.label:
            constraints[kernel.op].append({item.name: set(item.allowed_values.list.type) for item in kernel.constraint})
    return {
        op: {name: set.union(*(one[name] for one in ones)) for name in set.intersection(*map(set, ones))}
        for op, ones in constraints.items()
    }


def list_facts(op: op_def_pb2.OpDef, kernel_types: Mapping[str, set[int]]) -> Iterable[str]:
    """Yield the facts about an op: its arguments, its attributes, and their values."""
    yield f"{op.name} {len(op.input_arg)}:{len(op.output_arg)}"
    for attribute in op.attr:
        name = f"{op.name}.{attribute.name}"
        yield name
        yield from (f"{name}={word.decode()}" for word in attribute.allowed_values.list.s)
        if attribute.type == "type":
            types = set(attribute.allowed_values.list.type or types_pb2.DataType.values())
            types &= kernel_types.get(attribute.name, types)
            yield from (f"{name}={types_pb2.DataType.Name(one).removeprefix('DT_').lower()}" for one in types)


def find_first_releases(facts: Mapping[str, set[str]], releases: list[str]) -> Iterable[tuple[str, str]]:
    """Yield (release, fact) for each fact that is new since the first of `releases`."""
    for fact in sorted(facts[releases[-1]] - facts[releases[0]]):
        unknown_to = [number for number, release in enumerate(releases) if fact not in facts[release]]
        yield releases[unknown_to[-1] + 1], fact.partition(" ")[0]


def build_table(wheels: pathlib.Path) -> Iterable[str]:
    """Yield the lines of the table."""
    registered = {release: Release(wheels, release) for release in RELEASES}
    yield from _HEAD.split("\n")
    yield from (f"{release}\tGraphDef {registry.graph_version}" for release, registry in registered.items())
    since = dict(
        map(reversed, find_first_releases({name: one.list_facts() for name, one in registered.items()}, RELEASES))
    )
    since |= dict.fromkeys(registered[_NEWEST].text_ops - Release(wheels, TEXT_IN_SERVING).text_ops, _NEWEST)
    for fact, release in sorted(since.items(), key=lambda item: (RELEASES.index(item[1]), item[0])):
        owners = (fact.partition("=")[0], fact.partition("=")[0].partition(".")[0])
        if not any(since.get(owner) == release for owner in owners if owner != fact):
            yield f"{release}\t{fact}"  # attributes of a new op are not listed


def _read_graph_version(root: pathlib.Path) -> int:
    for header in root.glob("tensorflow/include/tensorflow/core/public/*version.h"):
        for line in header.read_text().split("\n"):
            if line.startswith("#define TF_GRAPH_DEF_VERSION "):
                return int(line.split()[2])
    raise SystemExit(f"no header in {root} contains the graph version")


if __name__ == "__main__":
    print("\n".join(build_table(pathlib.Path(sys.argv[1]))))
