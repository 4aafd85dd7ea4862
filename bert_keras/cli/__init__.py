"""The command line, `bert-keras COMMAND`: parsing, checks and printing; `commands/` has one module per command.

Start with `main.py`. The first line of a command module's docstring is its help; `add_arguments(parser)` declares its
arguments; `run(arguments)` checks them, prints the settings, calls the library and prints the result. An `InputError`
from `run` becomes one sentence and exit status 2 (`running.py`).
"""
