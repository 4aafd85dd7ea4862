"""The parser of the command line; each module in this folder declares the arguments of its own command."""

import argparse
import importlib
from collections.abc import Sequence
from typing import NoReturn

from bert_keras import __version__
from bert_keras.cli.console.terminal import MOST_CHARACTERS, print_line

BAD_INPUT = 2  # the exit status


class _Parser(argparse.ArgumentParser):
    """Tells a wrong command line in one line, as any bad input; argparse puts all options before it."""

    def error(self, message: str) -> NoReturn:
        print_line(f"{self.prog}: {message}; {self.prog} --help lists what it takes", most=MOST_CHARACTERS)
        self.exit(BAD_INPUT)


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


def make_parser(verbs: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = _Parser(
        prog="bert-keras",
        description="BERT from raw text to a served answer. Each verb reads a folder and writes the next one's.",
    )
    parser.add_argument("--version", action="version", version=f"bert-keras {__version__}")
    subparsers = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=_VerbParser)
    for verb in verbs:
        module = importlib.import_module(f"bert_keras.cli.commands.{verb.replace('-', '_')}")
        summary = module.__doc__.split("\n")[0]
        verb_parser = subparsers.add_parser(
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
