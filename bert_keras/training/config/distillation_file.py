"""The settings of a distillation in a TOML file: `distill --config FILE`, and `distillation.toml` in OUT.

The keys are the arguments of `bk.distill`, so `bk.distill(teacher, out, **tomllib.load(file))` repeats a run too. No
TensorFlow here.
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Literal

from bert_keras.training.config.distillation_settings import Distillation
from bert_keras.training.config.finetuning_file import read_settings_file
from bert_keras.training.config.settings import Count, CountOrZero, PositiveRate, Text, settings

FILE_NAME = "distillation.toml"


@settings
class DistillationFile(Distillation):
    """All keys of the file: the settings of `Distillation`, and how the examples are read; None = not in the file.

    Args:
        train, dev, unlabelled: files with training, held-out and unlabelled examples; relative paths start at the
            current folder.
        dev_share: fraction of `train` that is held out without `dev`.
        on_error: "stop" or "skip".
        max_sequence_length, window_overlap: how long texts are handled; default: as the teacher does.
        format, columns, text_column, second_text_column, label_column, delimiter, separator, word_column, tag_column:
            see `FileOptions`.
    """

    train: Text | None = None
    dev: Text | None = None
    unlabelled: Text | None = None
    dev_share: PositiveRate | None = None
    on_error: Literal["stop", "skip"] | None = None
    max_sequence_length: Count | None = None
    window_overlap: CountOrZero | None = None
    format: Text | None = None
    columns: tuple[Text, ...] | None = None
    text_column: Text | None = None
    second_text_column: Text | None = None
    label_column: Text | None = None
    delimiter: Text | None = None
    separator: Text | None = None
    word_column: Text | None = None
    tag_column: Text | None = None


_TRAINING = tuple(field.name for field in dataclasses.fields(Distillation))
_READING = tuple(field.name for field in dataclasses.fields(DistillationFile) if field.name not in _TRAINING)
KEYS = (*_READING, *_TRAINING)


def read_distillation_file(path: str | os.PathLike, options: Mapping[str, str] | None = None) -> dict[str, object]:
    """Read and check a file of settings, see `read_settings_file`."""
    return read_settings_file(path, DistillationFile, KEYS, options)
