"""Where artifacts are, and where they may be put. No TensorFlow here, so that a command checks its folders at once."""

import os
import pathlib
from collections.abc import Iterable, Sequence

from bert_keras.checks import read_field
from bert_keras.errors import InputError
from bert_keras.files import read_json
from bert_keras.publishing import check_writable_folder, resolve
from bert_keras.staging import lock_folder

PARITY = "parity.json"
WRITTEN_BY = "export"
_FOLDERS = ("saved_model", "serving", "tflite", "onnx")


def check_export_target(
    out: str | os.PathLike,
    formats: Sequence[str],
    *,
    overwrite: bool = False,
    inputs: Iterable[str | os.PathLike] = (),
) -> None:
    """Check that artifacts can be written to a folder, and remove what a killed export of them left there.

    Args:
        out: the folder; it may be missing.
        formats: see `export_model`.
        overwrite: whether artifacts that have no version may be replaced.
        inputs: paths that the export reads.

    Raises:
        InputError: the folder contains other files than artifacts, artifacts that may not be replaced, or an input;
            another export is at work on it; or it cannot be written.
    """
    folder, inputs = resolve(out), list(inputs)
    if not folder.is_dir():
        check_writable_folder(out, WRITTEN_BY, inputs=inputs)
        return
    if (folder / PARITY).is_file():
        read_verdicts(pathlib.Path(out) / PARITY)
    else:
        names = sorted(path.name for path in folder.iterdir() if path.name not in _FOLDERS and path.name[0] != ".")
        if names:
            raise InputError(f"{out} holds {names[0]} and no artifacts of bert-keras: name another folder")
    with lock_folder(folder):
        targets = {name: overwrite for name in formats if name != "saved_model"}
        if "saved_model" in formats:
            targets |= {f"saved_model/{next_version(folder / 'saved_model')}": False, "serving": True}
        for name, is_replaced in targets.items():
            check_writable_folder(pathlib.Path(out) / name, WRITTEN_BY, overwrite=is_replaced, inputs=inputs)


def read_verdicts(path: pathlib.Path) -> dict[str, dict]:
    """Return the verdicts on artifacts, by their names, that an earlier export wrote.

    Raises:
        InputError: it wrote another file.
    """
    try:
        return read_field(read_json(path), "artifacts", dict[str, dict], source=path)
    except InputError as error:
        raise InputError(f"{path} holds no verdicts of bert-keras ({error}): name another folder") from None


def next_version(folder: pathlib.Path) -> int:
    """Return the number after the highest one that a folder of a SavedModel's versions has."""
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return 1 + max((int(name) for name in names if name.isdecimal()), default=0)


def find_artifacts(path: pathlib.Path) -> list[pathlib.Path]:
    """Returns the artifacts at a path or below it.

    Raises:
        InputError: there is none.
    """
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    found = [file.parent for file in files if file.name == "saved_model.pb"]
    found += [file for file in files if file.suffix in (".tflite", ".onnx") and file.is_file()]
    if not found:
        raise InputError(
            f"{path} holds no artifact; expected saved_model.pb, a .tflite or an .onnx file: name what export wrote"
        )
    return found
