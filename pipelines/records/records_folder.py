"""`write_records`: text to a folder of TFRecord shards with a manifest and the tokenizer's files.

The text is read once, as a stream, and cut into blocks; each block is worked on by one process and becomes one shard a
split. Nothing is masked here: masks are drawn when the records are read, new ones in every epoch.
"""

import contextlib
import dataclasses
import importlib.metadata
import logging
import os
import pathlib
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

from bert_keras import __version__
from bert_keras.checks import check_integer
from bert_keras.errors import InputError
from bert_keras.files import write_json
from bert_keras.pipelines.corpus.data_quality import find_records_warnings
from bert_keras.pipelines.corpus.quiet_import import silence_standard_error
from bert_keras.pipelines.process_pool import map_in_order
from bert_keras.pipelines.records import unfinished_folder as partial_folder
from bert_keras.pipelines.records.blocks import Block, Shard, plan_blocks
from bert_keras.pipelines.records.documents import DocumentText, FileText
from bert_keras.pipelines.records.manifest import COUNTS, FORMAT_VERSION, MANIFEST, QUALITY_COUNTS, make_manifest
from bert_keras.pipelines.records.settings import RecordSettings
from bert_keras.pipelines.records.tokenizer_spec import TokenizerSpec
from bert_keras.publishing import check_writable_folder, publish_folder
from bert_keras.staging import lock_folder

_LOG = logging.getLogger(__name__)
_RESULTS_DEPEND_ON = ("numpy", "sentencex", "tensorflow", "tensorflow-text")


def write_records(
    out: str | os.PathLike,
    text: FileText | DocumentText | Iterable[Sequence[str]],
    tokenizer,
    *,
    num_workers: int = 1,
    overwrite: bool = False,
    progress: Callable[[int, int | None, int], None] | None = None,
    warn: Callable[[str], None] | None = None,
    **settings,
) -> dict:
    """Makes rows of text and writes them as a folder of TFRecord shards, one a block of text and split.

    The folder is a pure function of text, tokenizer and settings. A run that was stopped leaves its finished blocks in
    `.NAME.partial` beside `out`; called again with the same arguments it goes on, and ends with the same bytes.

    Args:
        out: the folder to publish; it appears whole or not at all.
        text: `FileText`, `DocumentText`, or documents, which are lists of sentences. Read once.
        tokenizer: a `BertTokenizer`, or its `TokenizerSpec`; saved beside the records, where
            `BertTokenizer.from_checkpoint(out)` reads it back, and recorded, to be asked for again on reading.
        num_workers: processes that make rows; they change the time only. With more than one, a script must hold its
            work under `if __name__ == "__main__":`, since each imports it.
        overwrite: replace a folder that `make-records` wrote.
        progress: called after each block with the bytes read of the sources, those in all (None: nobody knows), and the
            bytes of text in the blocks that are done.
        warn: called with each sentence of `find_records_warnings`. None: they go to the log.
        **settings: see `RecordSettings`; `max_sequence_length` is required.

    Returns:
        The manifest, as `read_manifest` gives it.

    Raises:
        InputError: `out` may not be written or the disk is full, the text cannot be read or is empty, "nsp" finds one
            document only, or a setting is out of range.

    Example:
        >>> manifest = write_records("out", [["One.", "Two."], ["Three."]], tokenizer, max_sequence_length=128)
        >>> manifest["num_documents"]
        2
    """
    settings = RecordSettings(**settings)
    check_integer("num_workers", num_workers)
    if not isinstance(text, FileText | DocumentText):
        text = DocumentText(text)
    tokenizer = TokenizerSpec.from_tokenizer(tokenizer)
    check_writable_folder(out, "make-records", overwrite=overwrite)
    path = partial_folder.partial_path(out)
    with told_plainly(out, path), lock_folder(path), removed_if_useless(path):
        partial = partial_folder.PartialFolder(path, fingerprint(settings, tokenizer, text))
        shards = list(_shards(partial, settings, tokenizer, text, num_workers, progress))
        manifest = make_manifest(settings, tokenizer, text.sentences, text.facts(), shards)
        publish(out, path, manifest, tokenizer, overwrite=overwrite)
    warn_of_records(manifest, warn)
    return manifest


def warn_of_records(manifest: dict, warn: Callable[[str], None] | None) -> None:
    """Hands each warning about records to `warn`, or to the log."""
    for warning in find_records_warnings(manifest):
        (warn or _LOG.warning)(warning)


def publish(
    out: str | os.PathLike, partial: pathlib.Path, manifest: dict, tokenizer: TokenizerSpec, *, overwrite: bool
) -> None:
    """Makes `out` of the shards of a finished run, and takes the partial folder away.

    Raises:
        InputError: there are no shards.
    """
    if not manifest["shards"]:
        shutil.rmtree(partial)
        raise InputError("the text has no words; expected sentences to make records of: name other files")
    with publish_folder(out, "make-records", overwrite=overwrite) as staging:
        for shard in manifest["shards"]:
            _link(partial / shard["name"], staging / shard["name"])
        tokenizer.save(staging)
        write_json(staging / MANIFEST, manifest)
    shutil.rmtree(partial, ignore_errors=True)


def shard_name(split: str, block: int) -> str:
    """Returns the name of the shard that a block gives to a split."""
    return f"{split}-{block:05d}.tfrecord"


def _shards(
    partial: partial_folder.PartialFolder,
    settings: RecordSettings,
    tokenizer: TokenizerSpec,
    text,
    num_workers: int,
    progress,
) -> Iterator[dict]:
    """Yields what is known of each shard, in the order of the text; finished blocks are not made again."""

    def unfinished() -> Iterator[tuple[tuple, Block | None]]:
        for block in blocks:
            digest = block.digest
            finished = partial.finished(block.index, digest)
            key = block.index, digest, finished, text.num_bytes_read, len(block.text)
            yield key, None if finished else block

    blocks = blocks_of(text, settings)
    arguments = (settings, tokenizer, text.sentences)
    num_text_bytes = 0
    for key, shards in map_in_order(
        unfinished(), make_block_worker, arguments, num_workers=num_workers, task="makes records"
    ):
        index, digest, finished, num_bytes_read, num_block_bytes = key
        if finished is None:
            finished = finish_block(partial, index, digest, shards)
        num_text_bytes += num_block_bytes
        if progress is not None:
            progress(num_bytes_read, text.num_bytes, num_text_bytes)
        yield from finished["shards"]


def blocks_of(text: FileText | DocumentText, settings: RecordSettings) -> Iterator[Block]:
    """Yields the blocks of a text; only next-sentence pairs need other documents, so only they look for them."""
    again = text.again() if settings.sentence_objective == "nsp" else None
    return plan_blocks(
        text.passages(),
        block_bytes=settings.block_bytes,
        seed=settings.seed,
        held_out_rate=settings.held_out_rate,
        read_again=again.passages if again is not None else None,
    )


def finish_block(partial: partial_folder.PartialFolder, index: int, digest: str, shards: dict[str, Shard]) -> dict:
    """Keeps the shards of a block in the partial folder, and returns what is known of them."""
    contents = {shard_name(split, index): shard.content for split, shard in shards.items()}
    facts = [{"split": split, **shard.counts} for split, shard in shards.items()]
    return partial.finish(index, digest, contents, facts)


def make_block_worker(
    settings: RecordSettings, tokenizer: TokenizerSpec, sentences: str, *, num_threads: int | None = None
) -> Callable[[Block], dict]:
    """Returns what makes the shards of a block, `BlockWorker.shards`. Imports TensorFlow, which takes seconds.

    Args:
        settings, tokenizer, sentences: see `BlockWorker`.
        num_threads: how many threads TensorFlow may use in this process; None leaves that as it is.
    """
    with contextlib.nullcontext() if "tensorflow" in sys.modules else silence_standard_error():
        import tensorflow as tf

        from bert_keras.pipelines.records.block_records import BlockWorker

        tf.config.list_physical_devices()  # looks for a GPU, and says so when there is none
    if num_threads is not None:
        tf.config.threading.set_intra_op_parallelism_threads(num_threads)
        tf.config.threading.set_inter_op_parallelism_threads(num_threads)
    return BlockWorker(settings, tokenizer, sentences).shards


def fingerprint(settings: RecordSettings, tokenizer: TokenizerSpec, text: FileText | DocumentText) -> dict:
    """Returns everything that blocks depend on, the text itself excepted: each block knows its own."""
    return {
        "format_version": FORMAT_VERSION,
        **dataclasses.asdict(settings),
        "sentences": text.sentences,
        **tokenizer.identity,
        "tokenizer_sha256": tokenizer.digest,
        "sources": text.names,
        "counts": [*COUNTS, *QUALITY_COUNTS],
        "bert-keras": __version__,
        **{name: importlib.metadata.version(name) for name in _RESULTS_DEPEND_ON},
    }


@contextlib.contextmanager
def told_plainly(out: str | os.PathLike, partial: pathlib.Path) -> Iterator[None]:
    """Turns an error of the disk into a sentence, and says which blocks stay."""
    try:
        yield
    except (InputError, OSError) as error:
        kept = partial_folder.count_finished_blocks(out)
        left = f"; {kept:,} finished blocks stay in {partial}, and the same command goes on with them" if kept else ""
        if isinstance(error, InputError):
            raise InputError(f"{error}{left}") from None
        raise InputError(
            f"{out} cannot be written ({error.filename or partial}: {error.strerror or error}): free some space, "
            f"or name a folder elsewhere{left}"
        ) from None


@contextlib.contextmanager
def removed_if_useless(partial: pathlib.Path) -> Iterator[None]:
    """Takes a partial folder away in which nothing was finished."""
    try:
        yield
    finally:
        if not any(partial.glob("block-*.json")):
            shutil.rmtree(partial, ignore_errors=True)


def _link(source: pathlib.Path, target: pathlib.Path) -> None:
    """Gives a file a second name, so that a run that is killed now still has it under the first."""
    try:
        os.link(source, target)
    except OSError:  # a file system without links
        shutil.copyfile(source, target)
