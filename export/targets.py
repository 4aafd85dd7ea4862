"""Folders of artifacts: where an export writes, and what it finds there.

No TensorFlow here, so that a command can check its folders at once.
"""

import os
import pathlib
from collections.abc import Iterable, Sequence

from bert_keras.checks import read_field
from bert_keras.errors import InputError
from bert_keras.files import read_json, write_json
from bert_keras.publishing import check_writable_folder, publish_file, resolve
from bert_keras.staging import LISTING, lock_folder

PARITY = "parity.json"
WRITTEN_BY = "export"
_FOLDERS = ("saved_model", "serving", "tflite", "onnx", "deploy")


def check_export_target(
    out: str | os.PathLike,
    formats: Sequence[str],
    *,
    overwrite: bool = False,
    inputs: Iterable[str | os.PathLike] = (),
) -> None:
    """Check that artifacts can be written to a folder, and remove what a killed export left there.

    Args:
        out: the folder, which need not exist.
        formats: see `export_model`.
        overwrite: whether to replace `tflite/`, `onnx/` and `deploy/`.
        inputs: paths that the export reads.

    Raises:
        InputError: the folder contains other files, artifacts that may not be replaced, or an input; another export
            is writing to it; or it cannot be written.
    """
    folder, inputs = resolve(out), list(inputs)
    if not folder.is_dir():
        check_writable_folder(out, WRITTEN_BY, inputs=inputs)
        return
    if (folder / PARITY).is_file() and (folder / LISTING).is_file():
        raise InputError(
            f"{out} contains the artifacts of one format; expected a folder for those of all formats: name the folder "
            "above, or another one"
        )
    if (folder / PARITY).is_file():
        read_parity_report(pathlib.Path(out) / PARITY)
    else:
        names = sorted(path.name for path in folder.iterdir() if path.name not in _FOLDERS and path.name[0] != ".")
        if names:
            raise InputError(f"{out} contains {names[0]} and no artifacts of bert-keras: choose another folder")
    with lock_folder(folder):
        targets = {name: overwrite for name in formats if name != "saved_model"}
        if "onnx" in formats:
            targets["deploy"] = overwrite
        if "saved_model" in formats:
            targets |= {f"saved_model/{get_next_version(folder / 'saved_model')}": False, "serving": True}
        for name, is_replaced in targets.items():
            check_writable_folder(pathlib.Path(out) / name, WRITTEN_BY, overwrite=is_replaced, inputs=inputs)


def read_parity_report(path: pathlib.Path) -> dict[str, dict]:
    """Return the parity report of each artifact from a `parity.json`, keyed by the artifact's path.

    Raises:
        InputError: the file is not a parity report.
    """
    try:
        return read_field(read_json(path), "artifacts", dict[str, dict], source=path)
    except InputError as error:
        raise InputError(f"{path} is not a parity report of bert-keras ({error}): choose another folder") from None


def add_to_parity_report(path: pathlib.Path, checkpoint: str, reports: dict[str, dict]) -> None:
    """Add the reports of new artifacts to a `parity.json`, or create it."""
    known = read_parity_report(path) if path.is_file() else {}
    with publish_file(path) as staging:
        write_json(staging, {"checkpoint": checkpoint, "artifacts": {**known, **reports}})


def get_next_version(folder: pathlib.Path) -> int:
    """Return the next version number of a SavedModel, given the folder that contains its versions."""
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return 1 + max((int(name) for name in names if name.isdecimal()), default=0)


def find_artifacts(path: pathlib.Path) -> list[pathlib.Path]:
    """Return the artifacts at a path or below it.

    Raises:
        InputError: there is none.
    """
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    found = [file.parent for file in files if file.name == "saved_model.pb"]
    found += [file for file in files if file.suffix in (".tflite", ".onnx") and file.is_file()]
    if not found:
        raise InputError(
            f"{path} contains no artifact; expected saved_model.pb, a .tflite or an .onnx file: name an artifact, or a "
            "folder that export wrote"
        )
    return found
