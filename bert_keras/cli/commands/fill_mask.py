"""Predict the most probable tokens for [MASK]."""

import argparse
import dataclasses
from collections.abc import Iterator

from bert_keras.cli.console import Result, print_settings
from bert_keras.cli.interrupts import load_tensorflow
from bert_keras.cli.options.argument_checks import check_all, check_unicode, read_model
from bert_keras.cli.options.declaring import Options, positive_integer
from bert_keras.errors import InputError


def add_arguments(options: Options) -> None:
    """Declare the arguments of the command."""
    options.add_model("model", "BERT or ELECTRA folder with a masked-LM head and a WordPiece vocabulary")
    options.add_argument(
        "texts", nargs="+", metavar="TEXT", help="quoted text that contains [MASK]; - for the lines of standard input"
    )
    options.add_option("--top-k", positive_integer, "number of predictions per [MASK]", 5)


def run(arguments: argparse.Namespace) -> Result:
    """Run the command, and return its result to print."""
    from bert_keras.heads.fill_mask.mask_checks import check_has_masked_lm, check_have_masks, check_top_k

    checkpoint, texts = check_all(lambda: read_model(arguments.model), lambda: list(_read_texts(arguments.texts)))
    check_has_masked_lm(checkpoint.model, has_generator=checkpoint.generator is not None)
    check_top_k(arguments.top_k, len(checkpoint.tokenizer_settings["vocabulary"]))
    check_have_masks(texts)
    load_tensorflow()
    from bert_keras.checkpoints import load, load_tokenizer
    from bert_keras.engines.mask_filling import fill_mask

    model, tokenizer = load(checkpoint), load_tokenizer(checkpoint)
    name = f"{arguments.model} ({type(model).__name__}, {model.count_params():,} parameters)"
    print_settings(arguments.command, {"model": name, "texts": len(texts), "top_k": arguments.top_k})
    filled = fill_mask(model, tokenizer, texts, top_k=arguments.top_k)
    result = [
        {"text": text, "masks": [[dataclasses.asdict(filling) for filling in fillings] for fillings in masks]}
        for text, masks in zip(texts, filled, strict=True)
    ]
    lines = []
    for text, masks in zip(texts, filled, strict=True):
        lines += [*([""] if lines else []), text]
        for number, fillings in enumerate(masks, 1):
            if len(masks) > 1:
                lines.append(f"  [MASK] {number} of {len(masks)}")
            width = max(len(filling.token) for filling in fillings)
            lines += [f"  {filling.probability:6.1%}  {filling.token:<{width}}  {filling.text}" for filling in fillings]
    return lines, {"model": str(arguments.model), "texts": result}


def _read_texts(arguments: list[str]) -> Iterator[str]:
    """Yield the texts; "-" stands for the non-blank lines of standard input."""
    from bert_keras.pipelines.corpus.text_lines import read_numbered_lines

    check_unicode(arguments)
    for text in arguments:
        if text != "-":
            yield text
            continue
        lines = [line.strip() for _, line in read_numbered_lines("-")]
        if not any(lines):
            raise InputError("standard input has no text; expected lines with [MASK] in them: pipe them in")
        yield from filter(None, lines)
