"""Choose the artifacts of an export that are pushed beside the weights, after checking that they belong to them."""

import os
import pathlib
from collections.abc import Mapping
from typing import NamedTuple

from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.huggingface.weights_file import hash_weights
from bert_keras.checks import format_names, read_field
from bert_keras.errors import InputError
from bert_keras.export.targets import PARITY, read_parity_report
from bert_keras.files import format_json
from bert_keras.pipelines.text.tokenizer_folder import TokenizerFolder
from bert_keras.tasks.engines.artifact_files import DESCRIPTION

_TFLITE_FILES = ("README.md", "labels.txt", "vocab.txt", "model.json", "parity.json")  # beside the .tflite files
_WRITTEN_AFTER_CHECK = "/assets.extra/parity.json"  # in a SavedModel
_FIX = "run bert-keras export again, and push its output folder"


class PushedArtifacts(NamedTuple):
    """The artifacts that are pushed.

    Attributes:
        files: the path or content of each file, keyed by its path in the repository.
        names: the paths of the artifacts in the repository.
        left_out: artifacts that are not pushed, as paths in the output folder.
    """

    files: dict[str, pathlib.Path | bytes]
    names: list[str]
    left_out: list[str]


def find_artifact_files(
    out: str | os.PathLike, checkpoint: Checkpoint, *, with_saved_model: bool = False
) -> PushedArtifacts:
    """Choose the ONNX and TFLite files of an output folder of `export`, and their places in a repository.

    ONNX files get the names that transformers.js and optimum expect, `onnx/model.onnx` and `onnx/model_quantized.onnx`;
    they use the configuration and the tokenizer of the checkpoint. `tflite/` has a vocabulary of its own.

    Args:
        out: the output folder.
        checkpoint: the checkpoint that is pushed.
        with_saved_model: whether to push the newest version of the SavedModel.

    Raises:
        InputError: there is no parity report, an artifact did not pass the check or was changed after it, or belongs
            to another checkpoint; or `with_saved_model` is set and there is no SavedModel.
    """
    out = pathlib.Path(out)
    if not out.is_dir():
        kind = "is not a folder" if out.exists() else "does not exist"
        raise InputError(f"{out} {kind}; expected an output folder of bert-keras export: check the path")
    if not (out / PARITY).is_file():
        raise InputError(f"{out} has no {PARITY}, so nothing shows that its artifacts equal the checkpoint: {_FIX}")
    reports = read_parity_report(out / PARITY)
    if failed := sorted(name for name, report in reports.items() if report.get("passed") is not True):
        raise InputError(f"{out / PARITY} says that {format_names(failed)} differs from the checkpoint: {_FIX}")
    files: dict[str, pathlib.Path | bytes] = {}
    saved_model = _find_saved_model(out, reports) if with_saved_model else {}
    if with_saved_model and not saved_model:
        raise InputError(
            f"{out} has no SavedModel with a parity report; expected saved_model/VERSION: export it with "
            "--to saved_model, or push without it"
        )
    places = _find_onnx(out) | _find_tflite(out) | saved_model
    weights = hash_weights(checkpoint.source)
    for name, place in places.items():
        _check_unchanged(out, name, reports)
        _check_weights(out / name, reports[name], weights, checkpoint)
        _check_vocabulary(out, name, reports[name], checkpoint)
        files |= _list_files(out / name, place)
    if not places:
        raise InputError(f"{out} has no ONNX or TFLite file to push: {_FIX}")
    if any(name.startswith("tflite/") for name in places):
        files |= {f"tflite/{name}": path for name in _TFLITE_FILES if (path := out / "tflite" / name).is_file()}
    moved = {place: reports[name] for name, place in places.items()}
    files[PARITY] = (format_json({"artifacts": moved}, indent=2) + "\n").encode()  # without the path of the checkpoint
    return PushedArtifacts(dict(sorted(files.items())), sorted(moved), sorted(set(reports) - set(places)))


def _find_onnx(out: pathlib.Path) -> dict[str, str]:
    """Return the place of each ONNX file in a repository, keyed by its path in the output folder."""
    return {path.relative_to(out).as_posix(): f"onnx/{path.name}" for path in sorted(out.glob("onnx/onnx/*.onnx"))}


def _find_tflite(out: pathlib.Path) -> dict[str, str]:
    return {name: name for path in sorted(out.glob("tflite/*.tflite")) if (name := path.relative_to(out).as_posix())}


def _find_saved_model(out: pathlib.Path, reports: Mapping[str, dict]) -> dict[str, str]:
    """Return the newest version of the SavedModel that has a report."""
    names = [name for name in reports if name.startswith("saved_model/") and (out / name).is_dir()]
    numbered = [name for name in names if name.rpartition("/")[2].isdecimal()]
    newest = max(numbered, key=lambda name: int(name.rpartition("/")[2]), default=None)
    return {} if newest is None else {newest: newest}


def _list_files(artifact: pathlib.Path, place: str) -> dict[str, pathlib.Path]:
    """Return the files of an artifact except hidden ones, keyed by their paths in the repository."""
    if artifact.is_file():
        return {place: artifact}
    names = {path.relative_to(artifact).as_posix(): path for path in sorted(artifact.rglob("*")) if path.is_file()}
    return {f"{place}/{name}": path for name, path in names.items() if not f"/{name}".count("/.")}


def _check_unchanged(out: pathlib.Path, name: str, reports: Mapping[str, dict]) -> None:
    """Raise `InputError` unless an artifact is the one that was checked."""
    if name not in reports:
        raise InputError(f"{out / PARITY} has no report of {name}, so nothing shows that it equals the model: {_FIX}")
    expected = read_field(reports[name], "bytes", int, source=f"{out / PARITY}, under {name},")
    checked = {place: path for place, path in _list_files(out / name, "").items() if place != _WRITTEN_AFTER_CHECK}
    actual = sum(path.stat().st_size for path in checked.values())
    if actual != expected:
        raise InputError(
            f"{out / name} has {actual:,} bytes, and {expected:,} when it was compared with the checkpoint: {_FIX}"
        )


def _check_weights(path: pathlib.Path, report: Mapping, weights: str | None, checkpoint: Checkpoint) -> None:
    """Raise `InputError` if an artifact was exported from other weights; before release 0.2, reports had no hash."""
    recorded = report.get("weights_sha256")
    if recorded is not None and recorded != weights:
        raise InputError(f"{path} was exported from other weights than those of {checkpoint}: {_FIX}")


def _check_vocabulary(out: pathlib.Path, name: str, report: Mapping, checkpoint: Checkpoint) -> None:
    """Raise `InputError` unless an artifact uses the tokenizer of the checkpoint, or has its own."""
    if name.startswith("tflite/") and "trimmed_vocabulary" in report:
        return  # tflite/ has a vocabulary and a description of its own
    place = {"onnx": out / "onnx", "tflite": out / "tflite"}.get(name.split("/")[0], out / name / DESCRIPTION)
    expected_vocabulary = (checkpoint.tokenizer_settings or {}).get("vocabulary", ())
    if TokenizerFolder(place).vocabulary != list(expected_vocabulary):
        trimmed = ", because it was exported with --trim-vocabulary" if "trimmed_vocabulary" in report else ""
        raise InputError(
            f"{out / name} has another vocabulary than {checkpoint}{trimmed}; expected that of the checkpoint, whose "
            "tokenizer a repository has: export the checkpoint again without trimming, or push without --artifacts"
        )
