"""Options shared by `learn-vocab` and `make-records`: which text to read, and how the tokenizer splits it."""

from __future__ import annotations

import argparse
import pathlib
from typing import TYPE_CHECKING

from bert_keras.cli.options.declaring import Options
from bert_keras.publishing import check_holds_no_input

if TYPE_CHECKING:
    from bert_keras.pipelines.corpus.text_sources import TextSource
    from bert_keras.pipelines.text.text_rules import TextRules

# arguments of `BertTokenizer` -> the options that set them
TOKENIZER_OPTIONS = {
    "lowercase": "--cased",
    "strip_accents": "--strip-accents / --no-strip-accents",
    "tokenize_chinese_chars": "--chinese-split / --no-chinese-split",
    "additional_special_tokens": "--special-token",
}


def add_text_options(options: Options) -> None:
    """Add `--text` and `--field`, which select the text to read."""
    options.add_argument(
        "--text",
        nargs="+",
        metavar="TEXT",
        help="UTF-8 text, one sentence per line, with a blank line between documents: files, folders (searched for "
        ".txt .text .md .jsonl), quoted patterns such as 'books/**/*.txt', or - for standard input; .gz files are "
        "decompressed (default: text that ships with Python)",
    )
    options.add_argument(
        "--field", default="text", help="field of .jsonl records that contains the text (default %(default)s)"
    )


def add_tokenizer_options(options: Options) -> None:
    """Add `--cased`, `--strip-accents`, `--chinese-split` and `--special-token`."""
    options.add_flag("--cased", "do not lowercase the text; accents are not stripped")
    accents = "strip accents and non-spacing vowel signs (default: yes, or no with --cased; make-records: as stored "
    options.add_flag("--strip-accents", accents + "with VOCAB)", has_negative=True)
    chinese = "make each Chinese character a word (default: yes; make-records: as stored with VOCAB)"
    options.add_flag("--chinese-split", chinese, has_negative=True)
    options.add_repeatable("--special-token", "TOKEN", "additional special token, such as [E1], which is never split")


def get_given_tokenizer_settings(arguments: argparse.Namespace) -> dict[str, object]:
    """Return the tokenizer options as arguments of `BertTokenizer`; None for those that were not given."""
    return {
        "lowercase": False if arguments.cased else None,
        "strip_accents": arguments.strip_accents,
        "tokenize_chinese_chars": arguments.chinese_split,
        "additional_special_tokens": arguments.special_token or None,
    }


def describe_tokenizer(rules: TextRules, special_tokens: tuple[str, ...]) -> dict[str, object]:
    """Return the resolved tokenizer settings to print."""
    return {
        "lowercase": rules.lowercase,
        "strip_accents": rules.strip_accents,
        "chinese_split": rules.tokenize_chinese_chars,
        "special_tokens": " ".join(special_tokens) or "no additional ones",
    }


def find_text(text: list[str] | None, *, out: pathlib.Path) -> list[TextSource] | None:
    """Find the files that `--text` names; None if the option was not given.

    Raises:
        InputError: a file does not exist, or lies inside `out`.
    """
    if text is None:
        return None
    from bert_keras.pipelines.corpus.text_sources import find_sources

    sources = find_sources(text)
    check_holds_no_input(out, [source.path for source in sources if source.path is not None])
    return sources


def describe_text(text: list[str] | None, sources: list[TextSource] | None) -> str:
    """Return the text to read with its number of files and size, to print."""
    from bert_keras.pipelines.corpus.text_sources import PROSE, get_total_bytes

    if text is None:
        return PROSE
    num_bytes = get_total_bytes(sources)
    size = "size unknown" if num_bytes is None else f"{num_bytes / 1e6:,.1f} MB"
    names = " ".join("standard input" if name == "-" else name for name in text)
    return f"{names} ({len(sources):,} {'file' if len(sources) == 1 else 'files'}, {size})"
