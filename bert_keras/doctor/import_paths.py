"""The section "Import paths": files that hide a package, and packages that come from two places."""

import importlib.metadata
import os
import pathlib
import site
import sys
from collections.abc import Iterator, Mapping

from bert_keras.checks import format_names
from bert_keras.doctor.findings import Section
from bert_keras.doctor.installed import list_required_packages

_IMPORT_NAMES = {"scikit-learn": "sklearn", "apache-beam": "apache_beam"}  # where they differ from the name on PyPI
_PACKAGE = pathlib.Path(__file__).parents[1]  # bert_keras
# parts of Python that programs do not import
_HARMLESS = ("test", "this", "antigravity", "idlelib", "turtledemo", "lib2to3")


def check_import_paths(folder: pathlib.Path | None = None, variables: Mapping[str, str] = os.environ) -> Section:
    """Check the current folder and the search path of Python.

    Args:
        folder: the current folder.
        variables: the environment variables.
    """
    folder = pathlib.Path.cwd() if folder is None else folder
    section = Section("Import paths")
    section.add_ok("environment", _describe_environment())
    if entries := variables.get("PYTHONPATH"):
        section.add_note("PYTHONPATH", entries)
    _check_hidden(section, folder)
    _check_versions(section, variables)
    return section


def _describe_environment() -> str:
    kind = "virtual environment" if sys.prefix != sys.base_prefix else "no virtual environment"
    return f"{sys.prefix} ({kind}{', user packages are used' if site.ENABLE_USER_SITE else ''})"


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
    """Yield the modules and packages in a folder. A folder without `__init__.py` hides no installed package."""
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return
    yield from (path for path in entries if _is_module(path))


def _is_module(path: pathlib.Path) -> bool:
    """Whether Python imports a path by its name; False for a private folder of another user.

    Before Python 3.14 `Path.is_file` raises PermissionError in such a folder; `os.path.isfile` returns False.
    """
    if os.path.isfile(path):
        return path.suffix == ".py"
    return path.name.isidentifier() and os.path.isfile(path / "__init__.py")


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
