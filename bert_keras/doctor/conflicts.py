"""The sections "Known conflicts" and "Import paths": what is known to fail together, and which files hide others."""

import contextlib
import dataclasses
import importlib.metadata
import json
import os
import pathlib
import site
import sys
from collections.abc import Iterator, Mapping

from packaging.version import Version

from bert_keras.checks import format_names
from bert_keras.doctor.findings import Section
from bert_keras.doctor.versions import (
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
_IMPORT_NAMES = {"scikit-learn": "sklearn", "apache-beam": "apache_beam"}  # where they differ from the name on PyPI
_PACKAGE = pathlib.Path(__file__).parents[1]  # bert_keras
# parts of Python that programs do not import
_HARMLESS = ("test", "this", "antigravity", "idlelib", "turtledemo", "lib2to3")


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


def check_conflicts(environment: Environment) -> Section:
    """Check for known conflicts, and for wrong dependencies of the packages that bert-keras needs."""
    section = Section("Known conflicts")
    for name, cause, fix in [*_find_wrong_packages(environment.processor), *_find_wrong_settings(environment)]:
        section.add_fault(name, cause, fix)
    for group in _ALTERNATIVES:
        found = [name for name in group if read_version(name) is not None]
        if len(found) > 1:
            fix = f"pip uninstall {' '.join(found)}  and then  {build_install_command(found[0])}"
            section.add_fault(group[0], f"{' and '.join(found)} are installed and overwrite each other's files", fix)
    with section.attempt("dependencies"):
        for name, text, fix in _find_wrong_dependencies():
            section.add_fault(name, text, fix)
    if not section.items:
        section.add_ok("packages, settings", "none of the known conflicts")
    return section


def _find_wrong_packages(processor: Processor) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the cause and the fix of known conflicts of packages with each other and with the processor."""
    tensorflow, text = (read_version(name) for name in _TENSORFLOW)
    if text == Version("2.21.0"):
        yield "tensorflow-text 2.21.0", "this release cannot be imported", build_install_command("tensorflow-text")
    if None not in (tensorflow, text) and tensorflow.release[:2] != text.release[:2]:
        cause = f"tensorflow {tensorflow} with tensorflow-text {text}, whose ops match one minor release only"
        yield "matching releases", cause, build_install_command(*_TENSORFLOW)
    if (numpy := read_version("numpy")) is not None and numpy.major < 2:
        cause = f"numpy {numpy} is installed, and bert-keras is made for numpy 2"
        yield "numpy 1", cause, build_install_command("numpy")
    if (keras := read_version("keras")) is not None and keras.major < 3:
        cause = f"keras {keras} is installed, and the models of bert-keras are Keras 3 models"
        yield "keras 2", cause, build_install_command("keras")
    runtime = read_version("onnxruntime")
    if runtime is not None and (1, 21) <= runtime.release[:2] <= (1, 24) and "AMX" in processor.features:
        cause = f"onnxruntime {runtime} multiplies 8-bit numbers wrongly on this processor, which has AMX"
        yield "onnxruntime and AMX", cause, build_install_command("onnxruntime")


def _find_wrong_settings(environment: Environment) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the cause and the fix of settings with which the models do not work."""
    variables, stored = environment.variables, environment.keras_settings
    file = _find_keras_settings(variables)
    legacy = variables.get("TF_USE_LEGACY_KERAS", "")
    if legacy.lower() in _TRUE:
        cause = (
            f"TF_USE_LEGACY_KERAS is {legacy!r}: tf.keras is Keras 2 then, whose objects Keras 3 models do not accept"
        )
        yield "Keras 2 in TensorFlow", cause, "unset TF_USE_LEGACY_KERAS"
    backend, fix = stored.get("backend", "tensorflow"), "set KERAS_BACKEND=tensorflow, or correct keras.json"
    try:
        check_backend(variables)
    except InputError as error:
        yield "Keras backend", str(error), fix
    else:
        if not variables.get("KERAS_BACKEND") and backend != "tensorflow":
            yield "Keras backend", f"{file} sets the backend to {backend!r}", fix
    if (floats := stored.get("floatx", "float32")) != "float32":
        cause = f"{file} sets floatx to {floats!r}, so weights are stored in it"
        yield "Keras floatx", cause, 'set "floatx" to "float32" in keras.json'


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


def check_import_paths(folder: pathlib.Path | None = None, variables: Mapping[str, str] = os.environ) -> Section:
    """Check the current folder and the search path of Python.

    Args:
        folder: the current folder.
        variables: the environment variables.
    """
    folder = pathlib.Path.cwd() if folder is None else folder
    section = Section("Import paths")
    kind = "virtual environment" if sys.prefix != sys.base_prefix else "no virtual environment"
    users = ", user packages are used" if site.ENABLE_USER_SITE else ""
    section.add_ok("environment", f"{sys.prefix} ({kind}{users})")
    if entries := variables.get("PYTHONPATH"):
        section.add_note("PYTHONPATH", entries)
    _check_hidden(section, folder)
    _check_versions(section, variables)
    return section


def _check_hidden(section: Section, folder: pathlib.Path) -> None:
    """Find modules in a folder that Python imports instead of a package, in programs that are started there."""
    packages = {_IMPORT_NAMES.get(name, name.replace("-", "_")) for name in list_required_packages()}
    for path in _list_modules(folder):
        name = path.stem
        is_other = name == "bert_keras" and not _is_same(path, _PACKAGE)
        if name in packages or is_other:
            shown = f"{path.name}/" if os.path.isdir(path) else path.name
            section.add_fault(
                shown,
                f"in the current folder, hides the package {name} from Python programs started here",
                "start them in another folder, or, in a clone, run  pip install -e ."
                if is_other
                else f"rename {shown}, or start Python in another folder",
            )
        elif os.path.isfile(path) and name in sys.stdlib_module_names and name not in _HARMLESS:
            section.add_note(
                path.name, f"in the current folder, hides Python's own {name} in programs started here: rename it"
            )


def _list_modules(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yield the modules and packages in a folder. A folder without `__init__.py` hides no installed package.

    Before Python 3.14 `Path.is_file` raises PermissionError in a private folder of another user; `os.path.isfile`
    returns False.
    """
    with contextlib.suppress(OSError):
        for path in sorted(folder.iterdir()):
            is_package = path.name.isidentifier() and os.path.isfile(path / "__init__.py")
            if is_package or (path.suffix == ".py" and os.path.isfile(path)):
                yield path


def _is_same(one: pathlib.Path, other: pathlib.Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _check_versions(section: Section, variables: Mapping[str, str]) -> None:
    """Find packages of which Python sees two versions; mixing them is a fault unless both are the system's."""
    users = [entry for entry in variables.get("PYTHONPATH", "").split(os.pathsep) if entry]
    users += [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    hidden: dict[tuple[str, bool], list[str]] = {}
    for name in list_required_packages():
        found = list(importlib.metadata.distributions(name=name))  # in the order of the search path
        used = found[0] if found else None
        other = next((one for one in found[1:] if one.version != used.version), None)
        if other is not None:
            place = str(used.locate_file(""))
            is_mixed = any(os.path.realpath(place) == os.path.realpath(entry) for entry in users)
            text = f"{name} {used.version} instead of {other.version}"
            hidden.setdefault((place, is_mixed), []).append(text)
    for (place, is_mixed), texts in hidden.items():
        text = f"{place} hides other versions: {format_names(texts, most=4)}"
        fix = "unset PYTHONPATH, or set PYTHONNOUSERSITE=1; best, use a new virtual environment"
        section.add_fault("two versions", text, fix) if is_mixed else section.add_note("two versions", text)
