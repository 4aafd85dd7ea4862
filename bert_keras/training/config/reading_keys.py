"""`ReadingKeys`: the keys that a file of settings has for the examples, in `finetune` and in `distill`."""

import dataclasses
from typing import Literal

from bert_keras.training.config.settings import Count, CountOrZero, PositiveRate, Text, settings


@settings
class ReadingKeys:
    """How the examples of a training are read; None = not in the file.

    Args:
        train, dev: files with training and held-out examples; relative paths start at the current folder.
        dev_share: fraction of `train` that is held out without `dev`.
        on_error: "stop" or "skip".
        max_sequence_length, window_overlap: how long texts are handled.
        format, columns, text_column, second_text_column, label_column, delimiter, separator, word_column, tag_column:
            see `FileOptions`.
    """

    train: Text | None = None
    dev: Text | None = None
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


def list_keys(file: type, training: type) -> tuple[str, ...]:
    """Return the keys of a file of settings in their order in the file: its own, those of the examples, the training's.

    Args:
        file: the class with all keys of the file, a `ReadingKeys`.
        training: the class with the settings of the training.
    """
    all_keys, reading, of_training = (_list_fields(one) for one in (file, ReadingKeys, training))
    own = [name for name in all_keys if name not in reading and name not in of_training]
    return (*own, *reading, *of_training)


def _list_fields(cls: type) -> list[str]:
    return [field.name for field in dataclasses.fields(cls)]
