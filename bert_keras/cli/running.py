"""Parse the command line, run its command, and turn errors into one sentence and an exit status.

Each module in `commands/` declares the arguments of its own command.
"""

import argparse
import importlib
import select
import sys
from collections.abc import Sequence
from typing import NoReturn

from bert_keras import __version__
from bert_keras.cli.console import (
    MAX_MESSAGE_LENGTH,
    escaped_warnings,
    open_closed_streams,
    print_line,
    print_result,
    redirect_to_null,
)
from bert_keras.cli.interrupts import INTERRUPTED, INTERRUPTED_MESSAGE, was_interrupted
from bert_keras.cli.options.declaring import Options
from bert_keras.display.printing import FLAG, LOG_FORMATS, VARIABLE, find_log_format, is_json, log_in_format
from bert_keras.errors import DoctorError, InputError, InterruptedTrainingError, ParityError
from bert_keras.extras import check_backend, check_tensorflow_backend

_COMMANDS_WITHOUT_KERAS = ("learn-vocab", "make-records", "doctor")
_TENSORFLOW_COMMANDS = ("finetune", "distill", "export", "verify", "plan", "demo")
_SUCCESS, _CHECK_FAILED, _RESUMABLE = 0, 1, 75
_UNEXPECTED_ERROR = 1  # the exit status that Python gives it

BAD_INPUT = 2  # the exit status

# Options renamed since the last release, old to new: accepted for one release, absent from --help.
HIDDEN_ALIASES = {
    "--labelled-pieces": "--labelled-tokens",
    "--warmup-rate": "--warmup-ratio",
    "--max-examples-a-row": "--max-examples-per-sequence",
    "--num-slots": "--num-masked",
}


def run_command(commands: Sequence[str], argv: Sequence[str] | None) -> int:
    """Parse the command line, run its command and return the exit status; see `main`."""
    open_closed_streams()
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        log_format = find_log_format(words)
    except InputError as error:
        print_line(f"bert-keras: {error}", max_length=MAX_MESSAGE_LENGTH)
        return BAD_INPUT
    with log_in_format(log_format):
        return _parse_and_run(commands, words)


def _parse_and_run(commands: Sequence[str], words: list[str]) -> int:
    # only the parser of the command that runs: declaring the options of all commands takes 0.15 s
    arguments = make_parser([word for word in words[:1] if word in commands] or commands).parse_args(words)
    arguments.argv = words  # for commands that start worker processes
    with escaped_warnings():
        try:
            status, message = _run(arguments)
        except Exception as error:
            if not is_json():
                raise
            import traceback

            # as one event; in the text format, Python prints the traceback
            text = f"bert-keras {arguments.command}: {type(error).__name__}: {error}"
            values = {"event": "error", "level": "error", "command": arguments.command}
            lines = "".join(traceback.format_exception(error))
            print_line(text, max_length=MAX_MESSAGE_LENGTH, traceback=lines, **values)
            return _UNEXPECTED_ERROR
    if message is not None:
        text = f"bert-keras {arguments.command}: {message}"
        values = {"event": "error", "level": "error", "command": arguments.command, "exit_status": status}
        print_line(text, max_length=MAX_MESSAGE_LENGTH, **values)
    return status


def _run(arguments: argparse.Namespace) -> tuple[int, object]:
    """Run the command; return the exit status and the message to print, None if there is none."""
    try:
        if arguments.command in _TENSORFLOW_COMMANDS:
            check_tensorflow_backend(arguments.command)
        elif arguments.command not in _COMMANDS_WITHOUT_KERAS:
            check_backend()
        run_parsed(arguments)
        sys.stdout.flush()
    except InputError as error:
        return BAD_INPUT, error
    except OSError as error:  # for example a full disk or a folder without write permission
        if isinstance(error, BrokenPipeError) and _is_standard_output_closed():  # `| head -1` has read enough
            return _SUCCESS, None
        try:
            sys.stdout.flush()
        except OSError:  # discard what cannot be written
            redirect_to_null(sys.stdout)
        return BAD_INPUT, f"{error.filename or 'the disk'}: {error.strerror or error}"
    except (ParityError, DoctorError) as error:
        return _CHECK_FAILED, error
    except InterruptedTrainingError as error:
        return _RESUMABLE, error
    except (KeyboardInterrupt, Exception) as error:
        if not was_interrupted(error):
            raise
        return INTERRUPTED, INTERRUPTED_MESSAGE
    return _SUCCESS, None


def run_parsed(arguments: argparse.Namespace) -> None:
    """Run a command and print its result."""
    if (result := arguments.run(arguments)) is not None:
        print_result(*result, as_json=arguments.json)


def _is_standard_output_closed() -> bool:
    """Return whether the reader of standard output has closed it.

    If so, the buffered rest is discarded; otherwise Python would report an error when it exits.
    """
    poll = select.poll()
    poll.register(sys.stdout, 0)  # a closed pipe is reported whatever the event mask
    if not poll.poll(0):
        return False
    redirect_to_null(sys.stdout)
    return True


def make_parser(commands: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = _Parser(
        prog="bert-keras",
        description="Pretrain, fine-tune, evaluate and export BERT. Each command reads and writes folders.",
    )
    parser.add_argument("--version", action="version", version=f"bert-keras {__version__}")
    _add_log_format(parser)
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_CommandParser)
    for command in commands:
        module = importlib.import_module(f"bert_keras.cli.commands.{command.replace('-', '_')}")
        summary = module.__doc__.split("\n")[0]
        command_parser = subparsers.add_parser(
            command,
            help=summary[0].lower() + summary[1:].rstrip("."),
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.add_arguments(Options(command_parser))
        command_parser.add_argument("--json", action="store_true", help="print the result as JSON on standard output")
        _add_log_format(command_parser)
        command_parser.set_defaults(run=module.run)
    return parser


class _Parser(argparse.ArgumentParser):
    """Parser that reports an error in one line; argparse prints the whole usage before it."""

    def error(self, message: str) -> NoReturn:
        """Print the message and exit."""
        text = f"{self.prog}: {message}; see {self.prog} --help"
        values = {"command": self.prog.removeprefix("bert-keras").strip() or None, "exit_status": BAD_INPUT}
        print_line(text, max_length=MAX_MESSAGE_LENGTH, event="error", level="error", **values)
        self.exit(BAD_INPUT)


class _CommandParser(_Parser):
    """Parser of one command: positional arguments and options mix freely, as in `inspect MODEL --out OUT TEXT`."""

    _is_mixing = False

    def parse_known_args(
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Return the parsed arguments and the unknown ones, as `argparse.ArgumentParser` does."""
        if self._is_mixing:  # `parse_known_intermixed_args` calls this method twice
            return super().parse_known_args(args, namespace)
        self._is_mixing = True
        try:
            return self.parse_known_intermixed_args(replace_hidden_aliases(args), namespace)
        finally:
            self._is_mixing = False


def replace_hidden_aliases(args: Sequence[str] | None) -> list[str] | None:
    """Replace the old spellings of options by the new ones, `--old VALUE` and `--old=VALUE` alike.

    Arguments after `--` are not options and stay as they are.
    """
    if args is None:
        return None
    end = args.index("--") if "--" in args else len(args)
    renamed = []
    for arg in args[:end]:
        option, equals, value = arg.partition("=")
        renamed.append(HIDDEN_ALIASES.get(option, option) + equals + value)
    return [*renamed, *args[end:]]


def _add_log_format(parser: argparse.ArgumentParser) -> None:
    """Add `--log-format`; `find_log_format` has read it when the command line is parsed."""
    text = f"standard error as text, or as one JSON object per line (default: {VARIABLE}, or else text)"
    parser.add_argument(FLAG, choices=LOG_FORMATS, help=text)
