"""Convert a BERT checkpoint to another format."""

from __future__ import annotations

import argparse
import pathlib
from typing import TYPE_CHECKING

from bert_keras.cli.console import Result, print_settings
from bert_keras.cli.interrupts import load_tensorflow
from bert_keras.cli.options.argument_checks import check_all, read_any_model
from bert_keras.cli.options.declaring import Options, parse_model_path
from bert_keras.publishing import check_writable_folder

if TYPE_CHECKING:
    from bert_keras.checkpoints.checkpoint import Checkpoint


def add_arguments(options: Options) -> None:
    """Declare the arguments of the command."""
    options.add_model("source", "Hugging Face, Google TF1, KerasHub or bert-keras folder", metavar="IN")
    options.add_path("out", "output folder")
    text = "output format; huggingface is also the format of bert-keras"
    options.add_option("--to", ("huggingface", "keras_hub"), text, "huggingface")
    text = "merge this LoRA adapter of PEFT (adapter_config.json, adapter_model.safetensors) into the weights"
    options.add_option("--adapter", parse_model_path, text, metavar="FOLDER")
    options.add_overwrite()


def run(arguments: argparse.Namespace) -> Result:
    """Run the command, and return its result to print."""
    from bert_keras.checkpoints.adapters.merged_checkpoint import read_adapter_folder

    adapter = {} if arguments.adapter is None else {"adapter": arguments.adapter}
    inputs = [arguments.source, *adapter.values()]
    source, *_ = check_all(
        lambda: read_any_model(arguments.source),
        *(lambda path=path: read_adapter_folder(path) for path in adapter.values()),
        lambda: check_writable_folder(arguments.out, "convert", overwrite=arguments.overwrite, inputs=inputs),
    )
    source = _merge_adapter(source, arguments.adapter)
    print_settings("convert", {"in": arguments.source, **adapter, "out": arguments.out, "to": arguments.to})
    load_tensorflow()
    from bert_keras.checkpoints import convert

    unmerged = arguments.adapter if isinstance(source, pathlib.Path) else None  # a .keras file, for which it is refused
    model, lost = convert(source, arguments.out, arguments.to, adapter=unmerged, overwrite=arguments.overwrite)
    name, num_parameters = type(model).__name__, model.count_params()
    result = {"out": str(arguments.out), "model": name, "num_parameters": num_parameters, "not_carried_over": lost}
    lines = [
        f"wrote {arguments.out}: {name}, {num_parameters:,} parameters",
        *(f"not carried over: {item}" for item in lost),
    ]
    return lines, result


def _merge_adapter(source: Checkpoint | pathlib.Path, adapter: pathlib.Path | str | None) -> Checkpoint | pathlib.Path:
    """Return the checkpoint with the adapter merged; the path of a `.keras` file, which takes none, unchanged."""
    if adapter is None or isinstance(source, pathlib.Path):
        return source
    from bert_keras.checkpoints.adapters.merged_checkpoint import merge_adapter
    from bert_keras.checkpoints.checkpoint import check_complete

    merged = merge_adapter(source, adapter)
    check_complete(merged)
    return merged
