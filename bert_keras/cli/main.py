"""Entry point of `bert-keras COMMAND ...`.

This module imports nothing before `main` runs, so that Ctrl-C is caught from the first moment on: the imports of the
commands take a tenth of a second.
"""

import sys

COMMANDS = (
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


def main(argv=None) -> int:
    """Run one command and return its exit status.

    0 done, 1 a verdict failed, 2 bad input, 75 a training was told to stop and can be resumed, 130 interrupted.

    Args:
        argv: the words of the command line; None: those of this process.
    """
    try:
        from bert_keras.cli.console.interrupts import lost_interrupts_come_again

        with lost_interrupts_come_again():
            from bert_keras.cli.running import run_command

            return run_command(COMMANDS, argv)
    except (KeyboardInterrupt, Exception) as error:
        from bert_keras.cli.console.interrupts import INTERRUPTED, was_interrupted

        if not was_interrupted(error):
            raise
        print("bert-keras: interrupted; nothing was begun", file=sys.stderr)
        return INTERRUPTED


def parser():
    """Return the `argparse` parser of all commands."""
    from bert_keras.cli.parsing import make_parser

    return make_parser(COMMANDS)


if __name__ == "__main__":
    sys.exit(main())
