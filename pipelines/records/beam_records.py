"""`write_records` on Apache Beam, for text too large for one machine.

The pipeline is sources -> blocks -> Reshuffle -> shards -> manifest. One worker reads the text and cuts it into blocks,
since the number of a document depends on all text before it. All workers make shards of blocks, with the same bytes as
`write_records`. Text and output are in folders that every worker can access: a disk, NFS, a mounted bucket.
"""

import contextlib
import os
import pathlib
import shlex
import types
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from bert_keras.errors import InputError
from bert_keras.extras import check_installed
from bert_keras.files import read_json
from bert_keras.pipelines.records import records_folder
from bert_keras.pipelines.records.documents import Block, DocumentText, FileText
from bert_keras.pipelines.records.manifest import make_manifest
from bert_keras.pipelines.records.records_folder import PartialFolder
from bert_keras.pipelines.records.settings import RecordSettings
from bert_keras.pipelines.text.tokenizer_spec import TokenizerSpec

if TYPE_CHECKING:
    from bert_keras.pipelines.text.tokenizer import BertTokenizer

_TEXT_FACTS = "text.json"
_ERROR = "error.json"


def split_beam_options(options: str) -> list[str]:
    """Split the options of Beam in one string as a shell does.

    Raises:
        InputError: Apache Beam is not installed, or a quote is not closed.
    """
    _import_beam()
    try:
        return shlex.split(options)
    except ValueError as error:
        raise InputError(f"the Beam options {options!r} cannot be split ({error}): close the quote") from None


def write_records_with_beam(
    out: str | os.PathLike,
    text: FileText | DocumentText,
    tokenizer: "BertTokenizer | TokenizerSpec",
    *,
    options: Sequence[str] = (),
    overwrite: bool = False,
    warn: Callable[[str], None] | None = None,
    **settings: object,
) -> dict:
    """Write the same bytes as `write_records`, as a Beam pipeline.

    Args:
        out: the folder to write, on a file system that all workers share.
        text: the text, with paths that all workers share; not standard input.
        tokenizer: a `BertTokenizer` or its `TokenizerSpec`.
        options: arguments of Beam's `PipelineOptions`, such as `--runner=FlinkRunner`.
        overwrite, warn: see `make_records`.
        **settings: fields of `RecordSettings`.

    Returns:
        The manifest.

    Raises:
        InputError: see `make_records`; Apache Beam is not installed; or the pipeline failed.
    """
    beam = _import_beam()
    settings, tokenizer = RecordSettings(**settings), TokenizerSpec.from_tokenizer(tokenizer)
    if "standard input" in text.names:
        raise InputError("Beam's workers cannot read standard input: write the text to a file, and pass its name")
    with records_folder.open_partial_folder(out, overwrite=overwrite) as path:
        path = path.absolute()
        job = _Job(path, settings, tokenizer, text)
        (path / _ERROR).unlink(missing_ok=True)
        _run(beam, job, list(options))
        facts = read_json(path / _TEXT_FACTS)
        partial = job.open_partial_folder()
        shards = [shard for index in range(facts["num_blocks"]) for shard in partial.read_block(index)["shards"]]
        manifest = make_manifest(settings, tokenizer, text.sentences, facts["sources"], shards)
        records_folder.publish_records(out, path, manifest, tokenizer, overwrite=overwrite)
    records_folder.report_warnings(manifest, warn)
    return manifest


class _Job:
    """The two steps of the pipeline and the partial folder for their results. Picklable: it is sent to the workers."""

    def __init__(
        self,
        path: pathlib.Path,
        settings: RecordSettings,
        tokenizer: TokenizerSpec,
        text: FileText | DocumentText,
    ):
        self._path, self._settings, self._tokenizer, self._text = path, settings, tokenizer, text
        self._fingerprint = records_folder.make_fingerprint(settings, tokenizer, text)
        self.open_partial_folder()

    def open_partial_folder(self) -> PartialFolder:
        """Return the partial folder. The first caller prepares it for this job."""
        return PartialFolder(self._path, self._fingerprint)

    def read_blocks(self, _: None) -> Iterator[Block]:
        """Yield the unfinished blocks, then store the facts about the text."""
        partial, num_blocks = self.open_partial_folder(), 0
        with self._store_errors():
            for block in records_folder.read_blocks(self._text, self._settings):
                num_blocks += 1
                if partial.find_finished(block.index, block.digest) is None:
                    yield block
            partial.write_json(_TEXT_FACTS, {"num_blocks": num_blocks, "sources": self._text.facts()})

    def make_worker(self) -> Callable[[Block], None]:
        """Return the function that makes and stores the shards of a block."""
        work = records_folder.make_block_worker(self._settings, self._tokenizer, self._text.sentences)
        partial = self.open_partial_folder()

        def finish(block: Block) -> None:
            with self._store_errors():
                partial.finish(block.index, block.digest, work(block))

        return finish

    def read_error(self) -> str | None:
        """Return the message that a worker stored before it failed."""
        path = self._path / _ERROR
        return read_json(path)["message"] if path.exists() else None

    @contextlib.contextmanager
    def _store_errors(self) -> Iterator[None]:
        """Store the message of an `InputError` in the partial folder, since a runner loses the class of errors."""
        try:
            yield
        except InputError as error:
            self.open_partial_folder().write_json(_ERROR, {"message": str(error)})
            raise


def _run(beam: types.ModuleType, job: _Job, options: list[str]) -> None:
    """Run the pipeline and wait for its end."""

    class MakeShards(beam.DoFn):
        """The step of the workers."""

        def setup(self) -> None:
            """Create the worker once per process."""
            self._finish = job.make_worker()

        def process(self, block: Block) -> Iterator[int]:
            """Write the shards of a block and yield its index."""
            self._finish(block)
            yield block.index

    try:
        with beam.Pipeline(options=beam.options.pipeline_options.PipelineOptions(options)) as pipeline:
            start = pipeline | "start" >> beam.Create([None])
            blocks = start | "blocks" >> beam.FlatMap(job.read_blocks)
            blocks | "spread" >> beam.Reshuffle() | "shards" >> beam.ParDo(MakeShards())
    except Exception as error:  # each runner raises its own class
        message = job.read_error() or f"the Beam pipeline failed ({str(error).strip().splitlines()[-1]})"
        raise InputError(message) from (None if job.read_error() else error)


def _import_beam() -> types.ModuleType:
    check_installed("--beam", "apache-beam", "beam")
    import apache_beam

    return apache_beam
