"""What every kind of artifact is written with: a reference, its checks, and where it is to be published."""

import contextlib
import dataclasses
import pathlib
from collections.abc import Callable

from bert_keras.export.parity.parity_check import Check
from bert_keras.export.parity.reference import Reference
from bert_keras.export.settings import ExportSettings

Verdicts = dict[str, dict]  # by the path of the artifact within the folder


class Stages:
    """Tells how far the work is."""

    def __init__(self, report: Callable[[int, int, str], None] | None, number: int):
        self._report = report or (lambda *_: None)
        self._done, self._number = 0, number

    def begin(self, name: str) -> None:
        """Tells that all stages before this one are done."""
        self._report(self._done, self._number, name)
        self._done += 1


class Checks:
    """Parity checks, of which one runs in the background while the next artifact is written.

    One at a time: each holds the weights in memory, and two would share the cores that they are timed on.

    Args:
        stages: are told whose verdict is waited for.
        passed: called with the name and the verdict of each artifact; raises if it is bad.
    """

    def __init__(self, stages: Stages, passed: Callable[[str, dict], None]):
        self.verdicts: Verdicts = {}
        self._stages, self._passed = stages, passed
        self._running: tuple[str, Check, Callable[[dict], dict]] | None = None

    def begin(self, name: str, start: Callable[[], Check], then: Callable[[dict], dict] = dict) -> None:
        """Finishes the check that runs, and starts the next one.

        Args:
            name: of the artifact in the folder.
            start: starts its check.
            then: is given its verdict and returns the one to keep.
        """
        self.finish()
        self._running = name, start(), then

    def finish(self) -> None:
        """Waits for the verdict on the artifact whose check runs, if one does."""
        if self._running is None:
            return
        name, check, then = self._running
        self._running = None
        self._stages.begin(f"comparing {name}")
        self.verdicts[name] = then(check.verdict())
        self._passed(name, self.verdicts[name])

    def close(self) -> None:
        """Ends the process of a check that nobody waits for, as where the work failed."""
        if self._running is not None:
            self._running[1].close()


@dataclasses.dataclass(frozen=True)
class Export:
    """The writing of the artifacts of a checkpoint.

    Attributes:
        reference: the checkpoint.
        out: the folder to write to.
        settings: how.
        stages: are told what begins.
        checks: compare what was written.
        published: folders that are entered here are renamed to their places if all goes well, and removed if not.
        overwrite: whether folders that are there may be replaced.
    """

    reference: Reference
    out: pathlib.Path
    settings: ExportSettings
    stages: Stages
    checks: Checks
    published: contextlib.ExitStack
    overwrite: bool
