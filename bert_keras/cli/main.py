"""Entry point of `bert-keras COMMAND ...`.

This module imports nothing before `main` runs: the imports of the commands take 0.1 s, and Ctrl-C must be handled
from the first moment.
"""

import sys

COMMANDS = (
    "demo",
    "learn-vocab",
    "make-records",
    "pretrain",
    "finetune",
    "distill",
    "evaluate",
    "predict",
    "fill-mask",
    "export",
    "verify",
    "serve",
    "convert",
    "plan",
    "inspect",
    "completion",
    "doctor",
    "push",
)


def main(argv: "list[str] | None" = None) -> int:
    """Run one command and return its exit status.

    Args:
        argv: command-line arguments; None: those of this process.

    Returns:
        0 success, 1 a parity check failed or doctor found a fault, 2 invalid input, 75 training was stopped by SIGTERM
        and can be resumed, 130 interrupted by Ctrl-C.
    """
    try:
        from bert_keras.cli.interrupts import resend_dropped_interrupts

        with resend_dropped_interrupts():
            from bert_keras.cli.running import run_command

            return run_command(COMMANDS, argv)
    except (KeyboardInterrupt, Exception) as error:
        from bert_keras.cli.interrupts import INTERRUPTED, format_interrupt, is_json_wanted, was_interrupted
        from bert_keras.errors import InputError

        if isinstance(error, InputError):  # of a plug-in, which is loaded before any command runs
            text, status = f"bert-keras: {error}", 2
        elif was_interrupted(error):
            reason = "interrupted before the command started"
            text, status = format_interrupt(reason, as_json=is_json_wanted(argv)), INTERRUPTED
        else:
            raise
        print(text, file=sys.stderr)
        return status


def parser() -> "argparse.ArgumentParser":  # noqa: F821
    """Return the parser of all commands."""
    from bert_keras.cli.running import make_parser

    return make_parser(COMMANDS)


if __name__ == "__main__":
    sys.exit(main())
