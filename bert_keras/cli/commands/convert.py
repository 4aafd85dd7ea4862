"""Convert a BERT checkpoint to another format."""

import argparse
import pathlib

from bert_keras.cli.console.quiet import load_tensorflow
from bert_keras.cli.console.report import print_result, print_settings
from bert_keras.cli.options.argument_checks import add_overwrite, check_all
from bert_keras.cli.options.model_folder import parse_model_path, read_any_model
from bert_keras.publishing import check_writable_folder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument(
        "source",
        type=parse_model_path,
        metavar="IN",
        help="Hugging Face, Google TF1, KerasHub or bert-keras folder; or hf://ORG/NAME[@REVISION]",
    )
    parser.add_argument("out", type=pathlib.Path, metavar="OUT", help="output folder")
    parser.add_argument(
        "--to",
        choices=["huggingface", "keras_hub"],
        default="huggingface",
        help="output format; huggingface is also the format of bert-keras (default %(default)s)",
    )
    add_overwrite(parser)


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    source, _ = check_all(
        lambda: read_any_model(arguments.source),
        lambda: check_writable_folder(
            arguments.out, "convert", overwrite=arguments.overwrite, inputs=[arguments.source]
        ),
    )
    print_settings("convert", {"in": arguments.source, "out": arguments.out, "to": arguments.to})
    load_tensorflow()
    from bert_keras.checkpoints import convert

    model, lost = convert(source, arguments.out, arguments.to, overwrite=arguments.overwrite)
    name, num_parameters = type(model).__name__, model.count_params()
    result = {
        "out": str(arguments.out),
        "model": name,
        "num_parameters": num_parameters,
        "not_carried_over": lost,
    }
    lines = [
        f"wrote {arguments.out}: {name}, {num_parameters:,} parameters",
        *(f"not carried over: {item}" for item in lost),
    ]
    print_result(lines, result, as_json=arguments.json)
