"""The exceptions that the command line turns into exit statuses.

They are at the bottom of the import order, so that every folder can raise them and the command line can catch them.
"""

import os


class InputError(ValueError):
    """Bad input, reported in one sentence: what happened, what was expected, how to fix it.

    The command line prints the sentence and exits with status 2; in Python it is a `ValueError`.

    Example:
        >>> try:
        ...     bk.BertConfig(num_heads=7)
        ... except bk.InputError as error:
        ...     print(error)
        BertConfig cannot be built: hidden_dim 768 is not divisible by num_heads 7
    """


class UnsupportedTokenizerError(InputError):
    """A tokenizer that follows other rules than `BertTokenizer`; the weights of its model can still be loaded."""


class MissingExtraError(InputError):
    """A feature needs a package that is not installed; the message has the command that installs it."""

    def __init__(self, feature: str, package: str, extra: str):
        super().__init__(
            f"{feature} needs the package '{package}', which is not installed: run  pip install 'bert-keras[{extra}]'"
        )


class UnpublishedError(InputError):
    """A folder was written completely but could not be moved to its final path.

    Args:
        out: the final path.
        reason: why the move failed.
        place: where the folder is now.
    """

    def __init__(self, out: str | os.PathLike, reason: str, place: str | os.PathLike):
        super().__init__(f"{out} cannot be written ({reason}); the complete folder is {place}: move it to its place")


class DivergedTrainingError(InputError):
    """The loss of a training became infinite or NaN."""


class InterruptedTrainingError(RuntimeError):
    """Training was stopped by a signal and can be resumed: exit status 75, `EX_TEMPFAIL`, "try again".

    Args:
        step: optimizer steps done.
        folder: the folder of the backups; None: this process writes none.
        resume: how the user sets the option to resume.
    """

    def __init__(self, step: int, folder: str | os.PathLike | None, resume: str):
        self.step = step
        backup = "" if folder is None else f"; its backup is in {folder}: repeat the training with {resume} to continue"
        super().__init__(f"training was stopped at step {step:,}{backup}")


class DoctorError(RuntimeError):
    """`bert-keras doctor` found a fault: exit status 1."""


class ParityError(RuntimeError):
    """An artifact does not compute what its checkpoint computes, so it was not published: exit status 1."""
