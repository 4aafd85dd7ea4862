"""Run the full pipeline on text that ships with Python, in minutes."""

import argparse
import contextlib
import pathlib
import sys
import time

from bert_keras.cli.console.report import print_result
from bert_keras.cli.console.terminal import print_line
from bert_keras.cli.options.argument_checks import add_overwrite
from bert_keras.errors import InputError
from bert_keras.publishing import check_writable_folder

_DEV_EVERY = 5  # each fifth passage is held out
_NUM_QUESTIONS = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "out", type=pathlib.Path, metavar="OUT", nargs="?", default=pathlib.Path("demo"), help="folder (default demo)"
    )
    parser.add_argument("--quick", action="store_true", help="a few steps of each training, to see that it all runs")
    add_overwrite(parser)


def run(arguments: argparse.Namespace) -> None:
    _check_out(arguments.out, overwrite=arguments.overwrite)
    started = time.monotonic()
    out = arguments.out
    dev = write_task(out, num_train=200 if arguments.quick else None)
    for command in commands(out, quick=arguments.quick):
        print_line("")
        print_line(f"$ bert-keras {' '.join(command)}")
        with contextlib.redirect_stdout(sys.stderr):  # standard output is for the demo's own result
            _run_verb(command + ["--overwrite"] * arguments.overwrite)
    print_line("")
    print_line("A fresh process, TensorFlow and tensorflow-text only, answers:")
    answers = ask(out / "artifacts", dev[:: max(len(dev) // _NUM_QUESTIONS, 1)][:_NUM_QUESTIONS])
    for answer in answers:
        verdict = f"{answer['label']} ({answer['probability']:.0%}), in truth {answer['truth']}"
        print_line(f"  {answer['text'][:70]:<70}  -> {verdict}")
    minutes = (time.monotonic() - started) / 60
    result = {"out": str(out), "minutes": minutes, "answers": answers}
    print_result(f"wrote {out}: everything above, in {minutes:.1f} minutes", result, as_json=arguments.json)


def _check_out(out: pathlib.Path, *, overwrite: bool) -> None:
    """Raise `InputError` unless OUT is missing, empty, or of an earlier demo; each command checks what it replaces."""
    is_full = out.is_dir() and any(out.iterdir())
    if is_full and overwrite and not (out / "task/train.csv").is_file():
        raise InputError(f"{out} is not the folder of an earlier demo, which has task/train.csv: name another folder")
    if not is_full or not overwrite:
        check_writable_folder(out, "demo")


def write_task(out: pathlib.Path, *, num_train: int | None) -> list[tuple[str, str]]:
    """Writes `train.csv` and `dev.csv` of the embedded task and returns the held-out rows."""
    from bert_keras.pipelines.corpus.default_corpus import labelled_passages
    from bert_keras.pipelines.readers.labelled_texts import write_labelled_csv

    passages = labelled_passages()
    dev = passages[::_DEV_EVERY]
    train = [passage for index, passage in enumerate(passages) if index % _DEV_EVERY]
    (out / "task").mkdir(parents=True, exist_ok=True)
    write_labelled_csv(out / "task/train.csv", train[:: max(len(train) // num_train, 1)] if num_train else train)
    write_labelled_csv(out / "task/dev.csv", dev)
    return dev


def commands(out: pathlib.Path, *, quick: bool) -> list[list[str]]:
    """Returns the verbs of the road with their arguments, as a user would type them."""
    steps, epochs = ("20", "1") if quick else ("600", "4")
    compiled = ["--no-xla"] if quick else []  # compiling the step takes longer than 20 of them
    training = ["--epochs", epochs, "--learning-rate", "5e-4", "--max-sequence-length", "64"]
    paths = {name: str(out / name) for name in ("vocab.txt", "records", "pretrained", "classifier", "artifacts")}
    task = ["--train", str(out / "task/train.csv"), "--dev", str(out / "task/dev.csv")]
    return [
        ["learn-vocab", paths["vocab.txt"], "--size", "8000"],
        ["make-records", paths["vocab.txt"], paths["records"], "--max-sequence-length", "64"],
        ["pretrain", paths["records"], paths["pretrained"], "--preset", "tiny", "--steps", steps, *compiled],
        ["finetune", paths["pretrained"], paths["classifier"], *task, *training],
        ["export", paths["classifier"], paths["artifacts"], "--to", "saved_model"],
    ]


def ask(artifacts: pathlib.Path, questions: list[tuple[str, str]]) -> list[dict]:
    """Asks the exported SavedModel about texts, in a process that does not import this package."""
    from bert_keras.export.parity.probe_inputs import as_strings
    from bert_keras.export.runtimes.fresh_process import ask as ask_artifact
    from bert_keras.export.targets import next_version

    latest = artifacts / "saved_model" / str(next_version(artifacts / "saved_model") - 1)
    request = ("serving_default", {"text": as_strings([text for text, _ in questions])})
    [outputs] = ask_artifact("saved_model", latest, [request]).outputs
    return [
        {"text": text, "truth": truth, "label": label.decode(), "probability": float(probabilities.max())}
        for (text, truth), label, probabilities in zip(
            questions, outputs["label"], outputs["probabilities"], strict=True
        )
    ]


def _run_verb(command: list[str]) -> None:
    from bert_keras.cli.main import parser

    arguments = parser().parse_args(command)
    arguments.run(arguments)
