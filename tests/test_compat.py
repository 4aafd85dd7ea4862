"""Internal names of other libraries: each is there and works, and one that is gone is told by its name."""

import ast
import dataclasses
import importlib.metadata
import pathlib

import pytest
import tensorflow as tf

from bert_keras import compat
from bert_keras.compat import INTERNAL_NAMES

ROOT = pathlib.Path(compat.__file__).parents[1]
PUBLIC_MODULES = {  # beside the libraries themselves, on which all else that is public hangs
    "tensorflow": (),
    "keras": (),
    "onnxruntime": ("onnxruntime.quantization",),
    "ai_edge_litert": ("ai_edge_litert.interpreter",),
    "tf2onnx": (),
}


def test_tflites_schema_reads_and_writes_a_file():
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


def test_the_converter_raises_its_error_where_tflite_has_no_operator():
    function = tf.function(lambda x: tf.strings.upper(x), input_signature=[tf.TensorSpec([1], tf.string)])
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function()])
    with pytest.raises(compat.TFLITE_CONVERTER_ERROR.get(), match="StringUpper"):
        converter.convert()


@pytest.mark.parametrize("name", INTERNAL_NAMES, ids=str)
def test_every_entry_is_there_and_has_its_reason(name):
    assert name.get() is not None  # one that is gone raises, with its library and the installed release
    assert len(name.reason) > 40


@pytest.mark.parametrize(
    "gone", [{"module": "tensorflow.lite.python.nowhere"}, {"module": "tensorflow", "attribute": "Nothing"}]
)
def test_a_name_that_is_gone_is_told_with_its_library_and_both_releases(gone, monkeypatch):
    name = dataclasses.replace(compat.TFLITE_CONVERTER_ERROR, last_seen="2.21.0", **gone)
    monkeypatch.setattr(importlib.metadata, "version", lambda library: {"tensorflow": "2.99.1"}[library])
    with pytest.raises(ImportError, match=rf"^tensorflow 2.99.1 has no {name}, .* last seen in tensorflow 2.21.0: "):
        name.get()


def test_no_other_module_imports_what_is_internal():
    files = [path for folder in ("bert_keras", "pipelines", "export") for path in sorted((ROOT / folder).rglob("*.py"))]
    assert len(files) > 150
    wrong = [f"{path.relative_to(ROOT)}: {name}" for path in files for name in imports_of(path) if is_internal(name)]
    assert wrong == []


def test_the_rule_sees_what_is_internal():
    assert is_internal("tensorflow.core.framework")
    assert is_internal("tensorflow.python.framework")
    assert is_internal("keras.src.layers")
    assert is_internal("ai_edge_litert.schema_py_generated")
    assert is_internal("onnxruntime.quantization.quant_utils")
    assert not is_internal("tensorflow")
    assert not is_internal("numpy.core")


def imports_of(path: pathlib.Path) -> list[str]:
    """Returns the modules that a file imports, also inside its functions."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    plain = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    return [*plain, *(node.module for node in nodes if isinstance(node, ast.ImportFrom))]


def is_internal(module: str) -> bool:
    """Returns whether a module of a library that we know is not one of its public ones."""
    library = module.split(".")[0]
    return library in PUBLIC_MODULES and module not in (library, *PUBLIC_MODULES[library])
