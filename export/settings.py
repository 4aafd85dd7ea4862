"""The settings of an export. No TensorFlow here, so that a command can refuse invalid settings at once."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Sequence

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.export.parity.probe_inputs import DEFAULT_PROBES, THOROUGH_PROBES, ProbeSet
from bert_keras.export.saved_model.serving_releases import OLDEST_SERVING, check_release
from bert_keras.heads.task import Task
from bert_keras.pipelines.corpus.text_sources import Names

FORMATS = ("saved_model", "tflite", "onnx")
SETTING_FORMATS = {  # the formats that use a setting; other settings apply to all formats
    **dict.fromkeys(("min_serving", "pairs"), ("saved_model",)),
    **dict.fromkeys(("quantizations", "examples", "tolerance"), ("tflite", "onnx")),
    "calibration": ("onnx",),
    **dict.fromkeys(("tflite_length", "tflite_lengths"), ("tflite",)),
}
AUTO = "auto"
DEFAULT_QUANTIZATIONS = ("float32", "float16", "dynamic_int8")
QUANTIZATIONS = (*DEFAULT_QUANTIZATIONS, "dynamic_int4")
DEFAULT_TOLERANCE = 0.5  # points
_MODEL_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]*"  # characters that need no escaping in a URL
_MIN_LENGTH = 3  # [CLS], one token, [SEP]


@dataclasses.dataclass(frozen=True)
class ExportSettings:
    """How artifacts are written.

    Attributes:
        min_serving: the oldest release of TensorFlow Serving that must be able to load the SavedModel.
        model_name: the name under which the model is served; None: the name of the checkpoint's folder.
        pairs: whether the SavedModel accepts pairs of texts; None: as the model was trained.
        tflite_length: tokens of a TFLite file's sequences; None: the task's maximum, at most 128.
        tflite_lengths: if not empty, also write TFLite files with a signature for each of these lengths.
        quantizations: of the TFLite files, see `write_tflite`; ("auto",): the smallest TFLite file and the fastest
            8-bit ONNX file whose scores are at most `tolerance` points below the checkpoint's.
        examples: labelled examples to score TFLite and ONNX files on, or a function from the task to such examples.
        calibration: examples whose activations determine the scales of the 8-bit ONNX files of "auto", or a function
            from the task to such examples; None: `examples`.
        tolerance: points that a file may lose with the quantization "auto"; None: 0.5.
        trim_vocabulary: files, folders or patterns of texts; only the tokens that they need are kept, see
            `choose_tokens`. None: keep all.
        thorough: whether to compare on many probe inputs; see `ProbeSet`.

    Raises:
        InputError: a setting is invalid.
    """

    min_serving: str = OLDEST_SERVING
    model_name: str | None = None
    pairs: bool | None = None
    tflite_length: int | None = None
    tflite_lengths: tuple[int, ...] = ()
    quantizations: tuple[str, ...] = DEFAULT_QUANTIZATIONS
    examples: Sequence | Callable[[Task | None], Sequence] | None = None
    calibration: Sequence | Callable[[Task | None], Sequence] | None = None
    tolerance: float | None = None
    trim_vocabulary: Names | None = None
    thorough: bool = False

    @property
    def is_automatic(self) -> bool:
        """Whether to search for the smallest TFLite file that scores well enough."""
        return AUTO in self.quantizations

    @property
    def points_tolerance(self) -> float:
        """`tolerance`, or its default."""
        return DEFAULT_TOLERANCE if self.tolerance is None else self.tolerance

    @property
    def probes(self) -> ProbeSet:
        """The probe inputs that artifacts are compared on."""
        return THOROUGH_PROBES if self.thorough else DEFAULT_PROBES

    def __post_init__(self):
        if unknown := [name for name in self.quantizations if name not in (*QUANTIZATIONS, AUTO)]:
            raise InputError(f"the quantization is {quote(unknown[0])}; expected {', '.join(QUANTIZATIONS)} or {AUTO}")
        if self.is_automatic and (len(self.quantizations) > 1 or self.examples is None):
            raise InputError(
                f"the quantization {AUTO} excludes others and needs labelled examples to score on: pass them "
                "(--eval FILE), and no other quantization"
            )
        if self.tolerance is not None and not self.is_automatic:
            raise InputError(
                f"a tolerance of {self.tolerance} points was given, which only the quantization {AUTO} uses: leave it "
                f"out, or choose {AUTO}"
            )
        if self.calibration is not None and not self.is_automatic:
            raise InputError(
                f"texts to calibrate on were given, which only the quantization {AUTO} uses: leave them out, or choose "
                f"{AUTO}"
            )
        if self.calibration is not None and not callable(self.calibration) and not self.calibration:
            raise InputError("there are no texts to calibrate on; expected at least one: leave them out, or add some")
        if self.model_name is not None and not re.fullmatch(_MODEL_NAME, self.model_name):
            raise InputError(
                f"the model's name is {quote(self.model_name)}; expected letters, digits, _ . and -, because it "
                "becomes part of a URL"
            )
        check_release(self.min_serving)

    def check_formats(self, formats: Collection[str]) -> None:
        """Raise `InputError` for an unknown format, or a changed setting of a format that is not exported."""
        if unknown := sorted(set(formats) - set(FORMATS)):
            raise InputError(f"the format {quote(unknown[0])} does not exist; expected {', '.join(FORMATS)}")
        if set(formats) & {"tflite", "onnx"} == {"onnx"} and self.quantizations not in (DEFAULT_QUANTIZATIONS, (AUTO,)):
            raise InputError(
                f"the quantization of onnx is {quote(self.quantizations[0])}; expected {AUTO}: an ONNX folder always "
                "has a float32 and an 8-bit file"
            )
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        for name, using in SETTING_FORMATS.items():
            if not set(using) & set(formats) and getattr(self, name) not in (None, defaults[name]):
                raise InputError(
                    f"{name} is only used by the format {' or '.join(using)}, and the formats are "
                    f"{', '.join(formats)}: leave it out, or add {using[0]}"
                )

    def check_lengths(self, max_length: int) -> None:
        """Raise `InputError` if a length of the TFLite files is not from 3 to `max_length`, the model's maximum."""
        for length in (self.tflite_length, *self.tflite_lengths):
            if length is not None and not _MIN_LENGTH <= length <= max_length:
                raise InputError(
                    f"the length of TFLite files is {length}; expected {_MIN_LENGTH} to {max_length}, the longest "
                    "sequence that the model accepts"
                )
