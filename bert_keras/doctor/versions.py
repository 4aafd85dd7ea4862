"""The sections "Versions", "Known conflicts" and "Import paths": what fails together, and which files hide others.

The required versions are those of `setup.cfg`, as pip stores them.
"""

import contextlib
import dataclasses
import functools
import importlib.metadata
import json
import os
import pathlib
import platform
import shlex
import site
import sys
from collections.abc import Iterator, Mapping

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from bert_keras import __version__
from bert_keras.checks import format_names
from bert_keras.doctor.findings import Section
from bert_keras.errors import InputError
from bert_keras.extras import Processor, check_backend

_DEVELOPER_EXTRAS = ("test", "docs")  # one line each: users do not need them
NAME = "bert-keras"
_LOWER_BOUNDS = ("==", "~=", ">", ">=", "===")
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


@functools.cache
def read_version(name: str) -> Version | None:
    """Return the version of the installed distribution that Python imports; None: it is not installed."""
    try:
        return Version(importlib.metadata.version(name))
    except (importlib.metadata.PackageNotFoundError, InvalidVersion, TypeError):  # TypeError: metadata without version
        return None


@functools.cache
def _read_requirements(name: str = NAME, extra: str = "") -> tuple[Requirement, ...]:
    """Return the requirements of a distribution on this system: those that an extra adds, or those without any."""
    found = []
    for line in _read_distribution(name).requires or ():
        try:
            requirement = Requirement(line)
        except InvalidRequirement:  # of an old release of another package
            continue
        marker = requirement.marker
        is_base = marker is None or marker.evaluate({"extra": ""})
        if is_base if not extra else not is_base and marker.evaluate({"extra": extra}):
            found.append(requirement)
    return tuple(found)


def _list_extras() -> list[str]:
    """Return the extras of bert-keras in alphabetical order."""
    return sorted(_read_distribution(NAME).metadata.get_all("Provides-Extra") or ())


def list_required_packages() -> list[str]:
    """Return the names of the packages that bert-keras requires, with those of its extras; empty if not installed."""
    return [name for name in _read_all_requirements() if name != NAME]


def find_unmet_requirements() -> Iterator[tuple[str, Requirement, Version | None]]:
    """Yield the package, its requirement and the installed version, where a package has a wrong dependency.

    The packages are all that bert-keras needs, directly or through others. Its own requirements are not among them.
    """
    names = [canonicalize_name(one.name) for one in _read_requirements()]
    for name in names:  # grows meanwhile
        if read_version(name) is None:
            continue
        for requirement in _read_requirements(name):
            version = read_version(requirement.name)
            if version is None or not requirement.specifier.contains(version, prereleases=True):
                yield name, requirement, version
            if (other := canonicalize_name(requirement.name)) not in names:
                names.append(other)


def _format_range(specifier: SpecifierSet) -> str:
    """Format a range of versions with its lower bound first."""
    parts = sorted(specifier, key=lambda one: (one.operator not in _LOWER_BOUNDS, one.operator != "!=", one.version))
    return ",".join(map(str, parts)) or "any version"


def build_install_command(*names: str, extra: str | None = None) -> str:
    """Return the command that installs packages in the supported versions.

    Args:
        *names: packages that bert-keras requires.
        extra: install this extra instead.
    """
    if extra is not None:
        return f"pip install '{NAME}[{extra}]'"
    known = _read_all_requirements()
    words = [f"{name}{_format_range(known[name].specifier)}" if name in known else name for name in names]
    return f"pip install {shlex.join(words)}"


def _read_all_requirements() -> dict[str, Requirement]:
    """Return the first requirement of each package, by its name; empty if bert-keras is not installed."""
    found: dict[str, Requirement] = {}
    with contextlib.suppress(InputError):
        for extra in ["", *_list_extras()]:
            for one in _read_requirements(NAME, extra):
                found.setdefault(canonicalize_name(one.name), one)
    return found


@functools.cache
def _read_distribution(name: str) -> importlib.metadata.Distribution:
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        raise InputError(
            f"{name} is not installed, although its code can be imported; expected an installation: run  "
            f"pip install {name}  or, in a clone,  pip install -e ."
        ) from None


def check_versions() -> Section:
    """Compare the installed versions with the requirements of bert-keras and of its extras."""
    section = Section("Versions (supported ones in parentheses)")
    section.add_ok(NAME, f"{__version__} on {platform.platform()}")
    if read_version(NAME) not in (None, Version(__version__)):
        text = f"the code has version {__version__}, its installed metadata {read_version(NAME)}, so ranges may be old"
        section.add_note(NAME, f"{text}: install it again")
    with section.attempt(NAME):
        requirements = _read_requirements()
        _check_python(section)
        for requirement in requirements:
            _check_required(section, requirement)
        for extra in _list_extras():
            packages = [one for one in _read_requirements(NAME, extra) if one.name != NAME]
            if extra in _DEVELOPER_EXTRAS:
                num_installed = sum(read_version(one.name) is not None for one in packages)
                add = section.add_ok if num_installed == len(packages) else section.add_note
                add(f"[{extra}]", f"{num_installed} of {len(packages)} packages, for work on bert-keras itself")
            else:
                _check_extra(section, extra, packages)
    return section


def _check_python(section: Section) -> None:
    expected = SpecifierSet(_read_distribution(NAME).metadata.get("Requires-Python") or "")
    version = platform.python_version()
    if expected.contains(Version(version.removesuffix("+")), prereleases=True):  # a build from source ends in "+"
        section.add_ok("Python", f"{version}  ({_format_range(expected)})")
    else:
        text = f"{version}  is outside the supported {_format_range(expected)}"
        section.add_fault("Python", text, f"install Python {_format_range(expected)}, and bert-keras in it")


def _check_required(section: Section, requirement: Requirement) -> None:
    name, expected = requirement.name, _format_range(requirement.specifier)
    version = read_version(name)
    if version is None:
        section.add_fault(name, f"missing  ({expected})", build_install_command(name))
    elif requirement.specifier.contains(version, prereleases=True):
        section.add_ok(name, f"{version}  ({expected})")
    else:
        section.add_fault(name, f"{version}  is outside the supported {expected}", build_install_command(name))


def _check_extra(section: Section, extra: str, packages: list[Requirement]) -> None:
    """Check the packages of an extra. A version out of range is a fault only if the whole extra is installed."""
    command = build_install_command(extra=extra)
    is_installed = all(read_version(one.name) is not None for one in packages)
    for requirement in packages:
        name, version = f"[{extra}] {requirement.name}", read_version(requirement.name)
        expected = _format_range(requirement.specifier)
        if version is None:
            section.add_note(name, f"missing: {command}")
        elif requirement.specifier.contains(version, prereleases=True):
            section.add_ok(name, f"{version}  ({expected})")
        elif is_installed:
            section.add_fault(name, f"{version}  is outside the supported {expected}", command)
        else:
            section.add_note(name, f"{version}  is outside the supported {expected}: {command}")


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
