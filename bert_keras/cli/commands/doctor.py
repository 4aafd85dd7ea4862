"""Check the installation and this machine, or a folder or file; the exit status is 1 if there is a fault.

The report contains no home folder, user name, host name or token, so you can paste it into an issue. PATH is a
checkpoint, a records folder, an output folder of export or an artifact, backups (.OUT.training), a vocabulary or a data
file; it is checked instead of the installation.
"""

import argparse
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from bert_keras.checks import format_count
from bert_keras.cli.console import print_line, print_result, printable
from bert_keras.cli.options.declaring import Options
from bert_keras.errors import DoctorError, InputError

if TYPE_CHECKING:
    from bert_keras.doctor.findings import Item, Section

_MAX_NAME_WIDTH = 36
_MIN_WIDTH = 60
_FIX = "fix: "


def add_arguments(options: Options) -> None:
    """Declare the arguments of the command."""
    options.add_path("path", "folder or file to check", nargs="?")
    options.add_flag("--no-self-test", "do not train a tiny model; TensorFlow is imported only if the system has a GPU")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    if arguments.path is not None and arguments.no_self_test:
        raise InputError("--no-self-test is for the check without a PATH; leave one of them out")
    _start(arguments)


def _start(arguments: argparse.Namespace) -> None:
    from bert_keras.doctor.examination import examine_environment, examine_path
    from bert_keras.doctor.findings import FAULT, NOTE, count_marks

    if arguments.path is None:
        sections = examine_environment(self_test=not arguments.no_self_test, progress=_print_progress)
    else:
        sections = examine_path(arguments.path)
    num_faults, num_notes = count_marks(sections, FAULT), count_marks(sections, NOTE)
    summary = f"{format_count(num_faults, 'fault')}, {format_count(num_notes, 'note')}"
    result = {
        "num_faults": num_faults,
        "num_notes": num_notes,
        "sections": [{"title": one.title, "items": [vars(item) for item in one.items]} for one in sections],
    }
    print_result([*_format_report(sections, _get_width()), summary], result, as_json=arguments.json)
    if num_faults:
        raise DoctorError(f"found {format_count(num_faults, 'fault')}: see the lines marked {FAULT}")


def _print_progress(text: str) -> None:
    print_line(f"  {text}")


def _get_width() -> int | None:
    """Return the width of the terminal; None: the output is a file or a pipe, where lines are not wrapped."""
    return max(_MIN_WIDTH, shutil.get_terminal_size().columns) if sys.stdout.isatty() else None


def _format_report(sections: Sequence["Section"], width: int | None) -> Iterator[str]:
    """Yield the lines of a report: the title of each section and its items in aligned columns."""
    for section in sections:
        yield printable(section.title)
        widest = _MAX_NAME_WIDTH if width is None else min(_MAX_NAME_WIDTH, width // 3)
        name_width = min(widest, max((len(printable(item.name)) for item in section.items), default=0))
        for item in section.items:
            yield from _format_item(item, name_width, width)
        yield ""


def _format_item(item: "Item", name_width: int, width: int | None) -> Iterator[str]:
    head = f"  {item.mark:<5}  {printable(item.name):<{name_width}}  "
    yield from _wrap(head, printable(item.text), len("  FAULT  ") + name_width + 2, width)
    if item.fix:
        indent = " " * len("  FAULT  ")
        yield from _wrap(f"{indent}{_FIX}", printable(item.fix), len(indent) + len(_FIX), width)


def _wrap(head: str, text: str, indent: int, width: int | None) -> list[str]:
    if width is None:
        return [f"{head}{text}".rstrip()]
    return textwrap.wrap(
        text,
        width,
        initial_indent=head,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [head.rstrip()]
