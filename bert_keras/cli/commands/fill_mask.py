"""Say which words a model would write in the place of [MASK]."""

import argparse
import dataclasses
import pathlib

from bert_keras.cli.console.quiet import load_tensorflow
from bert_keras.cli.console.report import print_result, print_settings
from bert_keras.cli.options.argument_checks import check_all, check_unicode, positive_integer
from bert_keras.cli.options.model_folder import read_model
from bert_keras.errors import InputError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        type=pathlib.Path,
        metavar="MODEL",
        help="a BERT or ELECTRA folder with a masked-LM head and a WordPiece vocabulary",
    )
    parser.add_argument(
        "texts", nargs="+", metavar="TEXT", help="a text with [MASK] in it, in quotes; - for lines of standard input"
    )
    parser.add_argument(
        "--top-k", type=positive_integer, default=5, help="how many proposals for each [MASK] (default %(default)s)"
    )


def run(arguments: argparse.Namespace) -> None:
    from bert_keras.tasks.mask_checks import check_has_masked_lm, check_have_masks, check_top_k

    checkpoint, texts = check_all(lambda: read_model(arguments.model), lambda: list(_texts(arguments.texts)))
    check_has_masked_lm(checkpoint.model, has_generator=checkpoint.generator is not None)
    check_top_k(arguments.top_k, len(checkpoint.tokenizer_settings["vocabulary"]))
    check_have_masks(texts)
    load_tensorflow()
    from bert_keras.checkpoints import load, load_tokenizer
    from bert_keras.tasks.mask_filling import fill_mask

    model, tokenizer = load(checkpoint), load_tokenizer(checkpoint)
    name = f"{arguments.model} ({type(model).__name__}, {model.count_params():,} parameters)"
    print_settings("fill-mask", {"model": name, "texts": len(texts), "top_k": arguments.top_k})
    filled = fill_mask(model, tokenizer, texts, top_k=arguments.top_k)
    result = [
        {"text": text, "masks": [[dataclasses.asdict(filling) for filling in of_mask] for of_mask in masks]}
        for text, masks in zip(texts, filled, strict=True)
    ]
    lines = []
    for text, masks in zip(texts, filled, strict=True):
        lines += [*([""] if lines else []), *_table(text, masks)]
    print_result(lines, {"model": str(arguments.model), "texts": result}, as_json=arguments.json)


def _texts(arguments: list[str]):
    """Yields the texts; "-" stands for the lines of standard input that are not blank."""
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


def _table(text: str, masks: list) -> list[str]:
    """Return lines: a text, and below it the proposals for its masks."""
    lines = [text]
    for number, fillings in enumerate(masks, 1):
        if len(masks) > 1:
            lines.append(f"  [MASK] {number} of {len(masks)}")
        width = max(len(filling.token) for filling in fillings)
        lines += [f"  {filling.probability:6.1%}  {filling.token:<{width}}  {filling.text}" for filling in fillings]
    return lines
