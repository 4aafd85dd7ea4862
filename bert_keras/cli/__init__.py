"""The command line, `bert-keras COMMAND`. Start reading with `main.py`; `commands/` has one module per command.

The first line of a command module's docstring is its summary in `--help`. `add_arguments(parser)` declares the
arguments. `run(arguments)` checks them, prints the settings, calls the library and prints the result. Invalid input
raises `InputError`, which `main` turns into one sentence and exit status 2.
"""
