"""Fixtures to run commands, and tiny checkpoints to run them on."""

import contextlib
import csv
import functools
import io
import json
import pathlib
from typing import NamedTuple

import pytest

import bert_keras as bk
from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.cli.main import main
from bert_keras.heads.examples.file_options import FileOptions
from bert_keras.training.training_data import read_training_data_for_checkpoint
from tests.commands import run_cli
from tests.made_once import made_once

WORDS = "the cat sat on a mat and every dog ran off with its red hat . , ##s ##ed".split()


@pytest.fixture
def cli(tmp_path):
    """Function that runs `bert-keras` in a process, in an empty folder by default."""
    return lambda *arguments, cwd=tmp_path: run_cli(*arguments, cwd=cwd)


@pytest.fixture(scope="session")
def tokenizer():
    """Tokenizer with a vocabulary of a few English words."""
    return bk.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])


@pytest.fixture(scope="session")
def checkpoint(tokenizer, tmp_path_factory):
    """Checkpoint folder of a tiny encoder with the vocabulary of `tokenizer`."""
    folder = tmp_path_factory.mktemp("checkpoint") / "encoder"
    bk.save(tiny_encoder(tokenizer), tokenizer, folder)
    return folder


@pytest.fixture(scope="session")
def shallow_checkpoint(tokenizer, tmp_path_factory):
    """Checkpoint folder of an encoder with one layer, because tracing a training step takes longer for each layer."""
    folder = tmp_path_factory.mktemp("shallow_checkpoint") / "encoder"
    bk.save(tiny_encoder(tokenizer, num_layers=1), tokenizer, folder)
    return folder


def tiny_encoder(tokenizer, num_layers=2):
    config = bk.BertConfig(
        vocabulary_size=tokenizer.vocabulary_size,
        num_layers=num_layers,
        num_heads=3,
        hidden_dim=24,
        intermediate_dim=40,
        max_sequence_length=19,
        hidden_act="gelu_tanh",
    )
    return bk.BertEncoder(config)


class Untrained(NamedTuple):
    """Folder of a model with random weights for a task, and files with examples."""

    out: pathlib.Path
    train: pathlib.Path
    dev: pathlib.Path


class Tuned(NamedTuple):
    """Paths and printed output of a completed fine-tuning run."""

    out: pathlib.Path
    train: pathlib.Path
    dev: pathlib.Path
    stdout: str
    stderr: str


@pytest.fixture(scope="session")
def task_files(tmp_path_factory):
    """Function that writes small files for a task and returns the paths (train, dev)."""
    default_folder = tmp_path_factory.mktemp("task_files")

    def write(task, folder=default_folder):
        ending, content = FILES[task]
        paths = folder / f"{task}_train{ending}", folder / f"{task}_dev{ending}"
        for path, number in zip(paths, (0, 1), strict=True):
            path.write_text(content(number), encoding="utf-8")
        return paths

    return write


@pytest.fixture(scope="session")
def tuned(tokenizer, perturb, task_files, tmp_path_factory):
    """Function that fine-tunes a tiny checkpoint for a task, once per task because tracing a model takes seconds.

    All weights of the checkpoint are perturbed, so that the predictions for different texts differ. The quick tests
    train for the task `classify` only.
    """

    def make(task, folder):
        encoder = tiny_encoder(tokenizer, num_layers=1)
        perturb(encoder)
        bk.save(encoder, tokenizer, folder / "perturbed")
        train, dev = task_files(task, folder)
        command = [
            "finetune",
            folder / "perturbed",
            folder / "output/out",
            "--task",
            task,
            "--train",
            train,
            "--dev",
            dev,
        ]
        options = ["--epochs", "2", "--batch-size", "8", "--learning-rate", "5e-3", "--json"]
        options += ["--tensorboard", str(folder / "tensorboard")]
        stdout, stderr = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            status = main([*map(str, command), *options])
        assert status == 0, stderr.getvalue()
        printed = json.dumps([stdout.getvalue(), stderr.getvalue()])
        (folder / "printed.json").write_text(printed.replace(str(folder), str(folder.parent / f"tuned_{task}")))

    @functools.cache
    def tune(task):
        folder = made_once(tmp_path_factory, f"tuned_{task}", functools.partial(make, task))
        ending, _ = FILES[task]
        files = (folder / f"{task}_{part}{ending}" for part in ("train", "dev"))
        return Tuned(folder / "output/out", *files, *json.loads((folder / "printed.json").read_text()))

    return tune


@pytest.fixture(scope="session")
def untrained(tokenizer, perturb, task_files, tmp_path_factory):
    """Function that writes a tiny model for a task, with its files, where training would change nothing for a test."""

    def make(task, folder):
        encoder = tiny_encoder(tokenizer, num_layers=1)
        bk.save(encoder, tokenizer, folder / "encoder")
        train, dev = task_files(task, folder)
        checkpoint = read_checkpoint(folder / "encoder")
        settings = read_training_data_for_checkpoint(checkpoint, task, train, dev, FileOptions()).task
        model = getattr(bk, settings.head.model_name)(encoder, **settings.head_arguments())
        perturb(model)
        bk.save(model, tokenizer, folder / "out", task=settings.settings())

    @functools.cache
    def write(task):
        folder = made_once(tmp_path_factory, f"untrained_{task}", functools.partial(make, task))
        return Untrained(folder / "out", *(folder / f"{task}_{part}{FILES[task][0]}" for part in ("train", "dev")))

    return write


def texts_csv(number):
    rows = [("the cat sat", "cat"), ("a dog ran", "dog"), ("the red cat", "cat"), ("every dog", "dog")]
    return format_csv([("text", "label"), *rows * (4 - 2 * number), ("a red hat", "dog")])


def pairs_csv(number):
    rows = [("the cat", "a cat", 5), ("a dog", "the dog ran", 4), ("a cat", "every dog", 0.5), ("the dog", "a hat", 1)]
    return format_csv([("sentence1", "sentence2", "score"), *rows * (4 - 2 * number)])


def format_csv(rows):
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(rows)
    return file.getvalue()


def words_conll(number):
    """Write sentences where most words begin an entity, so that a model finds some after a few steps."""
    sentences = ["cat B-PET\ndog B-PET\nsat B-PET\n. O\n", "red B-PET\ndog I-PET\nran B-PET\nhat B-PET\n"]
    return "\n".join([*sentences, "a O\nhat B-PET\n"] * (6 - 3 * number))


def questions_json(number):
    questions = [
        ("and the cat", "the cat sat on a mat .", "a mat"),
        ("every dog", "with a red hat the dog ran .", "the dog"),
    ]
    paragraphs = [
        {
            "context": context,
            "qas": [{"id": f"q{index}", "question": question, "answers": [make_answer(context, answer)]}],
        }
        for index, (question, context, answer) in enumerate(questions * (6 - 3 * number))
    ]
    return json.dumps({"version": "1.1", "data": [{"title": "pets", "paragraphs": paragraphs}]})


def make_answer(context, answer):
    return {"text": answer, "answer_start": context.index(answer)}


FILES = {
    "classify": (".csv", texts_csv),
    "tag": (".conll", words_conll),
    "answer": (".json", questions_json),
    "embed": (".csv", pairs_csv),
}
