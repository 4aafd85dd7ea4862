"""The one exception that means "you gave us something we cannot use".

It lives in the bottom row of the direction rule, so that every other folder can
raise it and the command line can catch it, whichever name a module was imported under.
"""


class InputError(ValueError):
    """Bad input, told in one sentence: what happened, what was expected, how to mend it.

    The command line prints the sentence and exits with status 2; in Python it is a
    `ValueError` like any other.
    """


class MissingExtraError(InputError):
    """A feature needs a package that is not installed; the message holds the install line."""

    def __init__(self, feature: str, package: str, extra: str):
        super().__init__(
            f"{feature} needs the package '{package}', which is not installed: "
            f"run  pip install 'bert-keras[{extra}]'"
        )
