"""The section "Versions": Python, bert-keras, and the packages that it requires."""

import platform

from packaging.requirements import Requirement
from packaging.version import Version

from bert_keras import __version__
from bert_keras.doctor.findings import Section
from bert_keras.doctor.installed import (
    NAME,
    build_install_command,
    format_range,
    is_supported,
    list_extras,
    read_python_range,
    read_requirements,
    read_version,
)

_DEVELOPER_EXTRAS = ("test", "docs")  # one line each: users do not need them


def check_versions() -> Section:
    """Compare the installed versions with the requirements of bert-keras and of its extras."""
    section = Section("Versions (supported ones in parentheses)")
    section.add_ok(NAME, f"{__version__} on {platform.platform()}")
    if read_version(NAME) not in (None, Version(__version__)):
        text = f"the code has version {__version__}, its installed metadata {read_version(NAME)}, so ranges may be old"
        section.add_note(NAME, f"{text}: install it again")
    if section.attempt(NAME, read_requirements) is None:
        return section
    _check_python(section)
    for requirement in read_requirements():
        _check_required(section, requirement)
    for extra in list_extras():
        packages = [one for one in read_requirements(NAME, extra) if one.name != NAME]
        if extra in _DEVELOPER_EXTRAS:
            _count_packages(section, extra, packages)
        else:
            _check_extra(section, extra, packages)
    return section


def _check_python(section: Section) -> None:
    expected, version = read_python_range(), platform.python_version()
    if is_supported(Version(version.removesuffix("+")), expected):  # a build from source ends in "+"
        section.add_ok("Python", f"{version}  ({format_range(expected)})")
    else:
        text = f"{version}  is outside the supported {format_range(expected)}"
        section.add_fault("Python", text, f"install Python {format_range(expected)}, and bert-keras in it")


def _check_required(section: Section, requirement: Requirement) -> None:
    name, expected = requirement.name, format_range(requirement.specifier)
    version = read_version(name)
    if version is None:
        section.add_fault(name, f"missing  ({expected})", build_install_command(name))
    elif is_supported(version, requirement.specifier):
        section.add_ok(name, f"{version}  ({expected})")
    else:
        section.add_fault(name, f"{version}  is outside the supported {expected}", build_install_command(name))


def _check_extra(section: Section, extra: str, packages: list[Requirement]) -> None:
    """Check the packages of an extra. A version out of range is a fault only if the whole extra is installed."""
    command = build_install_command(extra=extra)
    is_installed = all(read_version(one.name) is not None for one in packages)
    for requirement in packages:
        name, version = f"[{extra}] {requirement.name}", read_version(requirement.name)
        expected = format_range(requirement.specifier)
        if version is None:
            section.add_note(name, f"missing: {command}")
        elif is_supported(version, requirement.specifier):
            section.add_ok(name, f"{version}  ({expected})")
        elif is_installed:
            section.add_fault(name, f"{version}  is outside the supported {expected}", command)
        else:
            section.add_note(name, f"{version}  is outside the supported {expected}: {command}")


def _count_packages(section: Section, extra: str, packages: list[Requirement]) -> None:
    num_installed = sum(read_version(one.name) is not None for one in packages)
    add = section.add_ok if num_installed == len(packages) else section.add_note
    add(f"[{extra}]", f"{num_installed} of {len(packages)} packages, for work on bert-keras itself")
