"""The models and artifacts of the server's tests, which take a minute to export."""

from tests.serving.conftest import make_kind, onnx_files, saved_model_folders

__all__ = ["make_kind", "onnx_files", "saved_model_folders"]
