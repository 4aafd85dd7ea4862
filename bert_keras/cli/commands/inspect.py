"""Visualize a model: attention, heads, scores, vectors, predictions; or its training curves.

OUT contains index.html, a self-contained page that works offline, and the figures as PNG and SVG. A second text makes
a pair; for question answering it is the context. With --training, the page shows the training curves of MODEL instead.
Layers and heads are counted from 0.
"""

import argparse
import collections
import pathlib

from bert_keras.cli.console import Result, print_settings
from bert_keras.cli.interrupts import load_tensorflow
from bert_keras.cli.options.argument_checks import check_all, check_exists, check_unicode, read_model
from bert_keras.cli.options.declaring import Options, non_negative_integer, positive_integer
from bert_keras.errors import InputError
from bert_keras.figures import check_matplotlib
from bert_keras.hub.names import is_hub_name
from bert_keras.publishing import check_writable_folder


def add_arguments(options: Options) -> None:
    """Declare the arguments of the command."""
    options.add_model("model", "BERT or ELECTRA folder with a WordPiece vocabulary")
    options.add_argument(
        "texts", nargs="*", default=[], metavar="TEXT", help="quoted text, and a second one for a pair"
    )
    options.add_option("--out", pathlib.Path, "output folder", metavar="OUT", required=True)
    options.add_flag("--training", "show the training curves of MODEL")
    options.add_option("--layer", non_negative_integer, "layer to draw (default: all)")
    options.add_option("--head", non_negative_integer, "head to draw (default: all)")
    options.add_option("--top-k", positive_integer, "number of predictions per [MASK]", 5)
    options.add_flag("--no-pictures", "write only the page, without figures; does not need matplotlib")
    options.add_overwrite()


def run(arguments: argparse.Namespace) -> Result:
    """Run the command, and return its result to print."""
    out = arguments.out
    check_all(
        lambda: _check_model(arguments),
        lambda: check_writable_folder(out, "inspect", overwrite=arguments.overwrite, inputs=[arguments.model]),
        lambda: _check_texts(arguments),
        *([] if arguments.no_pictures else [check_matplotlib]),
    )
    return (_training if arguments.training else _inspect_text)(arguments)


def _check_model(arguments: argparse.Namespace) -> None:
    """Raise `InputError` if the folder cannot be used, or does not have the given layer or head."""
    from bert_keras.analysis.inspection.summaries import check_index

    if arguments.training:
        if is_hub_name(arguments.model):
            raise InputError(f"--training reads files that are not downloaded from {arguments.model}: name a folder")
        return check_exists(arguments.model, "a checkpoint folder")
    config = read_model(arguments.model).config
    check_index("layer", arguments.layer, config.num_layers)
    return check_index("head", arguments.head, config.num_heads)


def _check_texts(arguments: argparse.Namespace) -> None:
    count = len(arguments.texts)
    if arguments.training:
        if count or arguments.layer is not None or arguments.head is not None:
            raise InputError(
                "--training takes no texts, --layer or --head; expected MODEL and --out: leave out the rest"
            )
    elif not 1 <= count <= 2:
        raise InputError(f"there are {count} texts; expected one, or two for a pair: put each in quotes")
    check_unicode(arguments.texts)


def _inspect_text(arguments: argparse.Namespace) -> Result:
    load_tensorflow()
    from bert_keras.analysis.inspection.inspecting import inspect

    print_settings("inspect", _describe_settings(arguments))
    inspection = inspect(
        arguments.model, *arguments.texts, layer=arguments.layer, head=arguments.head, top_k=arguments.top_k
    )
    files = inspection.save(arguments.out, pictures=not arguments.no_pictures, overwrite=arguments.overwrite)
    kinds = collections.Counter(head.kind for head in inspection.heads)
    counted = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    contents = f"{len(inspection.tokens):,} tokens, {len(inspection.heads):,} heads ({counted})"
    return _make_result(arguments, files, contents, inspection.to_dict())


def _training(arguments: argparse.Namespace) -> Result:
    from bert_keras.analysis.inspection.training_history import read_training_history, save_training_history

    history = read_training_history(arguments.model)
    print_settings("inspect", _describe_settings(arguments))
    pictures = not arguments.no_pictures
    files = save_training_history(history, arguments.out, pictures=pictures, overwrite=arguments.overwrite)
    return _make_result(arguments, files, f"{len(history.charts):,} curves", {"scores": history.scores})


def _make_result(arguments: argparse.Namespace, files: list[str], contents: str, result: dict) -> Result:
    sentence = f"wrote {arguments.out}: open {arguments.out / files[0]}; {contents}"
    return sentence, {"out": str(arguments.out), "files": files, **result}


def _describe_settings(arguments: argparse.Namespace) -> dict[str, object]:
    shown = {"model": arguments.model, "out": arguments.out}
    for name, text in zip(("text", "second text"), arguments.texts, strict=False):
        shown[name] = text
    if not arguments.training:
        shown["layer"] = "all" if arguments.layer is None else str(arguments.layer)
        shown["head"] = "all" if arguments.head is None else str(arguments.head)
    shown["pictures"] = "none" if arguments.no_pictures else "PNG and SVG"
    return shown
