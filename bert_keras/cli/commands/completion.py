"""Print a script that completes commands, options and files of bert-keras in a shell.

    bert-keras completion bash > ~/.local/share/bash-completion/completions/bert-keras
    bert-keras completion zsh > ~/.zfunc/_bert-keras        (a folder of fpath, before compinit runs)
    bert-keras completion tcsh > ~/.bert-keras.tcsh         (then: source ~/.bert-keras.tcsh)

Open a new shell afterwards.
"""

import argparse

from bert_keras.cli.console import Result
from bert_keras.cli.options.declaring import Options
from bert_keras.extras import check_installed

SHELLS = ("bash", "zsh", "tcsh")


def add_arguments(options: Options) -> None:
    """Declare the arguments of the command."""
    options.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or tcsh")


def run(arguments: argparse.Namespace) -> Result:
    """Run the command, and return its result to print."""
    check_installed("bert-keras completion", "shtab", "completion")
    import shtab

    from bert_keras.cli import main

    script = shtab.complete(main.parser(), shell=arguments.shell)
    result = {"shell": arguments.shell, "script": script}
    return script.splitlines(), result
