"""What every kind of artifact is written with: settings, a reference, and where it is to be published."""

import contextlib
import dataclasses
import pathlib
from collections.abc import Callable, Sequence

from bert_keras.errors import InputError
from bert_keras.export.reference import Reference

Verdicts = dict[str, dict]  # by the path of the artifact within the folder


@dataclasses.dataclass(frozen=True)
class ExportSettings:
    """How artifacts are written.

    Attributes:
        min_serving: the oldest TensorFlow Serving that is to load the SavedModel.
        model_name: under which it is served; None: that of the checkpoint's folder.
        pairs: whether the SavedModel takes pairs of texts; None: as the model was trained.
        tflite_length: the length of a TFLite file's rows; None: the task's, 128 at most.
        tflite_lengths: those of the file with several, where they are asked for.
        quantizations: of TFLite files, see `write_tflite`; ("auto",): the smallest that loses no more than `tolerance`.
        examples: labelled examples of the task to score TFLite files on.
        tolerance: in points.
    """

    min_serving: str = "2.13"
    model_name: str | None = None
    pairs: bool | None = None
    tflite_length: int | None = None
    tflite_lengths: tuple[int, ...] = ()
    quantizations: tuple[str, ...] = ("float32", "float16", "dynamic_int8")
    examples: Sequence | None = None
    tolerance: float = 0.5

    @property
    def is_automatic(self) -> bool:
        """Whether the smallest file that will do is looked for."""
        return "auto" in self.quantizations

    def __post_init__(self):
        if self.is_automatic and (len(self.quantizations) > 1 or self.examples is None):
            raise InputError("the quantization auto stands alone and needs examples to score on: give --eval FILE")


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
