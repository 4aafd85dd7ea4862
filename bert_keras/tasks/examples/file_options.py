"""How the files of a task are read."""

import dataclasses
import os
from collections.abc import Sequence

from bert_keras.pipelines.corpus.text_lines import name_source
from bert_keras.pipelines.readers.labelled_texts import SEPARATOR, unusual_delimiter
from bert_keras.pipelines.readers.tables.column_names import Columns, guess_columns
from bert_keras.pipelines.readers.tables.json_rows import read_json_array
from bert_keras.pipelines.readers.tables.listed_examples import ListedExamples, Source, as_source
from bert_keras.pipelines.readers.tables.tables import TableReader, open_table


@dataclasses.dataclass(frozen=True)
class FileOptions:
    """How files are read; None: by their endings and the usual names.

    Attributes:
        format: "csv", "tsv", "jsonl", "conll", "conllu", "json" or "txt".
        columns: the names of all columns of a table without a header line.
        text_column, second_text_column, label_column: of texts, pairs of texts and their labels.
        delimiter: the mark between the fields of a `.csv`; None: recognized from the first lines.
        separator: between several labels of a text.
        word_column, tag_column: of words and their tags.
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

    def table(self) -> dict[str, object]:
        """Return what `open_table` takes."""
        return {"columns": self.columns, "format": self.format, "delimiter": self.delimiter}

    def words(self) -> dict[str, str | None]:
        """Return what the readers of tagged words take."""
        return {"word_column": self.word_column, "tag_column": self.tag_column, "format": self.format}

    def with_columns(self, columns: Columns) -> "FileOptions":
        """Return options that ask for the columns that another file has."""
        return dataclasses.replace(
            self, text_column=columns.text, second_text_column=columns.second_text, label_column=columns.label
        )

    def choose_columns(self, table: TableReader, *, needs_label: bool) -> Columns:
        """Return the columns of a table that are read of labelled examples."""
        columns = guess_columns(
            table.columns,
            text=self.text_column,
            second_text=self.second_text_column,
            label=self.label_column if needs_label else None,
            needs_label=needs_label,
            place=table.place,
        )
        return dataclasses.replace(columns, delimiter=unusual_delimiter(table))


def resolve_data(
    given: object, name: str, task: str, options: FileOptions, *, pair: Sequence[str] = ("text", "label")
) -> Source:
    """Return labelled examples as the readers take them; the array of a `.json` file is read.

    Args:
        given: a path or examples in memory, see `as_source`.
        name: what messages call the latter.
        task: the name of the task.
        options: how files are read.
        pair: what the members of tuples of two are.

    Raises:
        InputError: it is nothing of that, or the file holds no array.
    """
    source = as_source(given, name, pair=pair)
    if isinstance(source, ListedExamples) or task == "answer" or (options.format or guess_format(source)) != "json":
        return source
    return read_json_array(source, spelled=task != "tag")


def open_options_table(source: Source, options: FileOptions):
    """Open a table as the options say, see `open_table`."""
    return open_table(source, **options.table())


def guess_format(source: Source) -> str | None:
    """Return the form that the name of a file tells; None: it is a table, or in memory."""
    if isinstance(source, ListedExamples):
        return None
    endings = {".json": "json", ".conll": "conll", ".iob": "conll", ".bio": "conll", ".conllu": "conllu", ".txt": "txt"}
    path, _ = name_source(source)
    if path is None:
        return "txt"
    return endings.get(os.path.splitext(path.name.lower().removesuffix(".gz"))[1])
