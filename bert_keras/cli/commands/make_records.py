"""Convert text to pretraining records."""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import os
import pathlib
import time
from typing import TYPE_CHECKING

from bert_keras.checks import format_count
from bert_keras.cli.console import (
    ProgressBar,
    Result,
    format_peak_memory,
    get_peak_memory,
    print_line,
    print_settings,
    print_warnings,
)
from bert_keras.cli.options import text_options
from bert_keras.cli.options.argument_checks import check_all
from bert_keras.cli.options.declaring import Options, positive_integer
from bert_keras.errors import InputError
from bert_keras.publishing import check_writable_folder

if TYPE_CHECKING:
    from bert_keras.pipelines.corpus.text_sources import TextSource
    from bert_keras.pipelines.text.portable_tokenizer import TokenizerSpec

_MAX_WORKERS = 6  # one process reads the text for all of them


def add_arguments(options: Options) -> None:
    """Declare the arguments of the command."""
    text = "vocabulary file from learn-vocab, which stores its settings next to it; or a model folder"
    options.add_path("vocabulary", text, metavar="VOCAB")
    options.add_path("out", "output folder")
    text_options.add_text_options(options)
    text = "lines: one sentence per line; split: running text, with one document per file or .jsonl record"
    options.add_option("--sentences", ("lines", "split"), text, "lines")
    text_options.add_tokenizer_options(options)
    options.add_option("--max-sequence-length", positive_integer, "maximum number of tokens per sequence", 128)
    options.add_option(
        "--objective",
        ("nsp", "sop", "none"),
        "nsp: next-sentence prediction, half of the second sentences come from another document; sop: sentence-order "
        "prediction, half of the pairs are swapped; none: sequences of full sentences",
        "nsp",
        dest="sentence_objective",
    )
    options.add_option("--short-sequence-rate", float, "fraction of deliberately short pairs", 0.1)
    options.add_flag("--keep-documents-apart", "with --objective none: a sequence never spans two documents")
    text = "pack several examples into one sequence where they fit"
    options.add_argument("--pack", action="store_true", dest="packed", help=text)
    packed = "with --pack: maximum number of examples per sequence"
    options.add_option("--max-examples-per-sequence", positive_integer, packed, 8)
    options.add_option("--duplicates", positive_integer, "number of times that examples are drawn from each text", 1)
    options.add_option("--held-out-rate", float, "fraction of documents that are held out", 0.01)
    options.add_option("--seed", int, "random seed", 0)
    options.add_workers("processes", _MAX_WORKERS)
    text = "run as an Apache Beam pipeline with these options, as one string: --beam='--runner=FlinkRunner ...'"
    options.add_option("--beam", str, text, metavar="OPTIONS")
    options.add_overwrite()


def run(arguments: argparse.Namespace) -> Result:
    """Run the command, and return its result to print."""
    started = time.monotonic()
    from bert_keras.pipelines.records.beam_records import split_beam_options
    from bert_keras.pipelines.records.settings import WITHOUT_OPTION, RecordSettings
    from bert_keras.pipelines.text.portable_tokenizer import TokenizerSpec
    from bert_keras.pipelines.text.vocabulary_settings import read_vocabulary_and_settings

    given = text_options.get_given_tokenizer_settings(arguments)
    names = [field.name for field in dataclasses.fields(RecordSettings) if field.name not in WITHOUT_OPTION]
    options = {name: getattr(arguments, name) for name in names}
    out, vocabulary = arguments.out, arguments.vocabulary
    _, tokenizer, _, sources, beam_options = check_all(
        lambda: RecordSettings(**options),
        lambda: TokenizerSpec.from_arguments(
            read_vocabulary_and_settings(vocabulary, given, option_names=text_options.TOKENIZER_OPTIONS),
            arguments.max_sequence_length,
        ),
        lambda: check_writable_folder(out, "make-records", overwrite=arguments.overwrite, inputs=[vocabulary]),
        lambda: _find_text(arguments),
        lambda: None if arguments.beam is None else split_beam_options(arguments.beam),
    )
    print_settings("make-records", _describe_settings(arguments, options, tokenizer, sources))
    warnings: list[str] = []
    options |= {name: getattr(arguments, name) for name in ("field", "sentences", "overwrite")}
    options |= {"beam_options": beam_options, "warn": warnings.append}
    manifest, had_workers = _make(arguments, tokenizer, sources, options)
    result = {
        "out": str(arguments.out),
        **manifest,
        "warnings": warnings,
        "seconds": time.monotonic() - started,
        "peak_memory_bytes": get_peak_memory(),
        "worker_peak_memory_bytes": get_peak_memory(of_workers=True) if had_workers else None,
    }
    print_warnings(warnings)
    return _format_result(result), result


def _find_text(arguments: argparse.Namespace) -> list[TextSource] | None:
    if arguments.text is None and arguments.sentences == "split":
        raise InputError(
            "--sentences split is for your own text, and the default text has one sentence per line: add --text"
        )
    return text_options.find_text(arguments.text, out=arguments.out)


def _make(
    arguments: argparse.Namespace, tokenizer: TokenizerSpec, sources: list[TextSource] | None, options: dict
) -> tuple[dict, bool]:
    """Make the records; on this machine, with a progress bar in kB of files and MB of text.

    Returns:
        The manifest, and whether worker processes took part. A text of one block needs no workers.
    """
    from bert_keras.pipelines.records.making_records import make_records

    if arguments.beam is not None:
        return make_records(tokenizer, arguments.out, sources, **options), False
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # for the workers too
    started, had_workers = time.monotonic(), False

    def show_progress(num_bytes: int, total_bytes: int | None, num_text_bytes: int) -> None:
        nonlocal had_workers
        had_workers = had_workers or bool(multiprocessing.active_children())
        rate = num_text_bytes / 1e6 / max(time.monotonic() - started, 1e-9)
        bar.update(-(-num_bytes // 1000), total_bytes and -(-total_bytes // 1000), f"{rate:,.1f} MB/s of text")

    options |= {"num_workers": arguments.workers, "progress": show_progress}
    with ProgressBar("making records", "kB") as bar:
        try:
            return make_records(tokenizer, arguments.out, sources, **options), had_workers
        except KeyboardInterrupt:
            if blocks := _format_resumable_blocks(arguments.out):
                print_line(f"  {blocks}: run the same command again to resume")
            raise


def _format_resumable_blocks(out: pathlib.Path) -> str | None:
    from bert_keras.pipelines.records.records_folder import count_finished_blocks, get_partial_path

    num_blocks = count_finished_blocks(out)
    return f"{num_blocks:,} finished blocks in {get_partial_path(out)}" if num_blocks else None


def _describe_settings(
    arguments: argparse.Namespace, options: dict, tokenizer: TokenizerSpec, sources: list[TextSource] | None
) -> dict[str, object]:
    """Return the resolved settings to print."""
    settings_to_print = {
        "text": text_options.describe_text(arguments.text, sources),
        "sentences": arguments.sentences,
        "vocabulary": arguments.vocabulary,
        "out": arguments.out,
        **text_options.describe_tokenizer(tokenizer.rules, tokenizer.additional_special_tokens),
        **options,
        "workers": arguments.workers if arguments.beam is None else f"those of Beam: {arguments.beam}",
    }
    if arguments.beam is None and (blocks := _format_resumable_blocks(arguments.out)):
        settings_to_print["resumes with"] = blocks
    return settings_to_print


def _format_result(result: dict) -> str:
    share = result["num_tokens"] / (result["num_records"] * result["max_sequence_length"])
    examples = format_count(result["num_examples"], "example")
    records = format_count(result["num_records"], "record")
    documents = format_count(result["num_documents"], "document")
    num_held_out = result["splits"]["held_out"]["num_documents"]
    quality = _format_quality(result["quality"])
    sentence = (
        f"wrote {result['out']}: {examples} in {records}, {share:.1%} real tokens, {quality}, from {documents}, "
        f"{num_held_out:,} of them held out, in {result['seconds']:.1f} s"
    )
    return sentence + format_peak_memory(result)


def _format_quality(quality: dict) -> str:
    """Format the quality measures of a manifest, without full alphabet coverage and a zero share of overlong words."""
    from bert_keras.pipelines.corpus.data_quality import format_percent

    names = {
        "unknown_token_share": "[UNK]",
        "alphabet_coverage": "alphabet coverage",
        "long_word_share": "of the characters in overlong words",
        "random_next_share": "random next sentences",
        "swapped_share": "swapped",
    }
    usual = {"alphabet_coverage": 1, "long_word_share": 0}
    measures = {key: quality[key] for key in names if key in quality and quality[key] != usual.get(key)}
    return ", ".join(f"{format_percent(share)} {names[key]}" for key, share in measures.items())
