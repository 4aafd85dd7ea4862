"""The same records by Apache Beam, for text past one machine: sources -> blocks -> Reshuffle -> shards -> manifest.

One worker reads the text and cuts it into blocks, since the number of a document depends on all text before it; all
others make shards of blocks, byte for byte those of `write_records`. Text and output lie in folders that every worker
sees: a disk, NFS, a mounted bucket.
"""

import contextlib
import functools
import pathlib
import shlex
from collections.abc import Callable, Iterator, Sequence

from bert_keras.errors import InputError
from bert_keras.extras import check_installed
from bert_keras.files import read_json
from bert_keras.pipelines.records import records_folder as local
from bert_keras.pipelines.records import unfinished_folder as partial_folder
from bert_keras.pipelines.records.blocks import Block
from bert_keras.pipelines.records.documents import DocumentText, FileText
from bert_keras.pipelines.records.manifest import make_manifest
from bert_keras.pipelines.records.settings import RecordSettings
from bert_keras.pipelines.records.tokenizer_spec import TokenizerSpec
from bert_keras.publishing import check_writable_folder
from bert_keras.staging import lock_folder

_TEXT_FACTS = "text.json"
_ERROR = "error.json"


def beam_writer(options: str) -> Callable[..., dict]:
    """Returns `write_records_with_beam` with the options of Beam in one string, as in a shell.

    Raises:
        InputError: Apache Beam is not installed, or the string has an open quote.
    """
    _import_beam()
    try:
        return functools.partial(write_records_with_beam, options=shlex.split(options))
    except ValueError as error:
        raise InputError(f"the Beam options {options!r} cannot be split ({error}): close the quote") from None


def write_records_with_beam(
    out,
    text: FileText | DocumentText,
    tokenizer,
    *,
    options: Sequence[str] = (),
    overwrite: bool = False,
    warn: Callable[[str], None] | None = None,
    **settings,
) -> dict:
    """Writes what `write_records` writes, the same bytes, as a Beam pipeline.

    Args:
        out: the folder to publish, on a file system that all workers share.
        text: what to read, with paths that all workers share; standard input cannot be read.
        tokenizer: a `BertTokenizer` or its `TokenizerSpec`.
        options: arguments of Beam's `PipelineOptions`, such as `--runner=FlinkRunner`.
        overwrite: replace a folder that `make-records` wrote.
        warn: called with each sentence of `find_records_warnings`. None: they go to the log.
        **settings: see `RecordSettings`.

    Returns:
        The manifest.

    Raises:
        InputError: as `write_records`; Apache Beam is not installed; or the pipeline failed.
    """
    beam = _import_beam()
    settings, tokenizer = RecordSettings(**settings), TokenizerSpec.from_tokenizer(tokenizer)
    if "standard input" in text.names:
        raise InputError("Beam's workers cannot read standard input: write the text to a file, and name that")
    check_writable_folder(out, "make-records", overwrite=overwrite)
    path = partial_folder.partial_path(out).absolute()
    with local.told_plainly(out, path), lock_folder(path), local.removed_if_useless(path):
        job = _Job(path, settings, tokenizer, text)
        (path / _ERROR).unlink(missing_ok=True)
        _run(beam, job, list(options))
        facts = read_json(path / _TEXT_FACTS)
        partial = job.partial()
        shards = [shard for index in range(facts["num_blocks"]) for shard in partial.block(index)["shards"]]
        manifest = make_manifest(settings, tokenizer, text.sentences, facts["sources"], shards)
        local.publish(out, path, manifest, tokenizer, overwrite=overwrite)
    local.warn_of_records(manifest, warn)
    return manifest


class _Job:
    """The two pure steps, and the partial folder in which they leave their results; goes to the workers as it is."""

    def __init__(self, path: pathlib.Path, settings: RecordSettings, tokenizer: TokenizerSpec, text):
        self._path, self._settings, self._tokenizer, self._text = path, settings, tokenizer, text
        self._fingerprint = local.fingerprint(settings, tokenizer, text)
        self.partial()

    def partial(self) -> partial_folder.PartialFolder:
        """Returns the partial folder, made ready for this job by whoever comes first."""
        return partial_folder.PartialFolder(self._path, self._fingerprint)

    def blocks(self, _) -> Iterator[Block]:
        """Yields the blocks that are not finished yet; behind the last one, what was read is written down."""
        partial, num_blocks = self.partial(), 0
        with self._telling_the_driver():
            for block in local.blocks_of(self._text, self._settings):
                num_blocks += 1
                if partial.finished(block.index, block.digest) is None:
                    yield block
            partial.write_json(_TEXT_FACTS, {"num_blocks": num_blocks, "sources": self._text.facts()})

    def worker(self) -> Callable[[Block], None]:
        """Returns what makes the shards of a block and keeps them."""
        work = local.make_block_worker(self._settings, self._tokenizer, self._text.sentences)
        partial = self.partial()

        def keep(block: Block) -> None:
            with self._telling_the_driver():
                local.finish_block(partial, block.index, block.digest, work(block))

        return keep

    def error(self) -> str | None:
        """Returns what a worker wrote down before it failed."""
        path = self._path / _ERROR
        return read_json(path)["message"] if path.exists() else None

    @contextlib.contextmanager
    def _telling_the_driver(self) -> Iterator[None]:
        """Writes bad input down where the driver finds it: on its way through a runner an error loses its class."""
        try:
            yield
        except InputError as error:
            self.partial().write_json(_ERROR, {"message": str(error)})
            raise


def _run(beam, job: _Job, options: list[str]) -> None:
    """Runs the pipeline to its end."""

    class MakeShards(beam.DoFn):
        def setup(self):
            self._keep = job.worker()

        def process(self, block):
            self._keep(block)
            yield block.index

    try:
        with beam.Pipeline(options=beam.options.pipeline_options.PipelineOptions(options)) as pipeline:
            start = pipeline | "start" >> beam.Create([None])
            blocks = start | "blocks" >> beam.FlatMap(job.blocks)
            blocks | "spread" >> beam.Reshuffle() | "shards" >> beam.ParDo(MakeShards())
    except Exception as error:  # a runner's own class, whichever runner that is
        message = job.error() or f"the Beam pipeline failed ({str(error).strip().splitlines()[-1]})"
        raise InputError(message) from (None if job.error() else error)


def _import_beam():
    check_installed("--beam", "apache-beam", "beam")
    import apache_beam

    return apache_beam
