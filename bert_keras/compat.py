"""Internal names of other libraries that this package cannot do without: all of them, each with its reason.

Public API comes first. Where there is none, an entry here says what the name is for, why nothing public will do, and
the release in which it was last seen. `tests/test_compat.py` uses every entry, so a release without one fails there.
"""

import dataclasses
import importlib
import importlib.metadata


@dataclasses.dataclass(frozen=True)
class InternalName:
    """A name beyond the public API of a library, imported when it is asked for.

    Attributes:
        library: the distribution that has it.
        module: where it is.
        attribute: its name in the module; None: the module itself.
        last_seen: the newest release in which it was found.
        reason: what it is for, and why nothing public will do.
    """

    library: str
    module: str
    attribute: str | None
    last_seen: str
    reason: str

    def get(self):
        """Returns what the name stands for.

        Raises:
            ImportError: the installed release does not have it.
        """
        try:
            module = importlib.import_module(self.module)
            return module if self.attribute is None else getattr(module, self.attribute)
        except (ImportError, AttributeError) as error:
            installed = importlib.metadata.version(self.library)
            raise ImportError(
                f"{self.library} {installed} has no {self}, which bert_keras.compat needs; it was last seen in "
                f"{self.library} {self.last_seen}: install that release, or correct the entry"
            ) from error

    def __str__(self) -> str:
        return self.module if self.attribute is None else f"{self.module}.{self.attribute}"


TFLITE_SCHEMA = InternalName(
    "tensorflow",
    "tensorflow.lite.python.schema_py_generated",
    None,
    "2.21.0",
    "The classes of TFLite's FlatBuffer schema, to look into files and to add metadata. tf.lite has no reader; the "
    "package tflite has one and ends at the schema of 2.18.",
)
TFLITE_CONVERTER_ERROR = InternalName(
    "tensorflow",
    "tensorflow.lite.python.convert_phase",
    "ConverterError",
    "2.21.0",
    "What tf.lite.TFLiteConverter.convert raises where an operator has no TFLite; it derives from Exception alone.",
)
INTERNAL_NAMES = (TFLITE_SCHEMA, TFLITE_CONVERTER_ERROR)
