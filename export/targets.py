"""Where artifacts are, and where they may be put. No TensorFlow here, so that a command checks its folders at once."""

import os
import pathlib
from collections.abc import Sequence

from bert_keras.errors import InputError
from bert_keras.files import check_writable_target

PARITY = "parity.json"


def check_export_target(out: str | os.PathLike, formats: Sequence[str], *, overwrite: bool = False) -> None:
    """Raises `InputError` unless artifacts can be put into a folder: it is none yet, empty, or one of artifacts.

    Those that have no version must not be there, or may be overwritten.
    """
    out = pathlib.Path(out)
    if not (out / PARITY).is_file():
        check_writable_target(out)
    for name in set(formats) - {"saved_model"}:
        check_writable_target(out / name, overwrite=overwrite)


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
