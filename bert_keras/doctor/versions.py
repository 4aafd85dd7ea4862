"""The section "Versions": Python, bert-keras, and the packages that it requires, as pip stores `setup.cfg`."""

import contextlib
import functools
import importlib.metadata
import platform
import shlex
from collections.abc import Iterator

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from bert_keras import __version__
from bert_keras.doctor.findings import Section
from bert_keras.errors import InputError

_DEVELOPER_EXTRAS = ("test", "docs")  # one line each: users do not need them
NAME = "bert-keras"
_LOWER_BOUNDS = ("==", "~=", ">", ">=", "===")


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
