"""The command line: `bert-keras VERB`. One file a verb.

A verb's module has a docstring whose first line is its help, `add_arguments(parser)`, which declares what it
takes, and `run(arguments)`, which checks everything, prints its settings, calls the library and reports. Bad
input leaves `run` as an `InputError`; `main` makes one sentence and exit status 2 of it.
"""
