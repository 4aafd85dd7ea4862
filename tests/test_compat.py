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


@pytest.mark.slow  # test_public_apis.py has the same rule
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


def write_one_node(path):
    """Write an ONNX file that returns its input."""
    import onnx

    info = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in ("a", "b")]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["a"], ["b"])], "one", info[:1], info[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)


def list_written(home, importing, model):
    """Return the files that onnxruntime writes to the home folder when it opens a model, in a new process."""
    home.mkdir()
    code = f"{importing}\nonnxruntime.InferenceSession({str(model)!r}, providers=['CPUExecutionProvider'])"
    # without the variables of this process: where CI or GITHUB_ACTIONS is set, onnxruntime collects nothing anyway
    environment = {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache"), "TMPDIR": str(home)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    return [path for path in home.rglob("*") if path.is_file()]


def test_onnxruntime_collects_no_usage_data(tmp_path):
    write_one_node(tmp_path / "one.onnx")
    release = tuple(map(int, importlib.metadata.version("onnxruntime").split(".")[:2]))
    usual = list_written(tmp_path / "usual", "import onnxruntime", tmp_path / "one.onnx")
    assert bool(usual) == (release >= (1, 29) and sys.platform == "linux"), usual  # so it is still needed
    ours = "from bert_keras.compat import import_onnxruntime\nonnxruntime = import_onnxruntime()"
    assert list_written(tmp_path / "ours", ours, tmp_path / "one.onnx") == []
