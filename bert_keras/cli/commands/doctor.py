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
    from bert_keras.doctor.findings import Section

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
    from bert_keras.doctor.examination import examine_environment, examine_path
    from bert_keras.doctor.findings import FAULT, NOTE, count_marks

    if arguments.path is None:
        self_test = not arguments.no_self_test
        sections = examine_environment(self_test=self_test, progress=lambda text: print_line(f"  {text}"))
    else:
        sections = examine_path(arguments.path)
    num_faults, num_notes = count_marks(sections, FAULT), count_marks(sections, NOTE)
    summary = f"{format_count(num_faults, 'fault')}, {format_count(num_notes, 'note')}"
    result = {
        "num_faults": num_faults,
        "num_notes": num_notes,
        "sections": [{"title": one.title, "items": [vars(item) for item in one.items]} for one in sections],
    }
    # lines are wrapped in terminals, but not in files and pipes
    width = max(_MIN_WIDTH, shutil.get_terminal_size().columns) if sys.stdout.isatty() else None
    print_result([*_format_report(sections, width), summary], result, as_json=arguments.json)
    if num_faults:
        raise DoctorError(f"found {format_count(num_faults, 'fault')}: see the lines marked {FAULT}")


def _format_report(sections: Sequence["Section"], width: int | None) -> Iterator[str]:
    """Yield the lines of a report: the title of each section and its items in aligned columns."""
    margin = len("  FAULT  ")
    for section in sections:
        yield printable(section.title)
        widest = _MAX_NAME_WIDTH if width is None else min(_MAX_NAME_WIDTH, width // 3)
        name_width = min(widest, max((len(printable(item.name)) for item in section.items), default=0))
        for item in section.items:
            head = f"  {item.mark:<5}  {printable(item.name):<{name_width}}  "
            yield from _wrap(head, printable(item.text), margin + name_width + 2, width)
            if item.fix:
                yield from _wrap(f"{' ' * margin}{_FIX}", printable(item.fix), margin + len(_FIX), width)
        yield ""


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
