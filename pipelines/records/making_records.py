"""`make_records`: the `make-records` command as a function."""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.default_corpus import read_python_documents
from bert_keras.pipelines.corpus.text_sources import PROSE, Names, TextSource, find_sources
from bert_keras.pipelines.records.documents import DocumentText, FileText
from bert_keras.pipelines.records.records_folder import Progress, write_records
from bert_keras.pipelines.records.settings import RecordSettings
from bert_keras.pipelines.text.tokenizer_spec import TokenizerSpec
from bert_keras.pipelines.text.vocabulary_settings import read_vocabulary_and_settings
from bert_keras.publishing import check_holds_no_input

if TYPE_CHECKING:
    from bert_keras.pipelines.text.tokenizer import BertTokenizer


def make_records(
    tokenizer: "BertTokenizer | TokenizerSpec | str | os.PathLike",
    out: str | os.PathLike,
    text: Names | Sequence[TextSource] | None = None,
    *,
    documents: Iterable[Sequence[str]] | None = None,
    field: str = "text",
    sentences: str = "lines",
    max_sequence_length: int = 128,
    sentence_objective: str = "nsp",
    short_sequence_rate: float = 0.1,
    keep_documents_apart: bool = False,
    packed: bool = False,
    max_examples_per_sequence: int = 8,
    duplicates: int = 1,
    held_out_rate: float = 0.01,
    seed: int = 0,
    num_workers: int = 1,
    beam_options: Sequence[str] | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    warn: Callable[[str], None] | None = None,
) -> dict:
    """Make pretraining records from text, as `bert-keras make-records` does.

    The text is tokenized, cut into examples for the sentence objective, optionally packed, and written as TFRecord
    shards with a manifest and the files of the tokenizer. Masks are not stored: `make_pretraining_batches` draws them.

    The folder is a pure function of text, tokenizer and settings. A run that was stopped leaves its finished blocks in
    `.NAME.partial` next to `out`. The same call resumes with them and gives the same bytes.

    Args:
        tokenizer: a `BertTokenizer`; or a vocabulary file, used with the settings that `learn_vocabulary` wrote next to
            it; or a model folder. It is saved in `out`, where `BertTokenizer.from_checkpoint(out)` reads it.
        out: the folder to write. It appears complete or not at all.
        text: files, folders, patterns such as "books/**/*.txt", or "-" for standard input; gzip and JSON lines are read
            too. None: the English prose that ships with Python.
        documents: documents in memory, in place of `text`: lists of sentences. Read once.
        field: the field of a JSON record with the text.
        sentences: "lines": one sentence per line, a blank line ends a document, and a JSON record is a document.
            "split": running text, split into sentences; each file or JSON record is a document.
        max_sequence_length: maximum length of a record in tokens, including special tokens.
        sentence_objective: "nsp", next-sentence prediction: half of the second sentences come from another document;
            "sop", sentence-order prediction: half of the pairs are swapped; "none": full sentences without labels.
        short_sequence_rate: share of pairs that are made shorter.
        keep_documents_apart: for "none", whether a sequence ends with its document.
        packed: whether several examples share a sequence if they fit.
        max_examples_per_sequence: maximum number of examples in a packed sequence.
        duplicates: how many times examples are drawn from each document, differently each time.
        held_out_rate: share of documents that are written to separate shards and never trained on.
        seed: determines everything random, from 0 to 2**31 - 1.
        num_workers: the number of processes, which does not change the result. A script with more than one needs
            `if __name__ == "__main__":`.
        beam_options: run on Apache Beam with these arguments of its `PipelineOptions`, such as
            `["--runner=FlinkRunner"]`, in place of `num_workers` and `progress`.
        overwrite: replace `out` if `make_records` wrote it.
        progress: called after each block with the bytes read from the files, the bytes of all files (None if unknown),
            and the bytes of text in the blocks so far.
        warn: called with each warning about the data. None: warnings are logged.

    Returns:
        The manifest: the settings, counts such as `num_records` and `num_tokens` in total and per split, `quality`,
        `sources` and `shards`.

    Raises:
        InputError: `out` cannot be written, the text or the vocabulary cannot be read, the text has no words, "nsp"
            has only one document, or a setting is out of range.

    Example:
        >>> documents = [["One sentence.", "The next one."], ["Another document.", "It ends here."]] * 5
        >>> manifest = bk.make_records("demo/vocab.txt", "my/records", documents=documents, max_sequence_length=32)
        >>> manifest["num_documents"], manifest["num_sentences"]
        (10, 20)
    """
    settings = RecordSettings(
        max_sequence_length=max_sequence_length,
        sentence_objective=sentence_objective,
        short_sequence_rate=short_sequence_rate,
        keep_documents_apart=keep_documents_apart,
        packed=packed,
        max_examples_per_sequence=max_examples_per_sequence,
        duplicates=duplicates,
        held_out_rate=held_out_rate,
        seed=seed,
    )
    spec = _read_tokenizer(tokenizer, out, max_sequence_length)
    opened = _open_text(text, documents, out, field=field, sentences=sentences, is_sent=beam_options is not None)
    options = {"overwrite": overwrite, "warn": warn, **vars(settings)}
    if beam_options is None:
        return write_records(out, opened, spec, num_workers=num_workers, progress=progress, **options)
    from bert_keras.pipelines.records.beam_records import write_records_with_beam

    return write_records_with_beam(out, opened, spec, options=beam_options, **options)


def _read_tokenizer(
    tokenizer: "BertTokenizer | TokenizerSpec | str | os.PathLike", out: str | os.PathLike, max_sequence_length: int
) -> TokenizerSpec:
    if not isinstance(tokenizer, str | os.PathLike):
        return TokenizerSpec.from_tokenizer(tokenizer)
    check_holds_no_input(out, [tokenizer])
    return TokenizerSpec.from_arguments(read_vocabulary_and_settings(tokenizer), max_sequence_length)


def _open_text(
    text: Names | Sequence[TextSource] | None,
    documents: Iterable[Sequence[str]] | None,
    out: str | os.PathLike,
    *,
    field: str,
    sentences: str,
    is_sent: bool,
) -> FileText | DocumentText:
    """Return the text of the records. `is_sent`: whether it is sent to other processes, which a generator cannot be."""
    if text is not None and documents is not None:
        raise InputError("text and documents are given together; expected one of them")
    if text is not None:
        sources = find_sources(text)
        check_holds_no_input(out, [source.path for source in sources if source.path is not None])
        return FileText(sources, field=field, sentences=sentences)
    if sentences != "lines":
        raise InputError(
            f"sentences is {sentences!r}, but no text was passed; expected 'lines' for documents and for the default "
            "text, which have sentences: pass text"
        )
    name = PROSE if documents is None else "documents"
    documents = read_python_documents() if documents is None else documents
    return DocumentText(list(documents) if is_sent else documents, name=name)
