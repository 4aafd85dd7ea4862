"""Make pretraining records from text and a vocabulary."""

import argparse
import contextlib
import dataclasses
import multiprocessing
import os
import pathlib
import time
from collections.abc import Iterator

from bert_keras.checks import format_count
from bert_keras.cli.console.report import (
    ProgressBar,
    memory_note,
    peak_memory_bytes,
    print_result,
    print_settings,
    print_warnings,
)
from bert_keras.cli.console.terminal import print_line
from bert_keras.cli.options.argument_checks import (
    add_overwrite,
    add_text,
    check_all,
    find_text,
    num_cores,
    positive_integer,
    text_name,
)
from bert_keras.cli.options.vocabulary_options import (
    OPTION_NAMES,
    add_vocabulary_options,
    asked_settings,
    shown_settings,
)
from bert_keras.errors import InputError
from bert_keras.publishing import check_writable_folder

_MAX_WORKERS = 6  # one process reads for all of them


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "vocabulary",
        type=pathlib.Path,
        metavar="VOCAB",
        help="the vocabulary file, with the settings beside it that learn-vocab wrote; or a model folder",
    )
    parser.add_argument("out", type=pathlib.Path, metavar="OUT", help="the folder to write")
    add_text(parser)
    parser.add_argument(
        "--sentences",
        choices=("lines", "split"),
        default="lines",
        help="lines: one sentence a line; split: running text, each file or .jsonl record a document (default lines)",
    )
    add_vocabulary_options(parser)
    parser.add_argument(
        "--max-sequence-length", type=positive_integer, default=128, help="tokens a row (default %(default)s)"
    )
    parser.add_argument(
        "--objective",
        choices=("nsp", "sop", "none"),
        default="nsp",
        help="nsp: half of the second sentences are of another document; sop: half of the pairs are swapped; none: "
        "rows of full sentences (default nsp)",
    )
    parser.add_argument("--short-sequence-rate", type=float, default=0.1, help="share of short pairs (default 0.1)")
    parser.add_argument("--keep-documents-apart", action="store_true", help="with none: no row spans two documents")
    parser.add_argument("--pack", action="store_true", help="several examples in a row, where they fit")
    parser.add_argument(
        "--max-examples-per-sequence",
        type=positive_integer,
        default=8,
        help="with --pack: how many (default %(default)s)",
    )
    parser.add_argument(
        "--duplicates", type=positive_integer, default=1, help="how often examples are drawn of a text (default 1)"
    )
    parser.add_argument("--held-out-rate", type=float, default=0.01, help="share of documents held out (default 0.01)")
    parser.add_argument("--seed", type=int, default=0, help="decides everything random (default %(default)s)")
    parser.add_argument(
        "--workers",
        type=positive_integer,
        default=min(num_cores(), _MAX_WORKERS),
        help=f"processes; they change the time only (default: the cores of this machine, {_MAX_WORKERS} at most)",
    )
    parser.add_argument(
        "--beam",
        metavar="OPTIONS",
        help="run as an Apache Beam pipeline with these options, in one string: --beam='--runner=FlinkRunner ...'",
    )
    add_overwrite(parser)


def run(arguments: argparse.Namespace) -> None:
    started = time.monotonic()
    settings, tokenizer, _, sources, beam_options = check_all(
        lambda: _settings(arguments),
        lambda: _tokenizer(arguments),
        lambda: check_writable_folder(
            arguments.out, "make-records", overwrite=arguments.overwrite, inputs=[arguments.vocabulary]
        ),
        lambda: _find_text(arguments),
        lambda: _beam_options(arguments),
    )
    print_settings("make-records", _shown(arguments, settings, tokenizer, sources))
    warnings: list[str] = []
    options = {
        **dataclasses.asdict(settings),
        "field": arguments.field,
        "sentences": arguments.sentences,
        "beam_options": beam_options,
        "overwrite": arguments.overwrite,
        "warn": warnings.append,
    }
    del options["block_bytes"]  # not an option of the command
    manifest, had_workers = _make(arguments, tokenizer, sources, options)
    result = {
        "out": str(arguments.out),
        **manifest,
        "warnings": warnings,
        "seconds": time.monotonic() - started,
        "peak_memory_bytes": peak_memory_bytes(),
        "worker_peak_memory_bytes": peak_memory_bytes(of_workers=True) if had_workers else None,
    }
    print_warnings(warnings)
    print_result(_sentence(result), result, as_json=arguments.json)


def _settings(arguments: argparse.Namespace):
    from bert_keras.pipelines.records import RecordSettings

    return RecordSettings(
        max_sequence_length=arguments.max_sequence_length,
        sentence_objective=arguments.objective,
        short_sequence_rate=arguments.short_sequence_rate,
        keep_documents_apart=arguments.keep_documents_apart,
        packed=arguments.pack,
        max_examples_per_sequence=arguments.max_examples_per_sequence,
        duplicates=arguments.duplicates,
        held_out_rate=arguments.held_out_rate,
        seed=arguments.seed,
    )


def _tokenizer(arguments: argparse.Namespace):
    from bert_keras.pipelines.records import TokenizerSpec
    from bert_keras.pipelines.text.vocabulary_settings import read_vocabulary_and_settings

    asked = asked_settings(arguments)
    settings = read_vocabulary_and_settings(arguments.vocabulary, asked, option_names=OPTION_NAMES)
    return TokenizerSpec.from_arguments(settings, arguments.max_sequence_length)


def _find_text(arguments: argparse.Namespace) -> list | None:
    if arguments.text is None and arguments.sentences == "split":
        raise InputError(
            "--sentences split is for text of your own, and the default text has its sentences: add --text"
        )
    return find_text(arguments.text, out=arguments.out)


def _beam_options(arguments: argparse.Namespace) -> list[str] | None:
    if arguments.beam is None:
        return None
    from bert_keras.pipelines.records.beam_records import split_beam_options

    return split_beam_options(arguments.beam)


def _make(arguments: argparse.Namespace, tokenizer, sources: list | None, options: dict) -> tuple[dict, bool]:
    """Make the records; on this machine, with a progress bar in kB of files and MB of text.

    Returns:
        The manifest, and whether worker processes took part. A text of one block has none.
    """
    from bert_keras.pipelines.records import make_records

    if arguments.beam is not None:
        return make_records(tokenizer, arguments.out, sources, **options), False
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # for the workers too
    started, had_workers = time.monotonic(), False

    def show(num_bytes: int, whole: int | None, num_text_bytes: int) -> None:
        nonlocal had_workers
        had_workers = had_workers or bool(multiprocessing.active_children())
        rate = num_text_bytes / 1e6 / max(time.monotonic() - started, 1e-9)
        bar.update(-(-num_bytes // 1000), whole and -(-whole // 1000), f"{rate:,.1f} MB/s of text")

    with ProgressBar("making records", "kB") as bar, _telling_what_stays(arguments.out):
        manifest = make_records(
            tokenizer, arguments.out, sources, num_workers=arguments.workers, progress=show, **options
        )
    return manifest, had_workers


@contextlib.contextmanager
def _telling_what_stays(out: pathlib.Path) -> Iterator[None]:
    """Tells who interrupts the work that it can go on."""
    try:
        yield
    except KeyboardInterrupt:
        if kept := _resumable(out):
            print_line(f"  {kept}: the same command goes on with them")
        raise


def _resumable(out: pathlib.Path) -> str | None:
    from bert_keras.pipelines.records.partial_folder import count_finished_blocks, partial_path

    kept = count_finished_blocks(out)
    return f"{kept:,} finished blocks in {partial_path(out)}" if kept else None


def _shown(arguments: argparse.Namespace, settings, tokenizer, sources: list | None) -> dict:
    """Returns the resolved settings, for people."""
    shown = {
        "text": text_name(arguments.text, sources),
        "sentences": arguments.sentences,
        "vocabulary": arguments.vocabulary,
        "out": arguments.out,
        **shown_settings(tokenizer.rules, tokenizer.additional_special_tokens),
        **dataclasses.asdict(settings),
        "workers": arguments.workers if arguments.beam is None else f"Beam's: {arguments.beam}",
    }
    if arguments.beam is None and (kept := _resumable(arguments.out)):
        shown["goes on with"] = kept
    return shown


def _sentence(result: dict) -> str:
    share = result["num_tokens"] / (result["num_records"] * result["max_sequence_length"])
    examples, records = format_count(result["num_examples"], "example"), format_count(result["num_records"], "record")
    documents = format_count(result["num_documents"], "document")
    sentence = (
        f"wrote {result['out']}: {examples} in {records}, {share:.1%} real tokens, {_quality(result['quality'])}, of "
        f"{documents}, {result['splits']['held_out']['num_documents']:,} of them held out, in {result['seconds']:.1f} s"
    )
    return sentence + memory_note(result)


def _quality(quality: dict) -> str:
    """Returns the shares of a manifest, for people."""
    from bert_keras.pipelines.corpus.data_quality import format_percent

    names = {
        "unknown_token_share": "[UNK]",
        "alphabet_coverage": "of the characters known",
        "long_word_share": "in too long words",
        "random_next_share": "random next sentences",
        "swapped_share": "swapped",
    }
    return ", ".join(f"{format_percent(quality[key])} {text}" for key, text in names.items() if key in quality)
