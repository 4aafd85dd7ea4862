"""Run the full pipeline, from raw text to an exported classifier, on text that ships with Python.

This takes a few minutes on a laptop.
"""

import argparse
import contextlib
import pathlib
import sys
import textwrap
import time

from bert_keras.cli.console import Result, print_line
from bert_keras.cli.options.declaring import Options
from bert_keras.errors import InputError
from bert_keras.publishing import check_writable_folder

_DEV_EVERY = 5  # every fifth passage is held out
_NUM_QUESTIONS = 4


def add_arguments(options: Options) -> None:
    """Declare the arguments of the command."""
    options.add_path("out", "output folder (default demo)", nargs="?", default=pathlib.Path("demo"))
    options.add_flag("--quick", "train for a few steps only, to check that everything runs")
    options.add_overwrite()


def run(arguments: argparse.Namespace) -> Result:
    """Run the command, and return its result to print."""
    from bert_keras.cli.main import parser
    from bert_keras.cli.running import run_parsed

    _check_out(arguments.out, overwrite=arguments.overwrite)
    started = time.monotonic()
    out = arguments.out
    dev = write_task(out, num_train=200 if arguments.quick else None)
    for command in build_commands(out, quick=arguments.quick):
        print_line("")
        print_line(f"$ bert-keras {' '.join(command)}")
        with contextlib.redirect_stdout(sys.stderr):  # standard output is for the demo's own result
            parsed = parser().parse_args(command + ["--overwrite"] * arguments.overwrite)
            run_parsed(parsed)
    print_line("")
    print_line("Predictions of the exported model, in a fresh process with TensorFlow and tensorflow-text only:")
    answers = query_export(out / "artifacts", dev[:: max(len(dev) // _NUM_QUESTIONS, 1)][:_NUM_QUESTIONS])
    for answer in answers:
        prediction = f"{answer['label']} ({answer['probability']:.0%}), true label {answer['truth']}"
        print_line(f"  {textwrap.shorten(answer['text'], 70, placeholder=' ...'):<70}  -> {prediction}")
    minutes = (time.monotonic() - started) / 60
    result = {"out": str(out), "minutes": minutes, "answers": answers}
    return f"wrote {out} in {minutes:.1f} minutes", result


def _check_out(out: pathlib.Path, *, overwrite: bool) -> None:
    """Raise `InputError` unless OUT is missing, empty, or from an earlier demo; commands check their own outputs."""
    is_full = out.is_dir() and any(out.iterdir())
    if is_full and overwrite and not (out / "task/train.csv").is_file():
        raise InputError(f"{out} is not the folder of an earlier demo, which has task/train.csv: name another folder")
    if not is_full or not overwrite:
        check_writable_folder(out, "demo")


def write_task(out: pathlib.Path, *, num_train: int | None) -> list[tuple[str, str]]:
    """Write `train.csv` and `dev.csv` of the embedded task; return the (text, label) pairs of `dev.csv`."""
    from bert_keras.pipelines.corpus.default_corpus import make_labelled_passages
    from bert_keras.pipelines.readers.labelled_texts import write_labelled_csv

    passages = make_labelled_passages()
    dev = passages[::_DEV_EVERY]
    train = [passage for index, passage in enumerate(passages) if index % _DEV_EVERY]
    (out / "task").mkdir(parents=True, exist_ok=True)
    write_labelled_csv(out / "task/train.csv", train[:: max(len(train) // num_train, 1)] if num_train else train)
    write_labelled_csv(out / "task/dev.csv", dev)
    return dev


def build_commands(out: pathlib.Path, *, quick: bool) -> list[list[str]]:
    """Return the commands of the pipeline with their arguments, as a user would type them."""
    steps, epochs = ("20", "1") if quick else ("600", "4")
    compilation = ["--no-xla"] if quick else []  # compiling a step takes longer than running 20 of them
    training = ["--epochs", epochs, "--learning-rate", "5e-4", "--max-sequence-length", "64"]
    paths = {name: str(out / name) for name in ("vocab.txt", "records", "pretrained", "classifier", "artifacts")}
    task = ["--train", str(out / "task/train.csv"), "--dev", str(out / "task/dev.csv")]
    return [
        ["learn-vocab", paths["vocab.txt"], "--size", "8000"],
        ["make-records", paths["vocab.txt"], paths["records"], "--max-sequence-length", "64"],
        ["pretrain", paths["records"], paths["pretrained"], "--preset", "tiny", "--steps", steps, *compilation],
        ["finetune", paths["pretrained"], paths["classifier"], *task, *training],
        ["export", paths["classifier"], paths["artifacts"], "--to", "saved_model"],
    ]


def query_export(artifacts: pathlib.Path, questions: list[tuple[str, str]]) -> list[dict]:
    """Classify texts with the exported SavedModel, in a process that does not import this package."""
    from bert_keras.export.parity.fresh_process import query_artifact
    from bert_keras.export.parity.probe_inputs import to_bytes_array
    from bert_keras.export.targets import get_next_version

    latest = artifacts / "saved_model" / str(get_next_version(artifacts / "saved_model") - 1)
    request = ("serving_default", {"text": to_bytes_array([text for text, _ in questions])})
    [outputs] = query_artifact("saved_model", latest, [request]).outputs
    return [
        {"text": text, "truth": truth, "label": label.decode(), "probability": float(probabilities.max())}
        for (text, truth), label, probabilities in zip(
            questions, outputs["label"], outputs["probabilities"], strict=True
        )
    ]
