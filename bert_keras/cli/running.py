"""Runs a command, and turns its errors into one sentence and an exit status."""

import argparse
import select
import sys
from collections.abc import Sequence

from bert_keras.cli.console.interrupts import INTERRUPTED, WHAT_IS_LEFT, was_interrupted
from bert_keras.cli.console.terminal import (
    MOST_CHARACTERS,
    escaped_warnings,
    open_closed_streams,
    print_line,
    send_nowhere,
)
from bert_keras.cli.parsing import BAD_INPUT, make_parser
from bert_keras.errors import InputError, InterruptedTrainingError, ParityError
from bert_keras.extras import check_backend, check_tensorflow_backend

_WITHOUT_KERAS = ("learn-vocab", "make-records")
_TENSORFLOW_ONLY = ("finetune", "export", "verify", "plan", "demo")
_DONE, _FAILED, _TRY_AGAIN = 0, 1, 75


def run_command(verbs: Sequence[str], argv: Sequence[str] | None) -> int:
    """Run one of the commands and return its exit status; see `main`."""
    open_closed_streams()
    arguments = make_parser(verbs).parse_args(argv)
    arguments.words = list(sys.argv[1:] if argv is None else argv)  # for verbs that start themselves again
    with escaped_warnings():
        return _run(arguments)


def _run(arguments: argparse.Namespace) -> int:
    try:
        if arguments.command in _TENSORFLOW_ONLY:
            check_tensorflow_backend(arguments.command)
        elif arguments.command not in _WITHOUT_KERAS:
            check_backend()
        arguments.run(arguments)
        sys.stdout.flush()
    except InputError as error:
        return _say(arguments.command, error, BAD_INPUT)
    except OSError as error:  # a full disk, a folder that may not be written
        if isinstance(error, BrokenPipeError) and _is_standard_output_closed():  # `| head -1` has what it wanted
            return _DONE
        _drop_what_cannot_be_written()
        return _say(arguments.command, f"{error.filename or 'the disk'}: {error.strerror or error}", BAD_INPUT)
    except ParityError as error:
        return _say(arguments.command, error, _FAILED)
    except InterruptedTrainingError as error:
        return _say(arguments.command, error, _TRY_AGAIN)
    except (KeyboardInterrupt, Exception) as error:
        if not was_interrupted(error):
            raise
        return _say(arguments.command, WHAT_IS_LEFT, INTERRUPTED)
    return _DONE


def _say(verb: str, message: object, status: int) -> int:
    print_line(f"bert-keras {verb}: {message}", most=MOST_CHARACTERS)
    return status


def _is_standard_output_closed() -> bool:
    """Whether nobody reads standard output any more; what is left goes nowhere then, lest Python fail at its end."""
    poll = select.poll()
    poll.register(sys.stdout, 0)  # a closed end is told whatever is asked for
    if not poll.poll(0):
        return False
    send_nowhere(sys.stdout)
    return True


def _drop_what_cannot_be_written() -> None:
    """Empty the buffer of standard output, or drop it where that fails, such as on a full disk."""
    try:
        sys.stdout.flush()
    except OSError:
        send_nowhere(sys.stdout)
