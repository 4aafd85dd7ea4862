"""The models of the tests of tasks, and the models and artifacts of the server's tests (a minute to export)."""

from tests.heads.conftest import (
    build,
    minilm,
    predict_from,
    save_task,
    their_model,
    their_pipeline,
    their_tokenizer,
    tokenizer,
    write,
)
from tests.serving.conftest import make_kind, onnx_files, saved_model_folders

__all__ = [
    "build",
    "make_kind",
    "minilm",
    "onnx_files",
    "predict_from",
    "save_task",
    "saved_model_folders",
    "their_model",
    "their_pipeline",
    "their_tokenizer",
    "tokenizer",
    "write",
]
