"""Callbacks that a command line names: found, called with arguments, or refused in one sentence."""

import sys

import keras
import pytest

from bert_keras.errors import InputError
from bert_keras.training.tracking.named_callbacks import CallbackName, make_callback

MODULE = """
import keras

class Named(keras.callbacks.Callback):
    def __init__(self, name="unnamed", every=1, **others):
        super().__init__()
        self.arguments = (name, every, others)

class Outer:
    Inner = Named

def make():
    return Named("made", every=2)

def make_nothing():
    return None

number = 1
"""


@pytest.fixture(autouse=True)
def current_folder(tmp_path, monkeypatch):
    """Current folder with a module of callbacks, which is not on `sys.path`."""
    (tmp_path / "named_callbacks_module.py").write_text(MODULE)
    (tmp_path / "broken_callbacks_module.py").write_text("import no_such_module\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    yield
    sys.modules.pop("named_callbacks_module", None)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("Named", ("unnamed", 1, {})),
        ("make", ("made", 2, {})),
        ("Outer.Inner", ("unnamed", 1, {})),
        ("Named,name=first,every=10", ("first", 10, {})),
        ("Named,name='a, b',rate=0.5,on=true", ("a, b", 1, {"rate": 0.5, "on": True})),
        ("Named,folder=runs/one,every=3", ("unnamed", 3, {"folder": "runs/one"})),
    ],
)
def test_a_class_or_function_of_the_current_folder_is_called_with_its_arguments(text, arguments):
    name = CallbackName.parse(f"named_callbacks_module:{text}")
    name.check_installed()
    callback = make_callback(name)
    assert isinstance(callback, keras.callbacks.Callback)
    assert callback.arguments == arguments


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Named", "'Named' has another form; expected MODULE:NAME"),
        ("module:", "has another form"),
        ("a b:c", "has another form"),
        ("module:Named,every", "has another form"),
        ("module:Named,1=2", "has another form"),
        ("named_callbacks_module:Missing", "named_callbacks_module has no class or function Missing"),
        ("named_callbacks_module:number", "has no class or function number"),
        ("named_callbacks_module:make_nothing", "returned NoneType; expected a keras.callbacks.Callback"),
        ("named_callbacks_module:make,every=2", r"it cannot be created \(TypeError: .*every"),
        ("broken_callbacks_module:Named", r"importing broken_callbacks_module failed \(ModuleNotFoundError: .*no_such"),
        ("named_callbacks_module.inner:Named", "importing named_callbacks_module.inner failed"),
    ],
)
def test_other_names_are_refused_with_the_reason(text, message):
    with pytest.raises(InputError, match=message):
        make_callback(CallbackName.parse(text))


def test_a_missing_package_is_found_without_importing_it():
    with pytest.raises(InputError, match="there is no module no_such_package; expected an installed package"):
        CallbackName.parse("no_such_package.module:Name").check_installed()
    CallbackName.parse("broken_callbacks_module:Name").check_installed()
