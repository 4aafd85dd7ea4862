"""Commands read each file of a checkpoint only once, because hashing the weights of BERT base takes 0.4 s or more."""

import collections
import pathlib

import pytest

import bert_keras as bk
from bert_keras import files
from bert_keras.checkpoints import reading
from bert_keras.checkpoints.huggingface import huggingface_folder, weights_file
from bert_keras.cli.main import main
from bert_keras.pipelines.text import tokenizer_folder
from tests.marks import slow_except

from .conftest import tiny_encoder


@pytest.fixture
def counts(monkeypatch):
    """Number of times that each file was hashed, opened as weights or read as a vocabulary, keyed by (action, path)."""
    counts = collections.Counter()

    def count(action, function, get_path=lambda path, *_: path):
        def counted(*arguments, **options):
            counts[action, pathlib.Path(get_path(*arguments)).resolve()] += 1
            return function(*arguments, **options)

        return counted

    def count_vocabulary(module):
        if hasattr(module, "read_vocabulary"):
            monkeypatch.setattr(module, "read_vocabulary", count("read", module.read_vocabulary))

    monkeypatch.setattr(files, "compute_digest", count("hash", files.compute_digest))
    monkeypatch.setattr(weights_file.safetensors, "safe_open", count("open", weights_file.safetensors.safe_open))
    monkeypatch.setattr(huggingface_folder, "read_config", count("config", huggingface_folder.read_config, _second))
    for module in (tokenizer_folder, reading, bk.checkpoints.vocabulary_file):
        count_vocabulary(module)
    return counts


def _second(_, source):
    return source


@pytest.fixture
def folder(tokenizer, tmp_path):
    """Function that writes a checkpoint of a model with a tiny encoder."""

    def write(make, **parts):
        bk.save(make(tiny_encoder(tokenizer)), tokenizer, tmp_path / "model", **parts)
        return tmp_path / "model"

    return write


def classifier(encoder):
    return bk.BertClassifier(encoder, 2, labels=("cat", "dog"))


COMMANDS = {
    "predict": (classifier, ["predict", "{model}", "the cat sat"]),
    "evaluate": (classifier, ["evaluate", "{model}", "{dev}"]),
    "fill-mask": (bk.BertMaskedLM, ["fill-mask", "{model}", "the [MASK]"]),
    "convert": (classifier, ["convert", "{model}", "{out}"]),
    "finetune": (classifier, "finetune {model} {out} --train {train} --dev {dev} --epochs 1 --batch-size 8".split()),
    "distill": (
        classifier,
        "distill {model} {out} --train {train} --dev {dev} --layers 1 --epochs 1 --batch-size 8".split(),
    ),
    "export": (
        classifier,
        ["export", "{model}", "{out}", "--to", "tflite", "--model-name", "a", "--quantize", "float32"],
    ),
}


@pytest.mark.parametrize("command", slow_except(COMMANDS, quick=["predict", "evaluate", "fill-mask", "convert"]))
def test_checkpoint_files_are_read_and_hashed_once_per_command(command, folder, task_files, counts, tmp_path):
    make, arguments = COMMANDS[command]
    train, dev = task_files("classify")
    model = folder(make)
    counts.clear()
    paths = {"model": model, "train": train, "dev": dev, "out": tmp_path / "out"}
    assert main([word.format(**paths) for word in arguments]) == 0
    check_counts(counts, model)


def test_finetune_reads_checkpoint_files_once_before_the_first_step(folder, task_files, counts, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise bk.InputError("stopped before the first step")

    monkeypatch.setattr("bert_keras.training.finetuning.fit_phases", stop)
    make, arguments = COMMANDS["finetune"]
    train, dev = task_files("classify")
    model = folder(make)
    counts.clear()
    paths = {"model": model, "train": train, "dev": dev, "out": tmp_path / "out"}
    assert main([word.format(**paths) for word in arguments]) == 2
    check_counts(counts, model)


def check_counts(counts, model):
    """Check that each file of a checkpoint was read and hashed once."""
    weights, vocabulary = (model / name for name in ("model.safetensors", "vocab.txt"))
    expected = {
        ("hash", weights): 1,
        ("open", weights): 1,
        ("hash", vocabulary): 1,
        ("read", vocabulary): 1,
        ("config", model / "config.json"): 1,
    }
    assert {key: number for key, number in counts.items() if key in expected} == expected


def test_flipped_bit_is_reported_before_the_first_prediction(folder, capsys):
    model = folder(classifier)
    content = bytearray((model / "model.safetensors").read_bytes())
    content[-2] ^= 1
    (model / "model.safetensors").write_bytes(content)
    assert main(["predict", str(model), "the cat sat"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "model.safetensors does not match its recorded SHA-256" in printed.err
