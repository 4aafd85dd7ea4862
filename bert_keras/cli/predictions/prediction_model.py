"""`PredictionModel`: the model of `bert-keras predict`, a checkpoint or an artifact."""

from __future__ import annotations

import argparse
import os
import pathlib
from typing import TYPE_CHECKING, NamedTuple

from bert_keras.cli.console.quiet import load_tensorflow
from bert_keras.cli.console.terminal import print_line
from bert_keras.cli.options import task_options
from bert_keras.cli.options.model_folder import read_model
from bert_keras.errors import InputError
from bert_keras.hub.downloading import ONNX_FLOAT32, download_folder
from bert_keras.hub.names import is_hub_name
from bert_keras.pipelines.readers.option_spelling import spell_flag
from bert_keras.tasks.engines.cores import count_cores

if TYPE_CHECKING:
    from bert_keras.checkpoints.checkpoint import Checkpoint
    from bert_keras.tasks.engines.artifact_files import Artifact
    from bert_keras.tasks.predictor import Predictor


class PredictionModel(NamedTuple):
    """What MODEL is: a checkpoint, or an artifact, whose description is a checkpoint without weights."""

    checkpoint: Checkpoint
    artifact: Artifact | None

    @property
    def paths(self) -> list[pathlib.Path]:
        """The files and folders that determine the answers."""
        folder = pathlib.Path(self.checkpoint.source)
        return [folder] if self.artifact is None else [self.artifact.path, folder]

    @classmethod
    def read(cls, arguments: argparse.Namespace) -> PredictionModel:
        """Read the checkpoint folder, or the description of the artifact.

        Raises:
            InputError: it cannot be used, or an option is for artifacts and MODEL is a checkpoint folder.
        """
        from bert_keras.checkpoints.checkpoint import check_has_vocabulary
        from bert_keras.tasks.engines.artifact_files import find_artifact, is_artifact

        path = arguments.model
        if is_hub_name(path) and arguments.engine is not None:
            onnx = None if arguments.engine == "tensorflow" else ONNX_FLOAT32
            path = download_folder(path, with_weights=False, onnx=onnx, report=print_line)
        if not is_hub_name(path) and path.exists() and (arguments.engine is not None or is_artifact(path)):
            artifact = find_artifact(path, arguments.engine)
            check_has_vocabulary(artifact.description)
            return cls(artifact.description, artifact)
        checkpoint = read_model(path)
        if given := task_options.get_given_options(arguments, "threads", "instances"):
            raise InputError(
                f"{', '.join(map(spell_flag, given))} is for artifacts, and {path} is a checkpoint folder: leave it "
                "out, or name an artifact that export wrote"
            )
        return cls(checkpoint, None)

    def load(self, arguments: argparse.Namespace, changes: dict[str, object]) -> Predictor:
        """Load the model; TensorFlow only if it is needed."""
        from bert_keras.tasks.engines.engine import FAST_SAVED_MODEL

        if self.artifact is None:
            load_tensorflow()
        elif self.artifact.engine == "tensorflow":
            for name in FAST_SAVED_MODEL:  # this process changes no weights
                os.environ.setdefault(name, "1")
            load_tensorflow()
        from bert_keras.tasks.predictor import Predictor

        if self.artifact is None:
            return Predictor.from_checkpoint(self.checkpoint, **changes)
        return Predictor.from_artifact(self.artifact, **self._select_threads(arguments), **changes)

    def _select_threads(self, arguments: argparse.Namespace) -> dict[str, int]:
        """Return the threads and instances that were given; else one instance per core for a file of texts."""
        given = task_options.get_given_options(arguments, "threads", "instances")
        if given or arguments.texts or self.artifact.engine == "tensorflow":  # TensorFlow gains nothing by instances
            return given
        return {"instances": count_cores()}
