"""`OnnxruntimeEngine`: runs an ONNX file in onnxruntime."""

import os
from collections.abc import Sequence

import numpy as np

from bert_keras.compat import import_onnxruntime
from bert_keras.engines.engine import ArtifactEngine, Features, count_threads
from bert_keras.errors import InputError, MissingExtraError


class OnnxruntimeEngine(ArtifactEngine):
    """Engine that runs an ONNX file in onnxruntime.

    All instances share one session and its weights. With one thread per instance a batch is computed by the thread that
    asks for it.

    Args:
        path: the file.
        wanted: the names of the outputs to compute.
        threads: number of threads per instance; None: one per core, divided by the instances.
        instances: number of batches that run at the same time.

    Raises:
        InputError: the file is damaged or of another model.
        MissingExtraError: onnxruntime is not installed.
    """

    tokens_per_batch = 512  # MiniLM with 8-bit weights: 1,647 texts/s; 1,494 with 2,048 and 1,167 with 8,192

    shortest_share = 0.75  # a single text takes little longer than as a part of a batch, but padding takes its time

    def __init__(
        self, path: str | os.PathLike, wanted: Sequence[str], *, threads: int | None = None, instances: int = 1
    ):
        try:
            onnxruntime = import_onnxruntime()
        except ImportError:
            raise MissingExtraError(f"running {path}", "onnxruntime", "onnx") from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or count_threads(instances)
        options.log_severity_level = 3  # errors only
        try:
            self._session = onnxruntime.InferenceSession(os.fspath(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's own exceptions have no public base class
            raise InputError(f"{path} is not a complete ONNX file ({type(error).__name__}): export it again") from None
        entries = self._session.get_inputs()
        outputs = [entry.name for entry in self._session.get_outputs()]
        super().__init__(path, [entry.name for entry in entries], outputs, wanted)
        self.num_instances = instances
        self._types = {entry.name: np.int64 if "int64" in entry.type else np.int32 for entry in entries}

    def run(self, features: Features, *, once: bool = False) -> dict[str, np.ndarray]:
        """Run the file on one batch."""
        inputs = {name: values.astype(self._types[name]) for name, values in self._select_inputs(features).items()}
        return self._name_outputs(self._session.run(self._wanted, inputs))
