"""Run a command and turn its errors into one sentence and an exit status."""

import argparse
import select
import sys
from collections.abc import Sequence

from bert_keras.cli.console.interrupts import INTERRUPTED, INTERRUPTED_MESSAGE, was_interrupted
from bert_keras.cli.console.terminal import (
    MAX_MESSAGE_LENGTH,
    escaped_warnings,
    open_closed_streams,
    print_line,
    redirect_to_null,
)
from bert_keras.cli.parsing import BAD_INPUT, make_parser
from bert_keras.display.json_log import find_log_format, is_json, log_in_format
from bert_keras.errors import DoctorError, InputError, InterruptedTrainingError, ParityError
from bert_keras.extras import check_backend, check_tensorflow_backend

_COMMANDS_WITHOUT_KERAS = ("learn-vocab", "make-records", "doctor")
_TENSORFLOW_COMMANDS = ("finetune", "distill", "export", "verify", "plan", "demo")
_SUCCESS, _CHECK_FAILED, _RESUMABLE = 0, 1, 75
_UNEXPECTED_ERROR = 1  # the exit status that Python gives it


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
            _print_traceback(arguments.command, error)
            return _UNEXPECTED_ERROR
    if message is not None:
        text = f"bert-keras {arguments.command}: {message}"
        values = {"event": "error", "level": "error", "command": arguments.command, "exit_status": status}
        print_line(text, max_length=MAX_MESSAGE_LENGTH, **values)
    return status


def _print_traceback(command: str, error: Exception) -> None:
    """Print an error that we did not expect as one event; in the text format, Python prints it."""
    import traceback

    text, lines = f"bert-keras {command}: {type(error).__name__}: {error}", "".join(traceback.format_exception(error))
    print_line(text, max_length=MAX_MESSAGE_LENGTH, event="error", level="error", command=command, traceback=lines)


def _run(arguments: argparse.Namespace) -> tuple[int, object]:
    """Run the command; return the exit status and the message to print, None if there is none."""
    try:
        if arguments.command in _TENSORFLOW_COMMANDS:
            check_tensorflow_backend(arguments.command)
        elif arguments.command not in _COMMANDS_WITHOUT_KERAS:
            check_backend()
        arguments.run(arguments)
        sys.stdout.flush()
    except InputError as error:
        return BAD_INPUT, error
    except OSError as error:  # for example a full disk or a folder without write permission
        if isinstance(error, BrokenPipeError) and _is_standard_output_closed():  # `| head -1` has read enough
            return _SUCCESS, None
        _flush_or_drop_standard_output()
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


def _flush_or_drop_standard_output() -> None:
    """Flush standard output; discard what cannot be written, for example on a full disk."""
    try:
        sys.stdout.flush()
    except OSError:
        redirect_to_null(sys.stdout)
