"""Shipped modules use only public APIs of other packages: no underscore names, no internal modules."""

import ast
import importlib
import inspect
import re

import pytest

from tests.test_project import MODULES, find_imports, parsed

# documented methods of named tuples and os
PUBLIC = {"_replace", "_make", "_asdict", "_fields", "_field_defaults", "_exit"}
INTERNAL = re.compile(
    r"(keras|transformers)\.src\b|tensorflow\.(python|core|compiler|lite\.(python|tools))\b"
    r"|(tensorflow|keras)\S*\.__internal__|onnxruntime\.(capi|quantization\.\w+)"
)
BY_NAME = ("getattr", "setattr", "hasattr", "delattr")
COMPAT = "bert_keras.compat"  # has the internal names that we need, each with its reason


@pytest.fixture(scope="module")
def ours():
    """The syntax tree of each of our modules."""
    return {name: parsed(path) for name, path in MODULES.items()}


def is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__")) and name not in PUBLIC


def find_own_names(tree: ast.AST) -> set[str]:
    """Return the underscore names that a module defines: attributes, fields, functions, classes, globals."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_own(node.value):
            names.add(node.attr)
    return {name for name in names if is_private(name)}


def is_own(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def find_third_party_names(tree: ast.AST, inherited: frozenset[str] | set[str] = frozenset()) -> list[str]:
    """Return underscore names that a module reads or sets on objects that may belong to another package, with lines.

    Args:
        tree: the module.
        inherited: names that `self` can inherit from our other modules.
    """
    own, found = find_own_names(tree), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            if node.attr not in (own | inherited if is_own(node.value) else own):
                found.append(f"line {node.lineno}: {ast.unparse(node)}")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in BY_NAME:
            name = node.args[1]
            if isinstance(name, ast.Constant) and is_private(name.value):
                found.append(f"line {node.lineno}: {ast.unparse(node)}")
    return found


def find_internal_names(tree: ast.AST) -> list[str]:
    """Return internal modules and names that a module imports, or reads through a public module, with lines."""
    found = []
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute):
            names = [ast.unparse(node).replace("tf.", "tensorflow.", 1)]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            names = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
        is_import = isinstance(node, ast.Import | ast.ImportFrom)
        wrong = [
            name for name in names if INTERNAL.match(name) or (is_import and any(map(is_private, name.split("."))))
        ]
        wrong = [name for name in wrong if not name.startswith("bert_keras.")]
        found += [f"line {node.lineno}: {name}" for name in wrong]
    return found


def test_no_underscore_name_of_another_package_is_used(ours):
    wrong, own = {}, {name: find_own_names(tree) for name, tree in ours.items()}
    for name, tree in ours.items():
        inherited = set().union(*(own[module] for module in find_imports(MODULES[name]) if module in own))
        wrong[name] = [] if name == COMPAT else find_third_party_names(tree, inherited)
    assert {name: found for name, found in wrong.items() if found} == {}


def test_only_compat_imports_internal_modules(ours):
    wrong = {name: find_internal_names(tree) for name, tree in ours.items() if name != COMPAT}
    assert {name: found for name, found in wrong.items() if found} == {}


def find_classes(name: str) -> list[type]:
    """Return the classes that a module defines; an empty list if it needs a package that is not installed."""
    try:
        module = importlib.import_module(name)
    except ImportError:
        return []
    return [value for value in vars(module).values() if inspect.isclass(value) and value.__module__ == name]


def find_overridden(class_: type) -> list[str]:
    """Return the private names of third-party base classes that a class overrides."""
    bases = [base for base in class_.__mro__[1:] if not base.__module__.startswith("bert_keras")]
    bases = [base for base in bases if base.__module__.split(".")[0] in ("keras", "tensorflow", "onnx", "tf_keras")]
    return [name for name in vars(class_) if is_private(name) and any(name in vars(base) for base in bases)]


def test_no_private_method_of_another_package_is_overridden(ours):
    with_classes = [name for name, tree in ours.items() if any(isinstance(node, ast.ClassDef) for node in tree.body)]
    wrong = {f"{name}.{one.__name__}": find_overridden(one) for name in with_classes for one in find_classes(name)}
    assert len(wrong) > 100
    assert {name: found for name, found in wrong.items() if found} == {}


@pytest.mark.parametrize(
    "source",
    [
        "model._loss_tracker.update_state(loss)",
        "class Step:\n    def train(self):\n        self._loss_tracker.update_state(loss)",
        "class Log:\n    def write(self):\n        self._writer = make()\n        self._writer._resource",
        "optimizer._all_reduce_sum_gradients = list",
        "getattr(spec, '_value_specs', None)",
        "class Step:\n    def build(self):\n        super()._symbolic_build()",
    ],
)
def test_a_third_party_underscore_name_is_found(source):
    assert len(find_third_party_names(ast.parse(source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "from keras.src.backend import config",
        "import tensorflow.python.framework.ops",
        "from tensorflow.python import keras",
        "from tensorflow.lite.python import schema_py_generated",
        "tf.__internal__.distribute",
        "from onnxruntime.quantization.quant_utils import add_pre_process_metadata",
        "from ai_edge_litert import _pywrap_tensorflow_interpreter_wrapper",
        "importlib.import_module('keras.src.ops')",
    ],
)
def test_an_internal_module_is_found(source):
    assert find_internal_names(ast.parse(source))


def test_an_overridden_private_method_is_found():
    import keras

    class Decays(keras.optimizers.SGD):
        def _apply_weight_decay(self, variables):
            pass

    assert find_overridden(Decays) == ["_apply_weight_decay"]
