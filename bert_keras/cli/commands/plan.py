"""Compute the parameters, FLOPs, memory, training time and file sizes of a model before you train it.

MODEL is a preset (tiny, mini, small, medium, base, large), a BERT folder, a pretraining recipe (bert, roberta,
electra-small, 24h, cramming, fast) or its TOML file. Parameters, FLOPs and tensors are counted on the
traced model, a multiply and an add as two FLOPs. Process memory and step time are estimates
for this machine, based on its measured speed.
"""

import argparse
import pathlib

from bert_keras.cli.console.quiet import load_tensorflow
from bert_keras.cli.console.report import print_result, print_settings
from bert_keras.cli.options.argument_checks import (
    add_option,
    add_overwrite,
    check_all,
    positive_integer,
    positive_number,
)
from bert_keras.cli.options.model_folder import parse_model_path, read_any_model
from bert_keras.figures import check_matplotlib
from bert_keras.heads import known_heads
from bert_keras.publishing import check_writable_folder

HEADS = tuple(head.plan_name for head in known_heads.HEADS if head.plan_name is not None)
_GIGABYTE = 1e9


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument(
        "model", metavar="MODEL", help="preset, BERT folder, hf://ORG/NAME, recipe, or TOML file of a recipe"
    )
    add_option(parser, "--head", HEADS, "head of the model (default: the head of the folder, else the pooler)")
    add_option(parser, "--num-classes", positive_integer, "number of classes of a new head", 2)
    add_option(parser, "--length", positive_integer, "tokens per sequence (default 128, or that of the recipe)")
    add_option(parser, "--batch-size", positive_integer, "sequences per batch (default 1, or that of the recipe)")
    add_option(parser, "--num-masked", positive_integer, "masked positions per sequence (default: 15 %% of the tokens)")
    add_option(
        parser,
        "--memory",
        positive_number,
        "memory limit of training (default: the memory of this machine)",
        metavar="GB",
    )
    parser.add_argument("--quick", action="store_true", help="skip the memory and the time of training")
    parser.add_argument("--steps", action="store_true", help="print every step of the forward pass with its shapes")
    add_option(parser, "--pictures", pathlib.Path, "draw charts as PNG and SVG into this folder", metavar="OUT")
    add_overwrite(parser)


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    pictures = [
        lambda: check_writable_folder(
            arguments.pictures, "plan", overwrite=arguments.overwrite, inputs=[arguments.model]
        ),
        check_matplotlib,
    ]
    check_all(lambda: _check_model(arguments), *(pictures if arguments.pictures else []))
    print_settings("plan", _describe_settings(arguments))
    load_tensorflow()
    from bert_keras.analysis.cost_model.planning import plan
    from bert_keras.cli.console import plan_tables
    from bert_keras.training.strategies import keep_freed_memory

    keep_freed_memory()  # as in training, because training steps are timed here
    planned = plan(
        arguments.model,
        head=arguments.head,
        num_classes=arguments.num_classes,
        length=arguments.length,
        batch_size=arguments.batch_size,
        num_masked=arguments.num_masked,
        memory_limit=None if arguments.memory is None else int(arguments.memory * _GIGABYTE),
        quick=arguments.quick,
    )
    if arguments.pictures:
        from bert_keras.analysis.cost_model.plan_figures import save_plan_figures

        save_plan_figures(planned, arguments.pictures, overwrite=arguments.overwrite)
    tables = plan_tables.format_tables(planned)
    if arguments.steps:
        tables.append(plan_tables.format_steps(planned))
    print_result("\n\n".join(tables).split("\n"), planned.to_dict(), as_json=arguments.json)


def _check_model(arguments: argparse.Namespace) -> None:
    """Raise `InputError` if MODEL does not exist, or does not accept sequences of the given length."""
    from bert_keras.analysis.cost_model.subjects import check_plan_length, check_preset, read_recipe
    from bert_keras.checkpoints.reading import exists
    from bert_keras.config import BertConfig

    if read_recipe(arguments.model) is not None:
        return
    if exists(arguments.model):
        model = read_any_model(parse_model_path(arguments.model))
        config = None if isinstance(model, pathlib.Path) else model.config
    else:
        check_preset(arguments.model)
        config = BertConfig.from_preset(arguments.model)
    if config is not None and arguments.length is not None:
        check_plan_length(arguments.length, config.max_sequence_length)


def _describe_settings(arguments: argparse.Namespace) -> dict[str, object]:
    return {
        "model": arguments.model,
        "head": arguments.head or "that of the model",
        "length": arguments.length or "128, or that of the recipe",
        "batch_size": arguments.batch_size or "1, or that of the recipe",
    }
