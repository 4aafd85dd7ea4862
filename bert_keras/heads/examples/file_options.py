"""`FileOptions`: how the data files of a task are read."""

import contextlib
import dataclasses
import os
from collections.abc import Sequence

from bert_keras.heads.known_heads import get_task_head
from bert_keras.pipelines.corpus.text_lines import name_source
from bert_keras.pipelines.readers.labelled_texts import SEPARATOR, get_unusual_delimiter
from bert_keras.pipelines.readers.option_spelling import Spell, spell_flag
from bert_keras.pipelines.readers.tables.column_names import Columns, guess_columns
from bert_keras.pipelines.readers.tables.json_examples import read_json_array
from bert_keras.pipelines.readers.tables.raw_examples import ListedExamples, Source, TableReader, as_source
from bert_keras.pipelines.readers.tables.tables import open_table

_FORMATS = {".json": "json", ".conll": "conll", ".iob": "conll", ".bio": "conll", ".conllu": "conllu", ".txt": "txt"}


@dataclasses.dataclass(frozen=True)
class FileOptions:
    """How data files are read. None: chosen by the ending of the file's name and by usual column names.

    Attributes:
        format: "csv", "tsv", "jsonl", "conll", "conllu", "json" or "txt".
        columns: the column names of a table without a header line.
        text_column, second_text_column, label_column: the columns of texts, of second texts of pairs, and of labels.
        delimiter: the delimiter of a `.csv`; None: detected from the first lines.
        separator: the separator of several labels of a text.
        word_column, tag_column: the columns of words and of their tags.
    """

    format: str | None = None
    columns: Sequence[str] | None = None
    text_column: str | None = None
    second_text_column: str | None = None
    label_column: str | None = None
    delimiter: str | None = None
    separator: str = SEPARATOR
    word_column: str | None = None
    tag_column: str | None = None

    def get_table_options(self) -> dict[str, object]:
        """Return the arguments of `open_table`."""
        return {"columns": self.columns, "format": self.format, "delimiter": self.delimiter}

    def get_word_options(self) -> dict[str, str | None]:
        """Return the arguments of the readers of tagged words."""
        return {"word_column": self.word_column, "tag_column": self.tag_column, "format": self.format}

    def with_columns(self, columns: Columns) -> "FileOptions":
        """Return options that name the columns found in another file."""
        return dataclasses.replace(
            self, text_column=columns.text, second_text_column=columns.second_text, label_column=columns.label
        )

    def open_table(
        self, source: Source, *, spell: Spell = spell_flag
    ) -> contextlib.AbstractContextManager[TableReader]:
        """Open a table with these options, see `tables.open_table`."""
        return open_table(source, **self.get_table_options(), spell=spell)

    def choose_columns(
        self, table: TableReader, *, needs_label: bool, text_columns: Sequence[str] = (), spell: Spell = spell_flag
    ) -> Columns:
        """Return the columns to read of a table.

        Args:
            table: the table.
            needs_label: whether labels are read.
            text_columns: the columns of texts, of which the options can name the first two differently; empty: the
                named columns of one or two texts, or those with usual names.
            spell: spells options in messages.

        Raises:
            InputError: see `guess_columns`.
        """
        first, second, *more = text_columns or (None, None)
        columns = guess_columns(
            table.columns,
            text=first if self.text_column is None else self.text_column,
            second_text=second if self.second_text_column is None else self.second_text_column,
            label=self.label_column if needs_label else None,
            more_texts=more,
            needs_label=needs_label,
            place=table.place,
            spell=spell,
        )
        return dataclasses.replace(columns, delimiter=get_unusual_delimiter(table))


def resolve_data(
    given: object,
    name: str,
    task: str,
    options: FileOptions,
    *,
    fields: Sequence[str] = (),
    spell: Spell = spell_flag,
) -> Source:
    """Convert a user's labelled examples to a source that the readers accept; a `.json` array is read.

    Args:
        given: a path, or examples in memory, see `as_source`.
        name: the name of examples in memory, for messages.
        task: the name of the task.
        options: how files are read.
        fields: the field names of tuples of this length, see `as_source`.
        spell: spells options in messages.

    Raises:
        InputError: the data have another type, or the file is not a JSON array.
    """
    source = as_source(given, name, fields=fields)
    head = get_task_head(task)
    if isinstance(source, ListedExamples) or head.reads_json or (options.format or guess_format(source)) != "json":
        return source
    return read_json_array(source, as_strings=not head.has_word_lists, spell=spell)


def guess_format(source: Source) -> str | None:
    """Return the format that the ending of a file's name tells; None: a table, or examples in memory."""
    if isinstance(source, ListedExamples):
        return None
    path, _ = name_source(source)
    if path is None:
        return "txt"
    return _FORMATS.get(os.path.splitext(path.name.lower().removesuffix(".gz"))[1])
