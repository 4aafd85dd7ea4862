"""`ModelSource`: the model that a worker process opens, and how."""

import pathlib
from typing import NamedTuple

from bert_keras.errors import InputError
from bert_keras.tasks.engines.artifact_files import ENGINES, Artifact, find_artifact, is_artifact

KERAS = "keras"
SERVER_ENGINES = (*ENGINES, KERAS)


class ModelSource(NamedTuple):
    """A model and the engine that runs it.

    Attributes:
        path: an artifact or a checkpoint folder.
        engine: one of `SERVER_ENGINES`; None: the first that can run it.
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
