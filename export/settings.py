"""How an export is to be done. No TensorFlow here, so that a command refuses what cannot be at once."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.export.parity.probe_inputs import DEFAULT, THOROUGH, ProbeSet
from bert_keras.export.saved_model.serving_releases import OLDEST_SERVING, known_release
from bert_keras.tasks.base import Task

_MODEL_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]*"  # what stands in an address as it is
_SHORTEST = 3  # of a row in tokens: [CLS], one token, [SEP]


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
        examples: labelled examples of the task to score TFLite files on, or a function of the task that reads them.
        tolerance: in points.
        thorough: whether to compare on many probe inputs; see `ProbeSet`.
    """

    min_serving: str = OLDEST_SERVING
    model_name: str | None = None
    pairs: bool | None = None
    tflite_length: int | None = None
    tflite_lengths: tuple[int, ...] = ()
    quantizations: tuple[str, ...] = ("float32", "float16", "dynamic_int8")
    examples: Sequence | Callable[[Task | None], Sequence] | None = None
    tolerance: float = 0.5
    thorough: bool = False

    @property
    def is_automatic(self) -> bool:
        """Whether the smallest file that will do is looked for."""
        return "auto" in self.quantizations

    @property
    def probes(self) -> ProbeSet:
        """The inputs that artifacts are compared on."""
        return THOROUGH if self.thorough else DEFAULT

    def __post_init__(self):
        if self.is_automatic and (len(self.quantizations) > 1 or self.examples is None):
            raise InputError("the quantization auto stands alone and needs examples to score on: give --eval FILE")
        if self.model_name is not None:
            check_model_name(self.model_name)
        known_release(self.min_serving)

    def check_lengths(self, longest: int) -> None:
        """Raise `InputError` unless a model that reads `longest` tokens reads the rows of the TFLite files."""
        for length in (self.tflite_length, *self.tflite_lengths):
            if length is not None and not _SHORTEST <= length <= longest:
                raise InputError(
                    f"the length of TFLite files is {length}; expected {_SHORTEST} to {longest}, what the model reads"
                )


def check_model_name(name: str) -> None:
    """Raise `InputError` unless a model of this name can be asked for over HTTP."""
    if not re.fullmatch(_MODEL_NAME, name):
        raise InputError(
            f"the model's name is {quote(name)}; expected letters, digits, _ . and -: it is part of an address"
        )
