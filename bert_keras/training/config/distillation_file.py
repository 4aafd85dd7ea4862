"""The settings of a distillation in a TOML file: `distill --config FILE`, and `distillation.toml` in OUT.

The keys are the arguments of `bk.distill`, so `bk.distill(teacher, out, **tomllib.load(file))` repeats a run too. No
TensorFlow here.
"""

import os
from collections.abc import Mapping

from bert_keras.training.config.distillation_settings import Distillation
from bert_keras.training.config.finetuning_file import read_settings_file
from bert_keras.training.config.reading_keys import ReadingKeys, list_keys
from bert_keras.training.config.settings import Text, settings

FILE_NAME = "distillation.toml"


@settings
class DistillationFile(ReadingKeys, Distillation):
    """All keys of the file: those of `ReadingKeys` and the settings of `Distillation`; None = not in the file.

    Args:
        unlabelled: file with texts without labels; a relative path starts at the current folder.
    """

    unlabelled: Text | None = None


KEYS = list_keys(DistillationFile, Distillation)


def read_distillation_file(path: str | os.PathLike, options: Mapping[str, str] | None = None) -> dict[str, object]:
    """Read and check a file of settings, see `read_settings_file`."""
    return read_settings_file(path, DistillationFile, KEYS, options)
