"""The commands of `bert-keras`, one module per command.

Each module declares its arguments and has a `run(arguments)`; `../parsing.py` finds it by its name.
"""
