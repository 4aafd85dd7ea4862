"""`ModelSource`: the model that a worker process opens, and how."""

from typing import NamedTuple

from bert_keras.tasks.engines.artifact_files import ENGINES

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
