"""Learn a WordPiece vocabulary from text."""

import argparse
import pathlib
from collections.abc import Iterator

from bert_keras.cli.checks import (
    add_overwrite,
    add_text,
    check_all,
    check_exists,
    documents,
    positive_integer,
    text_name,
)
from bert_keras.cli.report import ProgressBar, print_result, print_settings
from bert_keras.errors import InputError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", type=pathlib.Path, metavar="OUT", help="the file to write, vocab.txt for example")
    add_text(parser)
    parser.add_argument("--size", type=positive_integer, default=30522, help="pieces at most (default %(default)s)")
    parser.add_argument(
        "--min-frequency", type=positive_integer, default=2, help="occurrences that a piece needs (default %(default)s)"
    )
    parser.add_argument("--cased", action="store_true", help="keep capital letters and accents")
    add_overwrite(parser)


def run(arguments: argparse.Namespace) -> None:
    check_all(
        lambda: _check_out(arguments.out, arguments.overwrite),
        *(lambda path=path: check_exists(path, "a text file") for path in arguments.text or ()),
    )
    print_settings(
        "learn-vocab",
        {
            "text": text_name(arguments.text),
            "out": arguments.out,
            "size": arguments.size,
            "min_frequency": arguments.min_frequency,
            "lowercase": not arguments.cased,
        },
    )
    from bert_keras.pipelines.vocabulary import learn_vocabulary, write_vocabulary

    with ProgressBar("reading", "documents") as bar:
        vocabulary = learn_vocabulary(
            _sentences(arguments.text, bar),
            size=arguments.size,
            lowercase=not arguments.cased,
            min_frequency=arguments.min_frequency,
        )
    write_vocabulary(arguments.out, vocabulary)
    result = {"out": str(arguments.out), "size": len(vocabulary)}
    print_result(f"wrote {arguments.out}: {len(vocabulary):,} pieces", result, as_json=arguments.json)


def _sentences(text: list[pathlib.Path] | None, bar: ProgressBar) -> Iterator[str]:
    for count, document in enumerate(documents(text), 1):
        bar.update(count)
        yield from document


def _check_out(out: pathlib.Path, overwrite: bool) -> None:
    if out.exists() and not (overwrite and out.is_file()):
        raise InputError(f"{out} exists: name another file, or give --overwrite")
