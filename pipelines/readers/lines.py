"""The format of a task's file, and the bound on its examples."""

import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.byte_lines import MAX_LINE_BYTES
from bert_keras.pipelines.corpus.text_lines import Line, name_source
from bert_keras.pipelines.readers.tables.table_rows import alternatives


def limit_characters(lines: Iterable[Line], name: str, what: str) -> Iterator[Line]:
    """Yield the lines of one example, which is held whole in memory.

    Args:
        lines: of the example.
        name: what messages call the file.
        what: the example, for messages.

    Raises:
        InputError: they have more characters than a line may have bytes.
    """
    first, num_characters = None, 0
    for line in lines:
        first, num_characters = first or line.number, num_characters + len(line.text)
        if num_characters > MAX_LINE_BYTES:
            raise InputError(
                f"{name}, line {first}: the {what} that begins here has more than {MAX_LINE_BYTES:,} characters, the "
                "most that is read: divide it"
            )
        yield line


def detect_format(source: str | os.PathLike, form: str | None, endings: Mapping[str, str]) -> str:
    """Returns the form of a file: what was said, or else what its name's ending tells.

    Args:
        source: a file, whose name may end in `.gz`, or "-".
        form: what was said; None: nothing.
        endings: the forms that can be read, by the endings that tell them.

    Raises:
        InputError: it is none of those.
    """
    forms = list(dict.fromkeys(endings.values()))
    if form is not None:
        if form not in forms:
            raise InputError(f"the format is {quote(form)}; expected {alternatives(forms)}")
        return form
    path, name = name_source(source)
    if path is None:
        by_lines = [form for form in forms if form != "json"]  # which is read whole
        raise InputError(f"{name} has no ending; say what it holds with --format {alternatives(by_lines)}")
    ending = get_file_ending(path)
    if ending not in endings:
        has = f"ends in {quote(ending)}" if ending else "has no ending"
        raise InputError(
            f"{name} {has}; expected {alternatives(list(endings))}, or one of these with .gz: say what it holds with "
            f"--format {alternatives(forms)}"
        )
    return endings[ending]


def get_file_ending(path: pathlib.Path) -> str:
    """Returns the ending of a file's name in lower case, with its dot; `.gz` is none."""
    return pathlib.Path(path.name.lower().removesuffix(".gz")).suffix
