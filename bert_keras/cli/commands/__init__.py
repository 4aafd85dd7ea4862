"""The commands of `bert-keras`, one module per command.

Start with `finetune.py`. Each module declares its arguments and has a `run(arguments)`; `../parsing.py` imports it by
its name.
"""
