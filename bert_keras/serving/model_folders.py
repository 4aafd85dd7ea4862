"""Find the versions of a model in its folder, notice when they change, and find what a worker process opens."""

import contextlib
import itertools
import os
import pathlib
import re
from typing import NamedTuple

from bert_keras.engines.artifact_files import Artifact, find_artifact, is_artifact
from bert_keras.errors import InputError

Fingerprint = tuple[tuple[str, int, int], ...]  # of each file: its path, size and time of modification

_QUANTIZED = ("onnx/model_quantized.onnx", "onnx/onnx/model_quantized.onnx", "model_quantized.onnx")
_MAX_FILES = 10_000  # in the folder of a version
_NAME_IN_CONFIG = re.compile(r'^\s*name: "([^"]+)"', re.MULTILINE)
KERAS = "keras"  # the engine of checkpoints


class ModelSource(NamedTuple):
    """A model and the engine that runs it.

    Attributes:
        path: an artifact or a checkpoint folder.
        engine: one of `ENGINES` of `artifact_files.py`, or `KERAS`; None: the first that can run it.
        threads: threads per instance; None: one, or all cores with one instance.
        instances: batches that run at the same time; None: one per core in onnxruntime and OpenVINO, otherwise one.
    """

    path: str
    engine: str | None = None
    threads: int | None = None
    instances: int | None = None


def find_model(source: ModelSource) -> Artifact | None:
    """Return the artifact to run; None for a checkpoint, which Keras runs.

    Raises:
        InputError: there is no model that the engine can run.
    """
    path = pathlib.Path(source.path)
    if not path.exists():
        raise InputError(f"{path} does not exist; expected an artifact: export the model to ONNX, with 8 bits too")
    if source.engine != KERAS and (source.engine is not None or is_artifact(path)):
        return find_artifact(path, source.engine)
    if not (path / "config.json").is_file():
        raise InputError(
            f"{path} has no model; expected an output folder of export, an artifact, a checkpoint folder, or a folder "
            "of these with version numbers as names"
        )
    return None


class FoundVersion(NamedTuple):
    """A version of a model on the disk.

    Attributes:
        number: its number, as in TensorFlow Serving: a higher one is newer. 1 for a folder without versions.
        path: what a worker opens.
        fingerprint: changes with the files.
    """

    number: int
    path: pathlib.Path
    fingerprint: Fingerprint


def find_versions(folder: pathlib.Path, engine: str | None = None, *, quantized: bool = False) -> list[FoundVersion]:
    """Return the versions of a model, the newest first.

    A folder is an output folder of `export`, an artifact, a checkpoint folder, or a folder of such folders whose names
    are numbers. Of a SavedModel each number in `saved_model/` is a version.

    Args:
        folder: the folder.
        engine: the engine that will run it, see `find_artifact`; None: the first that can.
        quantized: whether to run the 8-bit ONNX file of each version.
    """
    numbered = _list_numbered(folder)
    if not numbered and not quantized and engine in (None, "tensorflow"):
        onnx_files = ("onnx/onnx/model.onnx", "onnx/model.onnx", "model.onnx")
        if engine == "tensorflow" or not any((folder / place).is_file() for place in onnx_files):
            numbered = _list_numbered(folder / "saved_model")
    if not numbered:
        return [_make_version(1, folder, quantized)] if folder.exists() else []
    return [_make_version(number, numbered[number], quantized) for number in sorted(numbered, reverse=True)]


def name_model(folder: pathlib.Path) -> str:
    """Return the name under which a folder is served.

    It is the name given to the export, as in `serving/models.config` or `deploy/triton/`, also for the folders `onnx/`
    and `saved_model/` in it; or else the folder's own name.
    """
    places = [folder, folder.parent] if folder.name in ("onnx", "saved_model") else [folder]
    for place in places:
        for pattern, suffix in (("serving/models.config", ""), ("deploy/triton/*_ids/config.pbtxt", "_ids")):
            for config in filter(pathlib.Path.is_file, place.glob(pattern)):
                if found := _NAME_IN_CONFIG.search(config.read_text(encoding="utf-8", errors="replace")):
                    return found[1].removesuffix(suffix)
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", folder.resolve().name).strip("-_.") or "bert"


def check_model(folder: pathlib.Path, engine: str | None, *, quantized: bool) -> None:
    """Raise `InputError` unless a folder has a version to serve; the arguments are those of `find_versions`."""
    problems = []
    for version in find_versions(folder, engine, quantized=quantized):
        try:
            find_model(ModelSource(str(version.path), engine))
            return
        except InputError as error:
            problems.append(error)
    raise problems[0]


def _list_numbered(folder: pathlib.Path) -> dict[int, pathlib.Path]:
    try:
        paths = [path for path in folder.iterdir() if path.name.isdecimal() and path.is_dir()]
    except OSError:
        return {}
    return {int(path.name): path for path in paths}


def _make_version(number: int, path: pathlib.Path, quantized: bool) -> FoundVersion:
    chosen = path
    if quantized and path.is_dir():
        chosen = next((path / place for place in _QUANTIZED if (path / place).is_file()), path / _QUANTIZED[0])
    return FoundVersion(number, chosen, _take_fingerprint(path))


def _take_fingerprint(path: pathlib.Path) -> Fingerprint:
    """Return what changes when a file below a path is written, replaced or removed."""
    if path.is_file():
        path = path.parent
    facts: list[tuple[str, int, int]] = []
    files = (os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
    for file in itertools.islice(files, _MAX_FILES):
        with contextlib.suppress(OSError):  # removed meanwhile
            status = os.stat(file)
            facts.append((file, status.st_size, status.st_mtime_ns))
    return tuple(sorted(facts))
