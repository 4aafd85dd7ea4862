"""The format of a data file, by its name or as the user chose."""

import os
import pathlib
from collections.abc import Mapping

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.text_lines import name_source
from bert_keras.pipelines.readers.option_spelling import Spell, spell_flag
from bert_keras.pipelines.readers.tables.raw_examples import join_alternatives


def detect_format(
    source: str | os.PathLike, format: str | None, formats: Mapping[str, str], *, spell: Spell = spell_flag
) -> str:
    """Return the format of a file.

    Args:
        source: a file, whose name may end in `.gz`, or "-" for standard input.
        format: the format that the user chose; None: the ending of the file's name decides.
        formats: the supported formats, keyed by file ending.
        spell: spells options in messages.

    Raises:
        InputError: the format is not supported, or the ending is unknown.
    """
    names = list(dict.fromkeys(formats.values()))
    if format is not None:
        if format not in names:
            raise InputError(f"the format is {quote(format)}; expected {join_alternatives(names)}")
        return format
    path, name = name_source(source)
    if path is None:
        streamed = [format for format in names if format != "json"]  # a JSON document is read as a whole
        raise InputError(
            f"{name} has no file ending; expected a format: set {spell('format')} to {join_alternatives(streamed)}"
        )
    ending = get_file_ending(path)
    if ending not in formats:
        has = f"ends in {quote(ending)}" if ending else "has no ending"
        raise InputError(
            f"{name} {has}; expected {join_alternatives(list(formats))}, or one of these with .gz: rename the file, or "
            f"set {spell('format')} to {join_alternatives(names)}"
        )
    return formats[ending]


def get_file_ending(path: pathlib.Path) -> str:
    """Return the ending of a file's name in lower case, with its dot and without `.gz`."""
    return pathlib.Path(path.name.lower().removesuffix(".gz")).suffix
