"""`write_records` on Apache Beam, for text too large for one machine.

The pipeline is sources -> blocks -> Reshuffle -> shards -> manifest. One worker reads the text and cuts it into blocks,
since the number of a document depends on all text before it. All workers make shards of blocks, with the same bytes as
`write_records`. Text and output are in folders that every worker can access: a disk, NFS, a mounted bucket.
"""

import contextlib
import dataclasses
import pathlib
import shlex
import types
from collections.abc import Callable, Iterator, Sequence

from bert_keras.errors import InputError
from bert_keras.extras import check_installed
from bert_keras.files import read_json
from bert_keras.pipelines.records.documents import Block
from bert_keras.pipelines.records.making_records import RecordsJob, make_block_worker
from bert_keras.pipelines.records.records_folder import PartialFolder

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


def make_shards_with_beam(job: RecordsJob, path: pathlib.Path, options: Sequence[str]) -> tuple[list[dict], list[dict]]:
    """Make the shards of a job as a Beam pipeline, with the bytes that one machine would write.

    Args:
        job: text, tokenizer and settings.
        path: the partial folder.
        options: arguments of Beam's `PipelineOptions`, such as `--runner=FlinkRunner`.

    Returns:
        The facts of the sources of text, and of the shards.

    Raises:
        InputError: the text is standard input, Apache Beam is not installed, or the pipeline failed.
    """
    beam = _import_beam()
    if "standard input" in job.text.names:
        raise InputError("Beam's workers cannot read standard input: write the text to a file, and pass its name")
    steps = _Steps(job, path.absolute(), job.make_fingerprint())
    partial = steps.open_partial_folder()
    (path / _ERROR).unlink(missing_ok=True)
    _run(beam, steps, list(options))
    facts = read_json(path / _TEXT_FACTS)
    return facts["sources"], [
        shard for index in range(facts["num_blocks"]) for shard in partial.read_block(index)["shards"]
    ]


@dataclasses.dataclass(frozen=True)
class _Steps:
    """The two steps of the pipeline and the partial folder for their results. Picklable: it is sent to the workers."""

    job: RecordsJob
    path: pathlib.Path
    fingerprint: dict

    def open_partial_folder(self) -> PartialFolder:
        """Return the partial folder. The first caller prepares it for this job."""
        return PartialFolder(self.path, self.fingerprint)

    def read_blocks(self, _: None) -> Iterator[Block]:
        """Yield the unfinished blocks, then store the facts about the text."""
        partial, num_blocks = self.open_partial_folder(), 0
        with self._store_errors():
            for block in self.job.read_blocks():
                num_blocks += 1
                if partial.find_finished(block.index, block.digest) is None:
                    yield block
            partial.write_json(_TEXT_FACTS, {"num_blocks": num_blocks, "sources": self.job.text.facts()})

    def make_worker(self) -> Callable[[Block], None]:
        """Return the function that makes and stores the shards of a block."""
        work = make_block_worker(self.job.settings, self.job.tokenizer, self.job.text.sentences)
        partial = self.open_partial_folder()

        def finish(block: Block) -> None:
            with self._store_errors():
                partial.finish(block.index, block.digest, work(block))

        return finish

    def read_error(self) -> str | None:
        """Return the message that a worker stored before it failed."""
        path = self.path / _ERROR
        return read_json(path)["message"] if path.exists() else None

    @contextlib.contextmanager
    def _store_errors(self) -> Iterator[None]:
        """Store the message of an `InputError` in the partial folder, since a runner loses the class of errors."""
        try:
            yield
        except InputError as error:
            self.open_partial_folder().write_json(_ERROR, {"message": str(error)})
            raise


def _run(beam: types.ModuleType, steps: _Steps, options: list[str]) -> None:
    """Run the pipeline and wait for its end."""

    class MakeShards(beam.DoFn):
        """The step of the workers."""

        def setup(self) -> None:
            """Create the worker once per process."""
            self._finish = steps.make_worker()

        def process(self, block: Block) -> Iterator[int]:
            """Write the shards of a block and yield its index."""
            self._finish(block)
            yield block.index

    try:
        with beam.Pipeline(options=beam.options.pipeline_options.PipelineOptions(options)) as pipeline:
            start = pipeline | "start" >> beam.Create([None])
            blocks = start | "blocks" >> beam.FlatMap(steps.read_blocks)
            blocks | "spread" >> beam.Reshuffle() | "shards" >> beam.ParDo(MakeShards())
    except Exception as error:  # each runner raises its own class
        message = steps.read_error() or f"the Beam pipeline failed ({str(error).strip().splitlines()[-1]})"
        raise InputError(message) from (None if steps.read_error() else error)


def _import_beam() -> types.ModuleType:
    check_installed("--beam", "apache-beam", "beam")
    import apache_beam

    return apache_beam
