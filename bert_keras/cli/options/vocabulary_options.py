"""Options that say how a vocabulary splits text, the same for `learn-vocab` and `make-records`."""

import argparse

OPTION_NAMES = {
    "lowercase": "--cased",
    "strip_accents": "--strip-accents / --no-strip-accents",
    "tokenize_chinese_chars": "--chinese-split / --no-chinese-split",
    "additional_special_tokens": "--special-token",
}


def add_vocabulary_options(parser: argparse.ArgumentParser) -> None:
    """Add `--cased`, `--strip-accents`, `--chinese-split` and `--special-token`."""
    parser.add_argument("--cased", action="store_true", help="keep capital letters, and accents with them")
    parser.add_argument(
        "--strip-accents",
        action=argparse.BooleanOptionalAction,
        help="strip accents and non-spacing vowel signs, or keep them (default: strip, or keep with --cased; settings "
        "next to a vocabulary count first)",
    )
    parser.add_argument(
        "--chinese-split",
        action=argparse.BooleanOptionalAction,
        help="split each Chinese character off as a word of its own (default: yes; settings next to a vocabulary "
        "count first)",
    )
    parser.add_argument(
        "--special-token",
        action="append",
        default=[],
        metavar="TOKEN",
        help="a token of your own that is never split, [E1] for example; may be given several times",
    )


def asked_settings(arguments: argparse.Namespace) -> dict:
    """Return the arguments of `BertTokenizer` that the user gave; None where nothing was said."""
    return {
        "lowercase": False if arguments.cased else None,
        "strip_accents": arguments.strip_accents,
        "tokenize_chinese_chars": arguments.chinese_split,
        "additional_special_tokens": arguments.special_token or None,
    }


def shown_settings(rules, special_tokens: tuple[str, ...]) -> dict:
    """Return the resolved settings for people; `rules` are `TextRules`."""
    return {
        "lowercase": rules.lowercase,
        "strip_accents": rules.strip_accents,
        "chinese_split": rules.tokenize_chinese_chars,
        "special_tokens": " ".join(special_tokens) or "none of your own",
    }
