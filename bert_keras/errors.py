"""The exceptions that the command line turns into exit statuses.

They live in the bottom row of the direction rule, so that every other folder can
raise them and the command line can catch them, whichever name a module was imported under.
"""

import os


class InputError(ValueError):
    """Bad input, told in one sentence: what happened, what was expected, how to mend it.

    The command line prints the sentence and exits with status 2; in Python it is a
    `ValueError` like any other.
    """


class UnsupportedTokenizerError(InputError):
    """A tokenizer works by other rules than `BertTokenizer`; the weights beside it can be read all the same."""


class MissingExtraError(InputError):
    """A feature needs a package that is not installed; the message holds the install line."""

    def __init__(self, feature: str, package: str, extra: str):
        super().__init__(
            f"{feature} needs the package '{package}', which is not installed: run  pip install 'bert-keras[{extra}]'"
        )


class UnpublishedError(InputError):
    """A folder is complete and could not be moved to its place.

    Args:
        out: the place.
        reason: why not.
        kept: where the folder is.
    """

    def __init__(self, out: str | os.PathLike, reason: str, kept: str | os.PathLike):
        super().__init__(f"{out} cannot be written ({reason}); the complete folder is {kept}: move it to its place")


class InterruptedTrainingError(RuntimeError):
    """A training was told to stop, and its state is kept: exit status 75, `EX_TEMPFAIL`, "try again".

    Args:
        step: optimizer steps done.
        folder: where the state is; None: this process keeps none.
    """

    def __init__(self, step: int, folder: str | os.PathLike | None):
        kept = "" if folder is None else f"; its state is in {folder}: run the same command with --resume to go on"
        super().__init__(f"the training was told to stop at step {step:,}{kept}")


class ParityError(RuntimeError):
    """An artifact does not compute what its checkpoint computes, so it was not published: exit status 1."""
