"""`make_records`: the `make-records` command as a function; `write_records` writes an opened text.

The text is read once, as a stream, and cut into blocks. Each block is processed by one process and becomes one shard
per split. Nothing is masked here: masks are drawn when the records are read, new ones in every epoch.
"""

import dataclasses
import importlib.metadata
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from bert_keras import __version__
from bert_keras.checks import check_integer
from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.data_quality import find_records_warnings
from bert_keras.pipelines.corpus.default_corpus import read_python_documents
from bert_keras.pipelines.corpus.text_sources import PROSE, Names, TextSource, find_sources
from bert_keras.pipelines.process_pool import map_in_order
from bert_keras.pipelines.quiet_import import import_tensorflow_quietly
from bert_keras.pipelines.records.documents import Block, DocumentText, FileText, Shard, plan_blocks
from bert_keras.pipelines.records.manifest import COUNTS, FORMAT_VERSION, QUALITY_COUNTS, make_manifest
from bert_keras.pipelines.records.records_folder import PartialFolder, open_partial_folder, publish_records
from bert_keras.pipelines.records.settings import RecordSettings
from bert_keras.pipelines.text.portable_tokenizer import TokenizerSpec
from bert_keras.pipelines.text.vocabulary_settings import read_vocabulary_and_settings
from bert_keras.publishing import check_holds_no_input

if TYPE_CHECKING:
    from bert_keras.pipelines.text.tokenizer import BertTokenizer

_LOG = logging.getLogger(__name__)
_RESULTS_DEPEND_ON = ("numpy", "sentencex", "tensorflow", "tensorflow-text")
Progress = Callable[[int, int | None, int], None]


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
        sentence_objective: "nsp", next-sentence prediction: half of the second sentences come from another document
            (Devlin et al. 2018); "sop", sentence-order prediction: half of the pairs are swapped (ALBERT, Lan et al.
            2019); "none": full sentences without labels (RoBERTa, Liu et al. 2019).
        short_sequence_rate: share of pairs that are made shorter, since models get short texts too. Not for "none".
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
    if isinstance(tokenizer, str | os.PathLike):
        check_holds_no_input(out, [tokenizer])
        tokenizer = TokenizerSpec.from_arguments(read_vocabulary_and_settings(tokenizer), max_sequence_length)
    opened = _open_text(text, documents, out, field=field, sentences=sentences, is_sent=beam_options is not None)
    return write_records(
        out,
        opened,
        tokenizer,
        num_workers=num_workers,
        beam_options=beam_options,
        overwrite=overwrite,
        progress=progress,
        warn=warn,
        **vars(settings),
    )


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


@dataclasses.dataclass(frozen=True)
class RecordsJob:
    """All that records are made of."""

    settings: RecordSettings
    tokenizer: TokenizerSpec
    text: FileText | DocumentText

    def make_fingerprint(self) -> dict:
        """Return everything that blocks depend on, except for the text, whose digest is stored with each block."""
        return {
            "format_version": FORMAT_VERSION,
            **dataclasses.asdict(self.settings),
            "sentences": self.text.sentences,
            **self.tokenizer.identity,
            "tokenizer_sha256": self.tokenizer.digest,
            "sources": self.text.names,
            "counts": [*COUNTS, *QUALITY_COUNTS],
            "bert-keras": __version__,
            **{name: importlib.metadata.version(name) for name in _RESULTS_DEPEND_ON},
        }

    def read_blocks(self) -> Iterator[Block]:
        """Yield the blocks of the text. Only next-sentence pairs need other documents, so only they reread the text."""
        reopened = self.text.reopen() if self.settings.sentence_objective == "nsp" else None
        return plan_blocks(self.text.passages(), self.settings, None if reopened is None else reopened.passages)


def write_records(
    out: str | os.PathLike,
    text: FileText | DocumentText | Iterable[Sequence[str]],
    tokenizer: "BertTokenizer | TokenizerSpec",
    *,
    num_workers: int = 1,
    beam_options: Sequence[str] | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    warn: Callable[[str], None] | None = None,
    **settings: object,
) -> dict:
    """Write records of a text. `make_records` is the same for users, with text and vocabulary by path.

    Args:
        out: the folder to write.
        text: a `FileText`, a `DocumentText`, or documents, which are lists of sentences. Read once. For Beam, its paths
            are on a file system that all workers share.
        tokenizer: a `BertTokenizer` or its `TokenizerSpec`.
        num_workers, beam_options, overwrite, progress, warn: see `make_records`.
        **settings: fields of `RecordSettings`; `max_sequence_length` is required.

    Returns:
        The manifest, as `read_manifest` returns it.

    Raises:
        InputError: see `make_records`; Apache Beam is not installed; or the pipeline failed.

    Example:
        >>> tokenizer = bk.BertTokenizer.from_vocabulary("demo/vocab.txt")
        >>> manifest = write_records("my/out", [["One.", "Two."], ["Three."]], tokenizer, max_sequence_length=128)
        >>> manifest["num_documents"]
        2
    """
    checked = RecordSettings(**settings)
    check_integer("num_workers", num_workers)
    if not isinstance(text, FileText | DocumentText):
        text = DocumentText(text)
    job = RecordsJob(checked, TokenizerSpec.from_tokenizer(tokenizer), text)
    with open_partial_folder(out, overwrite=overwrite) as path:
        if beam_options is None:
            shards = list(_make_shards(job, PartialFolder(path, job.make_fingerprint()), num_workers, progress))
            sources = text.facts()
        else:
            from bert_keras.pipelines.records.beam_records import make_shards_with_beam

            sources, shards = make_shards_with_beam(job, path, beam_options)
        manifest = make_manifest(job.settings, job.tokenizer, text.sentences, sources, shards)
        publish_records(out, path, manifest, job.tokenizer, overwrite=overwrite)
    for warning in find_records_warnings(manifest):
        (warn or _LOG.warning)(warning)
    return manifest


def make_block_worker(
    settings: RecordSettings, tokenizer: TokenizerSpec, sentences: str, *, num_threads: int | None = None
) -> Callable[[Block], dict[str, Shard]]:
    """Return the function that makes the shards of a block. Imports TensorFlow, which takes seconds.

    Args:
        settings, tokenizer, sentences: see `BlockWorker`.
        num_threads: number of threads of TensorFlow in this process; None: its default.
    """
    import_tensorflow_quietly()
    import tensorflow as tf

    from bert_keras.pipelines.records.block_records import BlockWorker

    if num_threads is not None:
        tf.config.threading.set_intra_op_parallelism_threads(num_threads)
        tf.config.threading.set_inter_op_parallelism_threads(num_threads)
    return BlockWorker(settings, tokenizer, sentences).make_shards


def _make_shards(
    job: RecordsJob, partial: PartialFolder, num_workers: int, progress: Progress | None
) -> Iterator[dict]:
    """Yield the facts of each shard in the order of the text. Finished blocks are not made again."""

    def find_unfinished() -> Iterator[tuple[tuple, Block | None]]:
        for block in job.read_blocks():
            digest = block.digest
            finished = partial.find_finished(block.index, digest)
            key = block.index, digest, finished, job.text.num_bytes_read, len(block.text)
            yield key, None if finished else block

    num_text_bytes = 0
    results = map_in_order(
        find_unfinished(),
        make_block_worker,
        (job.settings, job.tokenizer, job.text.sentences),
        num_workers=num_workers,
        task="makes records",
    )
    for (index, digest, finished, num_bytes_read, num_block_bytes), shards in results:
        if finished is None:
            finished = partial.finish(index, digest, shards)
        num_text_bytes += num_block_bytes
        if progress is not None:
            progress(num_bytes_read, job.text.num_bytes, num_text_bytes)
        yield from finished["shards"]
