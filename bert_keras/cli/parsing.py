"""Build the argument parser of `bert-keras`. Each module in `commands/` declares the arguments of its own command."""

import argparse
import importlib
from collections.abc import Sequence
from typing import NoReturn

from bert_keras import __version__
from bert_keras.cli.console.terminal import MAX_MESSAGE_LENGTH, print_line
from bert_keras.cli.options.stored_values import StoredValue
from bert_keras.display.json_log import FLAG, LOG_FORMATS, VARIABLE

BAD_INPUT = 2  # the exit status

# Options renamed since the last release, old to new: accepted for one release, absent from --help.
HIDDEN_ALIASES = {
    "--labelled-pieces": "--labelled-tokens",
    "--warmup-rate": "--warmup-ratio",
    "--max-examples-a-row": "--max-examples-per-sequence",
    "--num-slots": "--num-masked",
}


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

    def __init__(self, *arguments: object, **options: object):
        super().__init__(*arguments, **options)
        self.register("action", None, StoredValue)

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
        module.add_arguments(command_parser)
        command_parser.add_argument("--json", action="store_true", help="print the result as JSON on standard output")
        _add_log_format(command_parser)
        command_parser.set_defaults(run=module.run)
    return parser
