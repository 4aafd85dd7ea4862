"""Learn a WordPiece vocabulary from text."""

import argparse
import contextlib
import pathlib
import time
from collections.abc import Callable, Iterator

from bert_keras.cli.console.report import (
    ProgressBar,
    memory_note,
    peak_memory_bytes,
    print_result,
    print_settings,
    print_warnings,
)
from bert_keras.cli.options.argument_checks import (
    add_overwrite,
    add_text,
    check_all,
    find_text,
    num_cores,
    positive_integer,
    text_name,
    whole_number,
)
from bert_keras.cli.options.vocabulary_options import add_vocabulary_options, asked_settings, shown_settings
from bert_keras.files import compute_digest
from bert_keras.publishing import check_writable_file

_MAX_WORKERS = 8  # one process reads for all of them: 0.75 s of work for each 2.4 s of counting


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", type=pathlib.Path, metavar="OUT", help="the file to write, vocab.txt for example")
    add_text(parser)
    parser.add_argument("--size", type=positive_integer, default=30522, help="tokens at most (default %(default)s)")
    parser.add_argument(
        "--min-frequency", type=positive_integer, default=2, help="occurrences that a token needs (default %(default)s)"
    )
    add_vocabulary_options(parser)
    parser.add_argument(
        "--alphabet",
        type=positive_integer,
        metavar="N",
        help="characters at most, the most frequent ones; words with others become [UNK] (default: 1,000, or as many "
        "as cover 99.95%% of the text, as far as there is room)",
    )
    parser.add_argument(
        "--unused", type=whole_number, default=0, metavar="N", help="slots [unused0] ... kept for later (default 0)"
    )
    parser.add_argument(
        "--max-words",
        type=positive_integer,
        default=1_000_000,
        help="distinct words in memory, 0.9 GB a million; beyond it the rarest are forgotten (default %(default)s)",
    )
    parser.add_argument(
        "--workers",
        type=positive_integer,
        default=min(num_cores(), _MAX_WORKERS),
        help="processes that count words; changes the time only (default: the cores of this machine, 8 at most)",
    )
    add_overwrite(parser)


def run(arguments: argparse.Namespace) -> None:
    started = time.monotonic()
    from bert_keras.pipelines.text.vocabulary_settings import settings_path

    *_, leading, sources = check_all(
        lambda: check_writable_file(arguments.out, overwrite=arguments.overwrite),
        lambda: check_writable_file(settings_path(arguments.out), overwrite=arguments.overwrite),
        lambda: _leading_tokens(arguments),
        lambda: find_text(arguments.text, out=arguments.out),
    )
    rules = _text_rules(arguments)
    special_tokens = tuple(arguments.special_token)
    settings = {name: getattr(arguments, name) for name in ("size", "min_frequency", "max_words", "workers")}
    print_settings(
        "learn-vocab",
        {
            "text": text_name(arguments.text, sources),
            "field": arguments.field,
            "out": arguments.out,
            **shown_settings(rules, special_tokens),
            "first_tokens": _in_short(leading),
            "alphabet": "by coverage" if arguments.alphabet is None else arguments.alphabet,
            **settings,
        },
    )
    from bert_keras.pipelines.text.learning.learned_vocabulary import learn_vocabulary

    with _stage_bars() as progress:
        learned = learn_vocabulary(
            sources,
            arguments.out,
            field=arguments.field,
            size=arguments.size,
            min_frequency=arguments.min_frequency,
            lowercase=rules.lowercase,
            strip_accents=rules.strip_accents,
            tokenize_chinese_chars=rules.tokenize_chinese_chars,
            special_tokens=special_tokens,
            num_unused=arguments.unused,
            alphabet_size=arguments.alphabet,
            max_words=arguments.max_words,
            num_workers=arguments.workers,
            overwrite=arguments.overwrite,
            progress=progress,
        )
    result = {
        "out": str(arguments.out),
        "settings": str(settings_path(arguments.out)),
        "sha256": compute_digest(arguments.out)["sha256"],
        "size": len(learned.tokens),
        "num_words": learned.num_words,
        "num_distinct_words": learned.num_distinct_words,
        "num_forgotten": learned.num_forgotten,
        **learned.statistics,
        "warnings": learned.warnings,
        "seconds": time.monotonic() - started,
        "peak_memory_bytes": peak_memory_bytes(),
        "worker_peak_memory_bytes": peak_memory_bytes(of_workers=True) if learned.num_workers > 1 else None,
    }
    print_warnings(learned.warnings)
    print_result(_sentence(result), result, as_json=arguments.json)


@contextlib.contextmanager
def _stage_bars() -> Iterator[Callable[[str, int, int | None], None]]:
    """Show a progress bar for each stage of `learn_vocabulary`, one after the other: reading in kB, then learning."""
    with contextlib.ExitStack() as stack:
        bars = {"reading": stack.enter_context(ProgressBar("reading", "kB"))}

        def update(stage: str, done: int, total: int | None) -> None:
            if stage not in bars:
                stack.close()
                bars[stage] = stack.enter_context(ProgressBar(stage, "words"))
            if stage == "reading":
                done, total = done // 1000, total and -(-total // 1000)
            bars[stage].update(done, total)

        yield update


def _text_rules(arguments: argparse.Namespace):
    from bert_keras.pipelines.text.text_rules import TextRules

    asked = asked_settings(arguments)
    return TextRules(
        **{name: value for name, value in asked.items() if value is not None and name in vars(TextRules())}
    )


def _leading_tokens(arguments: argparse.Namespace) -> list[str]:
    from bert_keras.pipelines.text.learning.leading_tokens import make_leading_tokens

    return make_leading_tokens(arguments.special_token, arguments.unused, size=arguments.size)


def _in_short(tokens: list[str]) -> str:
    return " ".join(tokens if len(tokens) < 12 else [*tokens[:3], "...", *tokens[-6:]]) + f" ({len(tokens):,})"


def _sentence(result: dict) -> str:
    from bert_keras.pipelines.corpus.data_quality import format_percent

    sentence = (
        f"wrote {result['out']} and {result['settings']}: {result['size']:,} of {result['vocabulary_size_asked']:,} "
        f"tokens from {result['num_words']:,} words, {result['num_distinct_words']:,} of them distinct, an alphabet "
        f"that covers {format_percent(result['alphabet_coverage'])} of the text, in {result['seconds']:.1f} s"
    )
    if result["num_forgotten"]:
        sentence += f"; {result['num_forgotten']:,} words were forgotten (--max-words)"
    return sentence + memory_note(result)
