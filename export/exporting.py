"""What every kind of artifact is written with: settings, a reference, and where it is to be published."""

import contextlib
import dataclasses
import pathlib
from collections.abc import Callable

from bert_keras.export.reference import Reference

PARITY = "parity.json"

Verdicts = dict[str, dict]  # by the path of the artifact within the folder


@dataclasses.dataclass(frozen=True)
class ExportSettings:
    """How artifacts are written.

    Attributes:
        min_serving: the oldest TensorFlow Serving that is to load the SavedModel.
        model_name: under which it is served; None: that of the checkpoint's folder.
        pairs: whether the SavedModel takes pairs of texts; None: as the model was trained.
    """

    min_serving: str = "2.13"
    model_name: str | None = None
    pairs: bool | None = None


class Stages:
    """Tells how far the work is."""

    def __init__(self, report: Callable[[int, int, str], None] | None, number: int):
        self._report = report or (lambda *_: None)
        self._done, self._number = 0, number

    def begin(self, name: str) -> None:
        """Tells that all stages before this one are done."""
        self._report(self._done, self._number, name)
        self._done += 1


@dataclasses.dataclass(frozen=True)
class Export:
    """The writing of the artifacts of a checkpoint.

    Attributes:
        reference: the checkpoint.
        out: the folder to write to.
        settings: how.
        stages: are told what begins.
        published: folders that are entered here are renamed to their places if all goes well, and removed if not.
        overwrite: whether folders that are there may be replaced.
    """

    reference: Reference
    out: pathlib.Path
    settings: ExportSettings
    stages: Stages
    published: contextlib.ExitStack
    overwrite: bool
