"""Folders with `onnx/` and `deploy/` of tiny models."""

import functools
import pathlib
import shutil

import pytest

from bert_keras.export.deployment_bundle import write_deployment_files
from bert_keras.export.onnx import to_onnx
from bert_keras.export.onnx.onnx_artifact import get_served_task
from bert_keras.export.onnx.to_onnx import FLOAT32, write_onnx_folder
from bert_keras.export.parity.artifact_program import load_onnx
from tests.made_once import made_once

NAME = "My_Model.v2"


@pytest.fixture(scope="session")
def deployed(references, onnx_file, tmp_path_factory):
    """Function that returns a folder with `onnx/` and `deploy/` of a kind of model named `NAME`, written once."""

    def write(kind: str, out: pathlib.Path) -> None:
        reference = references(kind)
        task = reference.task.settings() if reference.task else None

        def copy(model, path):
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(onnx_file(kind), path)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(to_onnx, "write_onnx", copy)
            write_onnx_folder(reference.model, reference.tokenizer, out / "onnx", task=task)
        file = out / "onnx" / FLOAT32
        write_deployment_files(
            out / "deploy",
            NAME,
            signature=load_onnx(str(file))[1][""],
            num_bytes=file.stat().st_size,
            task=get_served_task(reference),
        )

    return lambda kind: made_once(tmp_path_factory, f"deployed.{kind}", functools.partial(write, kind))
