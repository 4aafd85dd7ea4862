"""The commands of `bert-keras`, one module per command; `../running.py` finds a module by the name of its command.

Start reading with `convert.py`, a short one: `add_arguments` declares the arguments, `run` executes the command.
"""
