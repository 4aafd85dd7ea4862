"""Learn a WordPiece vocabulary from text."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from bert_keras.cli.console import (
    ProgressBar,
    Result,
    format_peak_memory,
    get_peak_memory,
    print_settings,
    print_warnings,
)
from bert_keras.cli.options import text_options
from bert_keras.cli.options.argument_checks import check_all
from bert_keras.cli.options.declaring import Options, non_negative_integer, positive_integer
from bert_keras.files import compute_digest
from bert_keras.publishing import check_writable_file

if TYPE_CHECKING:
    from bert_keras.pipelines.corpus.text_sources import TextSource
    from bert_keras.pipelines.text.text_rules import TextRules

_MAX_WORKERS = 8  # one process reads the text for all of them: 0.75 s of reading per 2.4 s of counting


def add_arguments(options: Options) -> None:
    """Declare the arguments of the command."""
    options.add_path("out", "output file, such as vocab.txt")
    text_options.add_text_options(options)
    options.add_option("--size", positive_integer, "maximum number of tokens", 30522)
    options.add_option("--min-frequency", positive_integer, "minimum number of occurrences of a token", 2)
    text_options.add_tokenizer_options(options)
    options.add_option(
        "--alphabet",
        positive_integer,
        "maximum number of characters in the alphabet, the most frequent ones first; words with other characters "
        "become [UNK] (default: 1,000, or as many as cover 99.95%% of the text, as far as --size permits)",
    )
    options.add_option("--unused", non_negative_integer, "number of reserved tokens [unused0], [unused1], ...", 0)
    text = "maximum number of distinct words in memory, 0.9 GB per million; the rarest words beyond it are discarded"
    options.add_option("--max-words", positive_integer, text, 1_000_000)
    options.add_workers("processes that count words", _MAX_WORKERS)
    options.add_overwrite()


def run(arguments: argparse.Namespace) -> Result:
    """Run the command, and return its result to print."""
    started = time.monotonic()
    from bert_keras.pipelines.text.learned_vocabulary import learn_vocabulary
    from bert_keras.pipelines.text.text_rules import TextRules
    from bert_keras.pipelines.text.vocabulary import make_leading_tokens
    from bert_keras.pipelines.text.vocabulary_settings import get_settings_path

    *_, leading, sources = check_all(
        lambda: check_writable_file(arguments.out, overwrite=arguments.overwrite),
        lambda: check_writable_file(get_settings_path(arguments.out), overwrite=arguments.overwrite),
        lambda: make_leading_tokens(arguments.special_token, arguments.unused, size=arguments.size),
        lambda: text_options.find_text(arguments.text, out=arguments.out),
    )
    given = text_options.get_given_tokenizer_settings(arguments)
    rules = TextRules(**{name: given[name] for name in vars(TextRules()) if given.get(name) is not None})
    print_settings("learn-vocab", _describe_settings(arguments, rules, leading, sources))
    with _stage_bars() as progress:
        learned = learn_vocabulary(
            sources,
            arguments.out,
            **{name: getattr(arguments, name) for name in ("field", "size", "min_frequency", "max_words", "overwrite")},
            lowercase=rules.lowercase,
            strip_accents=rules.strip_accents,
            tokenize_chinese_chars=rules.tokenize_chinese_chars,
            special_tokens=tuple(arguments.special_token),
            num_unused=arguments.unused,
            alphabet_size=arguments.alphabet,
            num_workers=arguments.workers,
            progress=progress,
        )
    result = {
        "out": str(arguments.out),
        "settings": str(get_settings_path(arguments.out)),
        "sha256": compute_digest(arguments.out)["sha256"],
        "size": len(learned.tokens),
        "num_words": learned.num_words,
        "num_distinct_words": learned.num_distinct_words,
        "num_forgotten": learned.num_forgotten,
        **learned.statistics,
        "warnings": learned.warnings,
        "seconds": time.monotonic() - started,
        "peak_memory_bytes": get_peak_memory(),
        "worker_peak_memory_bytes": get_peak_memory(of_workers=True) if learned.num_workers > 1 else None,
    }
    print_warnings(learned.warnings)
    return _format_result(result), result


def _describe_settings(
    arguments: argparse.Namespace, rules: TextRules, leading: list[str], sources: list[TextSource] | None
) -> dict[str, object]:
    shown = leading if len(leading) < 12 else [*leading[:3], "...", *leading[-6:]]
    return {
        "text": text_options.describe_text(arguments.text, sources),
        "field": arguments.field,
        "out": arguments.out,
        **text_options.describe_tokenizer(rules, tuple(arguments.special_token)),
        "first_tokens": f"{' '.join(shown)} ({len(leading):,})",
        "alphabet": "by coverage" if arguments.alphabet is None else arguments.alphabet,
        **{name: getattr(arguments, name) for name in ("size", "min_frequency", "max_words", "workers")},
    }


@contextlib.contextmanager
def _stage_bars() -> Iterator[Callable[[str, int, int | None], None]]:
    """Show a progress bar for each stage of `learn_vocabulary`, one after the other: reading in kB, then learning."""
    with contextlib.ExitStack() as stack:
        bars = {"reading": stack.enter_context(ProgressBar("reading", "kB"))}

        def update(stage: str, done: int, total: int | None) -> None:
            if stage not in bars:
                stack.close()
                # the trainer receives 30 million words/s and merges them afterwards, so the rate is no measure of speed
                bars[stage] = stack.enter_context(ProgressBar(stage, "words", has_rate=False))
            if stage == "reading":
                done, total = done // 1000, total and -(-total // 1000)
            bars[stage].update(done, total)

        yield update


def _format_result(result: dict) -> str:
    from bert_keras.pipelines.corpus.data_quality import format_percent

    sentence = (
        f"wrote {result['out']} and {result['settings']}: {result['size']:,} of {result['vocabulary_size_asked']:,} "
        f"tokens from {result['num_words']:,} words, {result['num_distinct_words']:,} of them distinct, with an "
        f"alphabet that covers {format_percent(result['alphabet_coverage'])} of the text, in {result['seconds']:.1f} s"
    )
    if result["num_forgotten"]:
        sentence += f"; {result['num_forgotten']:,} words were discarded (--max-words)"
    return sentence + format_peak_memory(result)
