"""Mutated command lines exit with status 0 or 2 and print no traceback; messages start with the program's name.

Commands stop before they load TensorFlow or write files. Paths outside of the temporary folder are replaced.
"""

import contextlib
import importlib
import io
import pkgutil
import re
import sys

import pytest

from bert_keras import cli
from bert_keras.cli.main import COMMANDS, main
from bert_keras.errors import InputError
from tests.cli.bad_inputs import write_inputs
from tests.fuzzing import fuzz, mutate_words

QUICK, LONG, SEED = 150, 10_000, 23
# functions that commands call after their checks: in the modules of the commands, and elsewhere
WORK = ("load_tensorflow", "run_in_workers", "write_task", "_make", "_training")
OTHER_WORK = ("bert_keras.pipelines.text.learned_vocabulary.learn_vocabulary", "bert_keras.serving.server.serve")
LINES = [
    "learn-vocab out --text train.csv dev.csv --size 300 --min-frequency 2 --cased --special-token [E1] --unused 9",
    "make-records good/vocab.txt out --text train.csv --max-sequence-length 32 --objective nsp --seed 3 --workers 2",
    "pretrain records out --recipe bert --set optimizer.beta_2=0.98 --preset mini --steps 9 --batch-size 8 --workers 2",
    "pretrain records out --config bad.toml --learning-rate 1e-3 --hours 2",
    "finetune good out --train train.csv --dev dev.csv --batch-size 8 --learning-rate 1e-4 --text-column text --resume",
    "finetune good out --task tag --train tags.conll --dev tags.conll --tag-column 1",
    "finetune good out --task answer --train questions.json --dev questions.json --max-sequence-length 19",
    "distill good out --train train.csv --dev dev.csv --layers 1 --hidden-weight 0.5 --trim-vocabulary",
    "evaluate good dev.csv --out scores.json --format csv --label-column label",
    "predict good train.csv --top 2 --max-sequence-length 12 --on-error skip --out answers.jsonl",
    "predict good - --columns text,label --format csv",
    "fill-mask mlm [MASK] --top-k 3 --json",
    "export good out --to tflite onnx --quantize auto --eval dev.csv --tolerance 0.5 --trim-vocabulary dev.csv",
    "verify artifact good --thorough",
    "convert good out --to keras_hub --overwrite",
    "plan tiny --head tagging --num-classes 3 --length 64 --batch-size 4 --quick",
    "plan good --steps --memory 4",
    "inspect good cat dog --out out --layer 0 --head 1 --top-k 3 --no-pictures",
    "serve good --engine keras --port 0 --grpc-port 0 --label stable=1 --max-texts 9 --timeout 2.5",
    "serve --model one=good --versions 2 --threads 1 --no-grpc --cors * --access-log",
    "demo out --quick",
    "finetune good out --config bad.toml --tensorboard events --log-format text",
    "doctor good --json",
    "completion bash",
    "push good me/model --dry-run --license mit --language en --dataset me/texts --message title --revision main",
]


class ReachedWorkError(InputError):
    """Raised after all checks of a command have passed."""


def stop(*_, **__):
    raise ReachedWorkError("all checks passed")


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    """Folder with files and models, where commands stop after their checks."""
    monkeypatch.chdir(tmp_path)
    write_inputs()
    for name in OTHER_WORK:
        monkeypatch.setattr(name, stop)
    for module in pkgutil.walk_packages(cli.__path__, "bert_keras.cli."):
        module = importlib.import_module(module.name)
        for name in WORK:
            if hasattr(module, name):
                monkeypatch.setattr(module, name, stop)


def mutate(random):
    arguments = mutate_words(random, random.choice(LINES).split())
    return [word.replace("..", "_.").replace("/etc", "etc") for word in arguments]


def run(arguments: list[str]) -> None:
    """Run a command line; raise `InputError` if it is rejected.

    Raises:
        AssertionError: the exit status is not 0 or 2, or the output is not escaped.
    """
    out, err = io.StringIO(), io.StringIO()
    sys.stdin = io.TextIOWrapper(io.BytesIO(b"the cat\n"))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(arguments)
        except SystemExit as stopped:
            status = stopped.code
    printed = err.getvalue()
    assert status in (0, 2), f"status {status}: {printed}"
    assert not re.search("[\0-\x09\x0b-\x1f\x7f-\x9f]", printed + out.getvalue())
    if status == 2:
        last = printed.splitlines()[-1]
        assert last.startswith("bert-keras"), printed
        if "all checks passed" not in last:
            raise InputError(last[:1000])


@pytest.fixture(autouse=True)
def standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", sys.stdin)


def test_unmodified_command_lines_start_or_name_a_missing_package():
    refused = {}
    for line in LINES:
        try:
            run(line.split())
        except InputError as error:
            refused[line.split()[0]] = str(error)
    assert set(refused) <= {"pretrain", "verify", "finetune", "export"}, refused
    assert {line.split()[0] for line in LINES} == set(COMMANDS)


def test_mutated_command_lines_start_or_are_rejected():
    outcomes = fuzz(run, mutate, count=QUICK, seed=SEED)
    assert min(outcomes["read"], outcomes["refused"]) > 0, f"the mutations must cover both outcomes: {outcomes}"


@pytest.mark.slow
def test_many_mutated_command_lines_start_or_are_rejected():
    outcomes = fuzz(run, mutate, count=LONG, seed=SEED)
    print("command lines", dict(outcomes))
    assert sum(outcomes.values()) == LONG
