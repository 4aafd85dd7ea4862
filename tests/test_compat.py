"""Internal names of other libraries exist and work; a missing one is reported."""

import ast
import dataclasses
import importlib.metadata
import os
import pathlib
import subprocess
import sys

import pytest
import tensorflow as tf

from bert_keras import compat
from bert_keras.compat import INTERNAL_NAMES

ROOT = pathlib.Path(compat.__file__).parents[1]
PUBLIC_MODULES = {  # in addition to the top-level modules
    "tensorflow": (),
    "keras": (),
    "onnxruntime": ("onnxruntime.quantization",),
    "ai_edge_litert": ("ai_edge_litert.interpreter",),
    "tf2onnx": (),
}


def test_the_tflite_schema_reads_and_writes_a_file():
    schema = compat.TFLITE_SCHEMA.get()
    function = tf.function(lambda x: tf.nn.relu(x), input_signature=[tf.TensorSpec([1, 3])])
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function()])
    file = schema.Model.GetRootAs(converter.convert(), 0)
    assert file.OperatorCodes(0).BuiltinCode() == schema.BuiltinOperator.RELU
    assert file.Subgraphs(0).Tensors(0).Type() == schema.TensorType.FLOAT32
    copied = schema.ModelT.InitFromObj(file)
    assert len(copied.buffers) == file.BuffersLength()
    assert schema.BufferT(data=[1]).data == [1]
    assert schema.MetadataT(name="name", buffer=1).buffer == 1


def test_the_converter_raises_its_error_for_an_unsupported_operator():
    function = tf.function(lambda x: tf.strings.upper(x), input_signature=[tf.TensorSpec([1], tf.string)])
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function()])
    with pytest.raises(compat.TFLITE_CONVERTER_ERROR.get(), match="StringUpper"):
        converter.convert()


@pytest.mark.parametrize("name", INTERNAL_NAMES, ids=str)
def test_every_entry_exists_and_has_a_reason(name):
    assert name.get() is not None  # a missing name raises ImportError
    assert len(name.reason) > 40


@pytest.mark.parametrize(
    "gone", [{"module": "tensorflow.lite.python.nowhere"}, {"module": "tensorflow", "attribute": "Nothing"}]
)
def test_a_missing_name_is_reported_with_its_library_and_both_releases(gone, monkeypatch):
    name = dataclasses.replace(compat.TFLITE_CONVERTER_ERROR, last_seen="2.21.0", **gone)
    monkeypatch.setattr(importlib.metadata, "version", lambda library: {"tensorflow": "2.99.1"}[library])
    with pytest.raises(ImportError, match=rf"^tensorflow 2.99.1 has no {name}, .* last seen in tensorflow 2.21.0: "):
        name.get()


def test_no_other_module_imports_internal_names():
    files = [path for folder in ("bert_keras", "pipelines", "export") for path in sorted((ROOT / folder).rglob("*.py"))]
    assert len(files) > 150
    wrong = [f"{path.relative_to(ROOT)}: {name}" for path in files for name in find_imports(path) if is_internal(name)]
    assert wrong == []


def test_internal_modules_are_recognized():
    assert is_internal("tensorflow.core.framework")
    assert is_internal("tensorflow.python.framework")
    assert is_internal("keras.src.layers")
    assert is_internal("ai_edge_litert.schema_py_generated")
    assert is_internal("onnxruntime.quantization.quant_utils")
    assert not is_internal("tensorflow")
    assert not is_internal("numpy.core")


def find_imports(path: pathlib.Path) -> list[str]:
    """Return the modules that a file imports, including inside its functions."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    plain = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    return [*plain, *(node.module for node in nodes if isinstance(node, ast.ImportFrom))]


def is_internal(module: str) -> bool:
    """Whether a module of one of these libraries is not public."""
    library = module.split(".")[0]
    return library in PUBLIC_MODULES and module not in (library, *PUBLIC_MODULES[library])


def list_openvino_modules(code):
    """Return the imported modules of openvino and of its telemetry after `code`, in a new process."""
    code += "\nprint(sorted({name.split('.')[0] for name in sys.modules if 'openvino' in name}))"
    environment = {**os.environ, "CI": "true"}  # where its telemetry sends nothing
    run = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}"], capture_output=True, env=environment, check=True
    )
    return ast.literal_eval(run.stdout.decode())


def test_openvino_is_imported_without_its_telemetry():
    assert list_openvino_modules("import openvino") == ["openvino", "openvino_telemetry"]  # so it is still needed
    hidden = "from bert_keras.compat import import_openvino\nimport_openvino().Core()"
    assert list_openvino_modules(hidden) == ["openvino"]
    assert list_openvino_modules(f"{hidden}\nimport openvino_telemetry") == ["openvino", "openvino_telemetry"]
