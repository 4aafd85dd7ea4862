"""`write_records`: text to a folder of TFRecord shards with a manifest and the tokenizer's files.

The text is read once, as a stream, and cut into blocks. Each block is processed by one process and becomes one shard
per split. Nothing is masked here: masks are drawn when the records are read, new ones in every epoch.

The finished blocks of a run are in `.NAME.partial` next to the output folder, so that the same command resumes where it
stopped. A block is finished when its JSON file exists, which is written last, synced and renamed.
"""

import contextlib
import dataclasses
import hashlib
import importlib.metadata
import json
import logging
import os
import pathlib
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from bert_keras import __version__
from bert_keras.checks import check_integer
from bert_keras.errors import InputError
from bert_keras.files import check_digest, read_json, write_json
from bert_keras.pipelines.corpus.data_quality import find_records_warnings
from bert_keras.pipelines.process_pool import map_in_order
from bert_keras.pipelines.quiet_import import import_tensorflow_quietly
from bert_keras.pipelines.records.documents import Block, DocumentText, FileText, Shard, plan_blocks
from bert_keras.pipelines.records.manifest import COUNTS, FORMAT_VERSION, MANIFEST, QUALITY_COUNTS, make_manifest
from bert_keras.pipelines.records.settings import RecordSettings
from bert_keras.pipelines.text.portable_tokenizer import write_settings
from bert_keras.pipelines.text.tokenizer_spec import TokenizerSpec
from bert_keras.publishing import check_writable_folder, get_companion_folder, publish_folder
from bert_keras.staging import lock_folder

if TYPE_CHECKING:
    from bert_keras.pipelines.text.tokenizer import BertTokenizer

_LOG = logging.getLogger(__name__)
_RESULTS_DEPEND_ON = ("numpy", "sentencex", "tensorflow", "tensorflow-text")
Progress = Callable[[int, int | None, int], None]
_FINGERPRINT = "run.json"


def write_records(
    out: str | os.PathLike,
    text: FileText | DocumentText | Iterable[Sequence[str]],
    tokenizer: "BertTokenizer | TokenizerSpec",
    *,
    num_workers: int = 1,
    overwrite: bool = False,
    progress: Progress | None = None,
    warn: Callable[[str], None] | None = None,
    **settings: object,
) -> dict:
    """Write records of a text. `make_records` is the same for users, with text and vocabulary by path.

    Args:
        out: the folder to write.
        text: a `FileText`, a `DocumentText`, or documents, which are lists of sentences. Read once.
        tokenizer: a `BertTokenizer` or its `TokenizerSpec`.
        num_workers, overwrite, progress, warn: see `make_records`.
        **settings: fields of `RecordSettings`; `max_sequence_length` is required.

    Returns:
        The manifest, as `read_manifest` returns it.

    Raises:
        InputError: see `make_records`.

    Example:
        >>> tokenizer = bk.BertTokenizer.from_vocabulary("demo/vocab.txt")
        >>> manifest = write_records("my/out", [["One.", "Two."], ["Three."]], tokenizer, max_sequence_length=128)
        >>> manifest["num_documents"]
        2
    """
    settings = RecordSettings(**settings)
    check_integer("num_workers", num_workers)
    if not isinstance(text, FileText | DocumentText):
        text = DocumentText(text)
    tokenizer = TokenizerSpec.from_tokenizer(tokenizer)
    with open_partial_folder(out, overwrite=overwrite) as path:
        partial = PartialFolder(path, make_fingerprint(settings, tokenizer, text))
        shards = list(_make_shards(partial, settings, tokenizer, text, num_workers, progress))
        manifest = make_manifest(settings, tokenizer, text.sentences, text.facts(), shards)
        publish_records(out, path, manifest, tokenizer, overwrite=overwrite)
    report_warnings(manifest, warn)
    return manifest


@contextlib.contextmanager
def open_partial_folder(out: str | os.PathLike, *, overwrite: bool) -> Iterator[pathlib.Path]:
    """Yield the locked partial folder of `out`; remove it at the end if it has no finished block.

    Raises:
        InputError: `out` cannot be written, or an error inside the context; the message says which blocks remain.
    """
    check_writable_folder(out, "make-records", overwrite=overwrite)
    path = get_partial_path(out)
    try:
        with lock_folder(path):
            try:
                yield path
            finally:
                if not any(path.glob("block-*.json")):
                    shutil.rmtree(path, ignore_errors=True)
    except (InputError, OSError) as error:
        num_finished = count_finished_blocks(out)
        left = (
            f"; {num_finished:,} finished blocks remain in {path}, and the same command resumes with them"
            if num_finished
            else ""
        )
        if isinstance(error, InputError):
            raise InputError(f"{error}{left}") from None
        raise InputError(
            f"{out} cannot be written ({error.filename or path}: {error.strerror or error}): free some space, or "
            f"choose a folder on another disk{left}"
        ) from None


def publish_records(
    out: str | os.PathLike, partial: pathlib.Path, manifest: dict, tokenizer: TokenizerSpec, *, overwrite: bool
) -> None:
    """Publish the shards of a finished run as `out` and remove the partial folder.

    Raises:
        InputError: there are no shards.
    """
    if not manifest["shards"]:
        shutil.rmtree(partial)
        raise InputError("the text has no words; expected sentences to make records of: pass other files")
    with publish_folder(out, "make-records", overwrite=overwrite) as staging:
        for shard in manifest["shards"]:
            _link(partial / shard["name"], staging / shard["name"])
        write_settings(staging, tokenizer)
        write_json(staging / MANIFEST, manifest)
    shutil.rmtree(partial, ignore_errors=True)


def report_warnings(manifest: dict, warn: Callable[[str], None] | None) -> None:
    """Pass each warning about the data to `warn`, or to the log."""
    for warning in find_records_warnings(manifest):
        (warn or _LOG.warning)(warning)


def read_blocks(text: FileText | DocumentText, settings: RecordSettings) -> Iterator[Block]:
    """Yield the blocks of a text. Only next-sentence pairs need other documents, so only they reread the text."""
    reopened = text.reopen() if settings.sentence_objective == "nsp" else None
    return plan_blocks(
        text.passages(),
        block_bytes=settings.block_bytes,
        seed=settings.seed,
        held_out_rate=settings.held_out_rate,
        reread=None if reopened is None else reopened.passages,
    )


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


def make_fingerprint(settings: RecordSettings, tokenizer: TokenizerSpec, text: FileText | DocumentText) -> dict:
    """Return everything that blocks depend on, except for the text, whose digest is stored with each block."""
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


def get_partial_path(out: str | os.PathLike) -> pathlib.Path:
    """Return the path of the partial folder of `out`."""
    return get_companion_folder(out, "partial")


def count_finished_blocks(out: str | os.PathLike) -> int:
    """Return the number of blocks that an unfinished run left. Whether they are still valid is checked on reading."""
    return len(list(get_partial_path(out).glob("block-*.json")))


class PartialFolder:
    """The finished blocks of one run.

    Args:
        path: the existing folder at `get_partial_path`.
        fingerprint: JSON of everything the blocks depend on, except for the text. Blocks of a run with another
            fingerprint are deleted, and a warning is logged.
    """

    def __init__(self, path: pathlib.Path, fingerprint: dict):
        self.path = path
        fingerprint = json.loads(json.dumps(fingerprint))
        differences = self._list_differences(fingerprint)
        if differences:
            _LOG.warning(
                "%s holds an unfinished run with other settings (%s): starting afresh", path, "; ".join(differences)
            )
        if differences or not (path / _FINGERPRINT).exists():
            for entry in path.iterdir():
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
            self.write_json(_FINGERPRINT, fingerprint)

    def _list_differences(self, fingerprint: dict) -> list[str]:
        try:
            before = read_json(self.path / _FINGERPRINT)
        except InputError:  # missing or damaged: nothing is known about the blocks
            return []
        keys = [key for key in fingerprint | before if fingerprint.get(key) != before.get(key)]
        return [f"{key} {_shorten(before.get(key))} there, {_shorten(fingerprint.get(key))} here" for key in keys]

    def find_finished(self, index: int, digest: str) -> dict | None:
        """Return the result of `finish` for a block if its text and its shards are unchanged, otherwise None."""
        path = self.path / _format_block_name(index)
        if not path.exists():
            return None
        try:
            facts = read_json(path)
            if facts.get("block_sha256") != digest:
                _LOG.warning("the text of block %d has changed since %s was started: remaking it", index, self.path)
                return None
            for shard in facts["shards"]:
                check_digest(self.path / shard["name"], shard)
        except (InputError, KeyError, TypeError) as error:
            _LOG.warning("%s: remaking the block", error)
            return None
        return facts

    def finish(self, index: int, digest: str, shards: Mapping[str, Shard]) -> dict:
        """Store the shards of a block, keyed by split, and return their facts for the manifest under "shards"."""
        facts = []
        for split, shard in shards.items():
            name = f"{split}-{index:05d}.tfrecord"
            with self._replace(name) as staging:
                staging.write_bytes(shard.content)
            sha256 = hashlib.sha256(shard.content).hexdigest()
            facts.append({"name": name, "split": split, **shard.counts, "sha256": sha256, "bytes": len(shard.content)})
        block = {"block_sha256": digest, "shards": facts}
        self.write_json(_format_block_name(index), block)
        return block

    def read_block(self, index: int) -> dict:
        """Return the result of `finish` for a block."""
        return read_json(self.path / _format_block_name(index))

    def write_json(self, name: str, value: dict) -> None:
        """Write a JSON file atomically."""
        with self._replace(name) as staging:
            write_json(staging, value)

    @contextlib.contextmanager
    def _replace(self, name: str) -> Iterator[pathlib.Path]:
        """Yield a temporary path that becomes `name` once it is synced to disk."""
        staging = self.path / f".{name}.{uuid.uuid4().hex}.tmp"  # on a cluster two workers may write the same block
        try:
            yield staging
            with open(staging, "rb+") as file:
                os.fsync(file.fileno())
            os.replace(staging, self.path / name)
        finally:
            staging.unlink(missing_ok=True)


def _format_block_name(index: int) -> str:
    return f"block-{index:05d}.json"


def _shorten(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) < 40 else f"{text[:30]}..."


def _make_shards(
    partial: PartialFolder,
    settings: RecordSettings,
    tokenizer: TokenizerSpec,
    text: FileText | DocumentText,
    num_workers: int,
    progress: Progress | None,
) -> Iterator[dict]:
    """Yield the facts of each shard in the order of the text. Finished blocks are not made again."""

    def find_unfinished() -> Iterator[tuple[tuple, Block | None]]:
        for block in read_blocks(text, settings):
            digest = block.digest
            finished = partial.find_finished(block.index, digest)
            key = block.index, digest, finished, text.num_bytes_read, len(block.text)
            yield key, None if finished else block

    num_text_bytes = 0
    results = map_in_order(
        find_unfinished(),
        make_block_worker,
        (settings, tokenizer, text.sentences),
        num_workers=num_workers,
        task="makes records",
    )
    for (index, digest, finished, num_bytes_read, num_block_bytes), shards in results:
        if finished is None:
            finished = partial.finish(index, digest, shards)
        num_text_bytes += num_block_bytes
        if progress is not None:
            progress(num_bytes_read, text.num_bytes, num_text_bytes)
        yield from finished["shards"]


def _link(source: pathlib.Path, target: pathlib.Path) -> None:
    """Hard-link a file, so that a run that is killed now still has it under its first name."""
    try:
        os.link(source, target)
    except OSError:  # the file system has no links
        shutil.copyfile(source, target)
