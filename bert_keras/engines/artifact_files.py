"""Find the file of an artifact that an engine can run, and read what its folder states about the model.

Without TensorFlow, so that onnxruntime and OpenVINO run in programs that do not have it.
"""

import dataclasses
import importlib
import os
import pathlib

from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.huggingface.huggingface_folder import read_description
from bert_keras.checkpoints.vocabulary_file import open_tokenizer
from bert_keras.checks import check_integer, quote
from bert_keras.embedding_settings import transformer_folder
from bert_keras.engines.engine import Engine
from bert_keras.errors import InputError
from bert_keras.heads.known_heads import HEADS, get_head, list_model_names

DESCRIPTION = "assets.extra/model"  # in a SavedModel: the folder with config.json and the tokenizer
_SAVED_MODEL = "saved_model.pb"
_WEIGHTS = ("*.safetensors", "*/*.safetensors", "*.weights.h5", "*.ckpt*.index")  # of every kind of checkpoint folder
_ENGINES = {  # engine: its module and class, in the order of preference
    "onnxruntime": ("onnxruntime_engine", "OnnxruntimeEngine"),
    "openvino": ("openvino_engine", "OpenvinoEngine"),
    "tensorflow": ("saved_model_engine", "SavedModelEngine"),
}
ENGINES = tuple(_ENGINES)


@dataclasses.dataclass(frozen=True)
class Artifact:
    """An artifact and the engine that runs it.

    Attributes:
        engine: one of `ENGINES`.
        path: an ONNX file, or the folder of a SavedModel.
        description: the model, its task and its tokenizer, without weights.
    """

    engine: str
    path: pathlib.Path
    description: Checkpoint

    def open(self, *, threads: int | None = None, instances: int = 1) -> Engine:
        """Load the artifact.

        Args:
            threads: number of threads per instance; None: one per core, divided by the instances.
            instances: number of batches that run at the same time.

        Raises:
            InputError: the artifact is damaged or of another model, or a number is not a positive integer.
            MissingExtraError: the engine is not installed.
        """
        if threads is not None:
            check_integer("threads", threads)
        check_integer("instances", instances)
        module, name = _ENGINES[self.engine]
        engine = getattr(importlib.import_module(f"bert_keras.engines.{module}"), name)
        opened = engine(self.path, get_head(self.description.model).outputs, threads=threads, instances=instances)
        opened.max_length = self.description.config.max_sequence_length
        return opened


def find_artifact(path: str | os.PathLike, engine: str | None = None) -> Artifact:
    """Find the artifact that an engine can run, at a path or below it.

    Args:
        path: an output folder of `export`, its `onnx/` or `saved_model/`, a version of a SavedModel, an ONNX file in a
            model folder, or any Hugging Face folder with an ONNX file.
        engine: one of `ENGINES`; None: onnxruntime if there is an ONNX file, otherwise tensorflow.

    Raises:
        InputError: there is no such engine or artifact, or the folder does not describe a model with a task.
    """
    path = pathlib.Path(path)
    if engine is not None and engine not in _ENGINES:
        raise InputError(f"the engine is {quote(engine)}; expected one of {', '.join(ENGINES)}")
    if not path.exists():
        raise InputError(f"{path} does not exist; expected an artifact, or a folder that export wrote: check the path")
    onnx, saved_model = _find_onnx(path), _find_saved_model(path)
    if onnx is None and saved_model is None and _has_tflite(path):
        raise InputError(
            f"{path} is a TFLite model, which no engine runs; expected an .onnx file or a SavedModel: export one too"
        )
    if engine is None:
        engine = "onnxruntime" if onnx is not None or saved_model is None else "tensorflow"
    file = saved_model if engine == "tensorflow" else onnx
    if file is None:
        kind = _SAVED_MODEL if engine == "tensorflow" else "an .onnx file"
        found = _SAVED_MODEL if saved_model is not None else "an .onnx file" if onnx is not None else "no artifact"
        raise InputError(f"{path} has {found}; the engine {engine} needs {kind}: export it, or choose another engine")
    return Artifact(engine, file, _read_description(file, engine))


def is_artifact(path: pathlib.Path) -> bool:
    """Whether a path is an artifact or a folder of artifacts, and not a checkpoint folder, which has weights."""
    if any(file for pattern in _WEIGHTS for file in path.glob(pattern)):
        return False
    return _find_onnx(path) is not None or _find_saved_model(path) is not None or _has_tflite(path)


def find_model_folder(file: pathlib.Path) -> pathlib.Path | None:
    """Return the folder with the `config.json` of an ONNX file: its own or the one above; None: neither has one."""
    return next((place for place in (file.parent, file.parent.parent) if (place / "config.json").is_file()), None)


def _find_onnx(path: pathlib.Path) -> pathlib.Path | None:
    """Return the ONNX file at a path or in the places where export and optimum write the float32 file."""
    if path.is_file():
        return path if path.suffix == ".onnx" else None
    places = ("model.onnx", "onnx/model.onnx", "onnx/onnx/model.onnx")
    return next((path / place for place in places if (path / place).is_file()), None)


def _find_saved_model(path: pathlib.Path) -> pathlib.Path | None:
    """Return the SavedModel at a path, or the newest version below it."""
    if (path / _SAVED_MODEL).is_file():
        return path
    versions = [file.parent for pattern in ("*", "saved_model/*") for file in path.glob(f"{pattern}/{_SAVED_MODEL}")]
    numbered = [version for version in versions if version.name.isdecimal()]
    return max(numbered, key=lambda version: int(version.name), default=None)


def _has_tflite(path: pathlib.Path) -> bool:
    """Whether a path is a TFLite file or a folder with one."""
    return path.suffix == ".tflite" or any(path.glob("*.tflite")) or any(path.glob("tflite/*.tflite"))


def _read_description(file: pathlib.Path, engine: str) -> Checkpoint:
    """Read the description of the model in the folder of an artifact."""
    if engine == "tensorflow":
        folder = file / DESCRIPTION
        if not (folder / "config.json").is_file():
            raise InputError(f"{file} has no {DESCRIPTION}/config.json, which describes its task: export it again")
    else:
        folder = find_model_folder(file)
        if folder is None:
            raise InputError(
                f"{file} has no config.json next to it or in the folder above; expected the whole folder that export "
                "wrote: copy it again"
            )
    description = read_description(folder)
    description.read_tokenizer = open_tokenizer(transformer_folder(folder), description.config.vocabulary_size)
    if not get_head(description.model).outputs:
        names = list_model_names([head for head in HEADS if head.outputs])
        raise InputError(
            f"{folder} describes a {description.model}, which has no task head; expected one of {names}: fine-tune it "
            "first, or use bert-keras fill-mask with its checkpoint"
        )
    return description
