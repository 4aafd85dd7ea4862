"""The section "Known conflicts": combinations of packages and settings that are known to fail, each with its fix."""

import dataclasses
import json
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping

from packaging.version import Version

from bert_keras.doctor.findings import Section
from bert_keras.doctor.installed import (
    build_install_command,
    find_unmet_requirements,
    list_required_packages,
    read_version,
)
from bert_keras.errors import InputError
from bert_keras.extras import Processor, check_backend

_TRUE = ("1", "true", "yes", "on")
_TENSORFLOW = ("tensorflow", "tensorflow-text")
_ALTERNATIVES = (  # distributions that install the same files, so that the last one installed overwrites the others
    ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tf-nightly", "tf-nightly-cpu", "tensorflow-rocm"),
    ("tensorflow-text", "tensorflow-text-nightly"),
    ("keras", "keras-nightly"),
    ("keras-hub", "keras-hub-nightly"),
    ("keras-nlp", "keras-nlp-nightly"),
    ("onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino", "onnxruntime-directml", "ort-nightly"),
    ("ai-edge-litert", "ai-edge-litert-nightly"),
)


@dataclasses.dataclass(frozen=True)
class Environment:
    """The environment in which conflicts are looked for.

    Attributes:
        variables: the environment variables.
        keras_settings: the content of `keras.json`.
        processor: the processor.
    """

    variables: Mapping[str, str]
    keras_settings: Mapping[str, object]
    processor: Processor


@dataclasses.dataclass(frozen=True)
class Conflict:
    """A combination that is known to fail.

    Attributes:
        name: its name in the report.
        find_cause: function that returns the cause, or None without a conflict.
        get_fix: function that returns the fix.
    """

    name: str
    find_cause: Callable[[Environment], str | None]
    get_fix: Callable[[], str]


def check_conflicts(environment: Environment) -> Section:
    """Check for known conflicts, and for wrong dependencies of the packages that bert-keras needs."""
    section = Section("Known conflicts")
    for conflict in CONFLICTS:
        if cause := conflict.find_cause(environment):
            section.add_fault(conflict.name, cause, conflict.get_fix())
    for group in _ALTERNATIVES:
        found = [name for name in group if read_version(name) is not None]
        if len(found) > 1:
            fix = f"pip uninstall {' '.join(found)}  and then  {build_install_command(found[0])}"
            section.add_fault(group[0], f"{' and '.join(found)} are installed and overwrite each other's files", fix)
    for name, text, fix in section.attempt("dependencies", lambda: list(_find_wrong_dependencies())) or ():
        section.add_fault(name, text, fix)
    if not section.items:
        section.add_ok("packages, settings", "none of the known conflicts")
    return section


def read_keras_settings(variables: Mapping[str, str] = os.environ) -> dict:
    """Return the content of `keras.json`, as Keras reads it; empty if the file is missing or not JSON."""
    try:
        settings = json.loads(_find_keras_settings(variables).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return settings if isinstance(settings, dict) else {}


def _find_keras_settings(variables: Mapping[str, str] = os.environ) -> pathlib.Path:
    home = variables.get("KERAS_HOME") or os.path.join(os.path.expanduser("~"), ".keras")
    return pathlib.Path(home, "keras.json")


def _find_wrong_dependencies() -> Iterator[tuple[str, str, str]]:
    for name, requirement, version in find_unmet_requirements():
        found = "is missing" if version is None else f"{version} is installed"
        ours = [one for one in (name, requirement.name) if one in list_required_packages()]
        fix = build_install_command(*ours) if ours else f"pip install '{requirement.name}{requirement.specifier}'"
        if requirement.name not in _TENSORFLOW or name not in _TENSORFLOW:  # the table has this pair
            yield requirement.name, f"{name} {read_version(name)} requires {requirement}, and {found}", fix


def _find_broken_text(_: Environment) -> str | None:
    if read_version("tensorflow-text") == Version("2.21.0"):
        return "this release cannot be imported"
    return None


def _find_text_mismatch(_: Environment) -> str | None:
    versions = [read_version(name) for name in _TENSORFLOW]
    if None in versions or versions[0].release[:2] == versions[1].release[:2]:
        return None
    return f"tensorflow {versions[0]} with tensorflow-text {versions[1]}, whose ops match one minor release only"


def _find_old_numpy(_: Environment) -> str | None:
    version = read_version("numpy")
    if version is not None and version.major < 2:
        return f"numpy {version} is installed, and bert-keras is made for numpy 2"
    return None


def _find_old_keras(_: Environment) -> str | None:
    version = read_version("keras")
    if version is not None and version.major < 3:
        return f"keras {version} is installed, and the models of bert-keras are Keras 3 models"
    return None


def _find_legacy_keras(environment: Environment) -> str | None:
    value = environment.variables.get("TF_USE_LEGACY_KERAS", "")
    if value.lower() in _TRUE:
        return f"TF_USE_LEGACY_KERAS is {value!r}: tf.keras is Keras 2 then, whose objects Keras 3 models do not accept"
    return None


def _find_wrong_backend(environment: Environment) -> str | None:
    try:
        check_backend(environment.variables)
    except InputError as error:
        return str(error)
    stored = environment.keras_settings.get("backend", "tensorflow")
    if not environment.variables.get("KERAS_BACKEND") and stored != "tensorflow":
        return f"{_find_keras_settings(environment.variables)} sets the backend to {stored!r}"
    return None


def _find_wrong_floats(environment: Environment) -> str | None:
    stored = environment.keras_settings.get("floatx", "float32")
    if stored != "float32":
        return f"{_find_keras_settings(environment.variables)} sets floatx to {stored!r}, so weights are stored in it"
    return None


def _find_amx(environment: Environment) -> str | None:
    version = read_version("onnxruntime")
    if version is not None and (1, 21) <= version.release[:2] <= (1, 24) and "AMX" in environment.processor.features:
        return f"onnxruntime {version} multiplies 8-bit numbers wrongly on this processor, which has AMX"
    return None


CONFLICTS = (
    Conflict("tensorflow-text 2.21.0", _find_broken_text, lambda: build_install_command("tensorflow-text")),
    Conflict("matching releases", _find_text_mismatch, lambda: build_install_command(*_TENSORFLOW)),
    Conflict("numpy 1", _find_old_numpy, lambda: build_install_command("numpy")),
    Conflict("keras 2", _find_old_keras, lambda: build_install_command("keras")),
    Conflict("Keras 2 in TensorFlow", _find_legacy_keras, lambda: "unset TF_USE_LEGACY_KERAS"),
    Conflict("Keras backend", _find_wrong_backend, lambda: "set KERAS_BACKEND=tensorflow, or correct keras.json"),
    Conflict("Keras floatx", _find_wrong_floats, lambda: 'set "floatx" to "float32" in keras.json'),
    Conflict("onnxruntime and AMX", _find_amx, lambda: build_install_command("onnxruntime")),
)
