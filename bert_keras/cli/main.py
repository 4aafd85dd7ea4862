"""`bert-keras VERB ...`: finds the verb, runs it, and turns errors into one sentence and an exit status."""

import argparse
import importlib
import os
import select
import sys
from collections.abc import Sequence
from typing import NoReturn

from bert_keras import __version__
from bert_keras.errors import InputError, InterruptedTrainingError, VerdictError

VERBS = (
    "demo",
    "learn-vocab",
    "make-records",
    "pretrain",
    "finetune",
    "evaluate",
    "predict",
    "fill-mask",
    "export",
    "verify",
    "convert",
    "plan",
    "inspect",
)

_DONE, _FAILED, _BAD_INPUT, _TRY_AGAIN, _INTERRUPTED = 0, 1, 2, 75, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status.

    0 done, 1 a verdict failed, 2 bad input, 75 a training was told to stop and can be resumed, 130 interrupted.
    """
    arguments = parser().parse_args(argv)
    arguments.words = list(sys.argv[1:] if argv is None else argv)  # for verbs that start themselves again
    try:
        arguments.run(arguments)
        sys.stdout.flush()
    except InputError as error:
        return _say(arguments.verb, error, _BAD_INPUT)
    except OSError as error:  # a full disk, a folder that may not be written
        if isinstance(error, BrokenPipeError) and _is_standard_output_closed():  # `| head -1` has what it wanted
            return _DONE
        return _say(arguments.verb, f"{error.filename or 'the disk'}: {error.strerror or error}", _BAD_INPUT)
    except VerdictError as error:
        return _say(arguments.verb, error, _FAILED)
    except InterruptedTrainingError as error:
        return _say(arguments.verb, error, _TRY_AGAIN)
    except KeyboardInterrupt:
        return _say(arguments.verb, "interrupted; what was not finished was not written", _INTERRUPTED)
    return _DONE


def _say(verb: str, message: object, status: int) -> int:
    print(f"bert-keras {verb}: {message}", file=sys.stderr)
    return status


def _is_standard_output_closed() -> bool:
    """Whether nobody reads standard output any more; what is left goes nowhere then, lest Python fail at its end."""
    poll = select.poll()
    poll.register(sys.stdout, 0)  # a closed end is told whatever is asked for
    if not poll.poll(0):
        return False
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
    return True


class _Parser(argparse.ArgumentParser):
    """Tells a wrong command line in one line, as any bad input; argparse puts all options before it."""

    def error(self, message: str) -> NoReturn:
        self.exit(_BAD_INPUT, f"{self.prog}: {message}; {self.prog} --help lists what it takes\n")


class _VerbParser(_Parser):
    """Takes what stands without an option before, between and after the options: `inspect MODEL --out OUT TEXT`."""

    _is_mixing = False

    def parse_known_args(self, args=None, namespace=None):
        """Returns the arguments and what is left over, as `argparse.ArgumentParser` does."""
        if self._is_mixing:  # argparse's own way to mix parses twice over
            return super().parse_known_args(args, namespace)
        self._is_mixing = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_mixing = False


def parser() -> argparse.ArgumentParser:
    """Returns the parser of every verb; each module in this folder declares its own arguments."""
    parser = _Parser(
        prog="bert-keras",
        description="BERT from raw text to a served answer. Each verb reads a folder and writes the next one's.",
    )
    parser.add_argument("--version", action="version", version=f"bert-keras {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=_VerbParser)
    for verb in VERBS:
        module = importlib.import_module(f"bert_keras.cli.{verb.replace('-', '_')}")
        summary = module.__doc__.split("\n")[0]
        verb_parser = verbs.add_parser(
            verb,
            help=summary[0].lower() + summary[1:].rstrip("."),
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.add_arguments(verb_parser)
        verb_parser.add_argument("--json", action="store_true", help="print the result as JSON on standard output")
        verb_parser.set_defaults(run=module.run)
    return parser


if __name__ == "__main__":
    sys.exit(main())
