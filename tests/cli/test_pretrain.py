"""`bert-keras pretrain`: one run from the shell, and what it refuses."""

import json
import re
import sys

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.cli.main import main
from bert_keras.pipelines.records import write_records
from bert_keras.training.recipes import Pretraining

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

STORIES = [[" ".join([word] * 5)] * 6 for word in "the cat sat on a mat and every dog ran".split() * 2]
SMALL = """
seed = 3
[model]
num_layers = 1
num_heads = 2
hidden_dim = 16
intermediate_dim = 24
[batches]
batch_size = 4
mask_unit = "whole_word"
[budget]
steps = 9
[evaluation]
every_steps = 6
[speed]
jit_compile = false
"""


@pytest.fixture(scope="module")
def records(tokenizer, tmp_path_factory):
    """A folder of records with next sentences, some of them held out."""
    folder = tmp_path_factory.mktemp("pretrain") / "records"
    write_records(folder, STORIES, tokenizer, max_sequence_length=16, held_out_rate=0.3)
    return folder


@pytest.fixture
def small_file(tmp_path):
    """A TOML file of a tiny run."""
    (tmp_path / "small.toml").write_text(SMALL)
    return tmp_path / "small.toml"


def test_a_run_from_the_shell(records, small_file, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    arguments = ["--config", str(small_file), "--steps", "12", "--tensorboard", "events", "--json"]
    assert main(["pretrain", str(records), "out", *arguments]) == 0
    printed = capfd.readouterr()
    result = json.loads(printed.out)
    assert 0 < result["held_out_mlm_loss"] < 10
    for shown in (
        "before the first step, held out: loss",
        "1 layers, 16 wide",
        "12 steps of 4 on",
        "whole_word",
        "12/12",
        "tokens/s",
        "mlm_accuracy",
    ):
        assert shown in printed.err
    for noise in ("mlm_logits", "Warning", "Traceback", "WARNING"):
        assert noise not in printed.err
    out = tmp_path / "out"
    assert type(bk.load(out)) is bk.BertPretrainer
    assert "Pretrained on" in (out / "README.md").read_text()
    log = [json.loads(line) for line in (out / "training_log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in log if "held_out_loss" in line] == [0, 6, 12]
    assert list((tmp_path / "events").glob("events.out.tfevents.*"))


@pytest.mark.slow
def test_the_stored_settings_repeat_the_run(records, small_file, tmp_path):
    outs = [tmp_path / "first", tmp_path / "again"]
    assert main(["pretrain", str(records), str(outs[0]), "--config", str(small_file), "--seed", "5"]) == 0
    stored = outs[0] / "pretraining.toml"
    run = Pretraining.resolve(stored)
    assert (run.seed, run.budget.steps, run.batches.mask_unit) == (5, 9, "whole_word")
    assert set(tomllib.loads(stored.read_text())) >= {"model", "records", "batches", "optimizer", "budget"}
    assert main(["pretrain", str(records), str(outs[1]), "--config", str(stored)]) == 0
    ours, theirs = (bk.load(out).weights for out in outs)
    for one, other in zip(ours, theirs, strict=True):
        if "seed" not in one.path:
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "optimizer.leaning_rate=1"], "optimizer.leaning_rate is not a setting; did you mean optimizer.le"),
        (["--set", "seed"], "--set seed has no value; expected KEY=VALUE"),
        (["--steps", "5", "--hours", "1"], "[budget] says steps, hours; expected exactly one of steps, epochs, hours"),
        (["--recipe", "albert"], "recipe is 'albert', expected one of bert, roberta, electra-small, 24h, cramming"),
        (["--recipe", "bert"], "the run has records of 2 lengths [128, 512]; expected one folder for each, made with"),
        (["--config", "nowhere.toml"], "nowhere.toml cannot be read"),
        (["--batch-size", "9", "--accumulation-steps", "2"], "cannot be cut into batches.accumulation_steps 2"),
        (["--batch-size", "9999"], "fewer than one batch of 9999"),
        (["--objective", "electra", "--start-from", "nowhere"], "nowhere"),
    ],
)
def test_what_cannot_be_run_is_one_sentence(arguments, message, records, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = [] if {"--recipe", "--config"} & set(arguments) else ["--no-xla"]
    assert main(["pretrain", str(records), "out", *arguments, *small]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert "Traceback" not in told
    assert not (tmp_path / "out").exists()


def test_a_lost_loss_leaves_nothing_behind(records, small_file, tmp_path, capsys):
    arguments = ["--config", str(small_file), "--learning-rate", "1e30", "--set", "optimizer.clip_norm=0"]
    assert main(["pretrain", str(records), str(tmp_path / "out"), *arguments]) == 2
    assert "at step" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["small.toml"]


def test_what_is_no_records_folder_is_told_before_the_work(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert main(["pretrain", str(tmp_path / "nowhere"), str(tmp_path / "out")]) == 2
    assert "nowhere does not exist; expected a folder that make-records wrote" in capsys.readouterr().err
    assert main(["pretrain", str(tmp_path / "empty"), str(tmp_path / "out")]) == 2
    assert "manifest.json" in capsys.readouterr().err


def test_records_of_another_vocabulary_are_refused_before_the_work(records, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("bert_keras.cli.pretrain.load_tensorflow", lambda: pytest.fail("the work began"))
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b"]
    other = tmp_path / "other"
    write_records(other, STORIES, bk.BertTokenizer(pieces), max_sequence_length=32, held_out_rate=0.0)
    arguments = ["--set", "phases=[{records=0, share=0.5}, {records=1, share=0.5}]", "--no-xla", "--steps", "2"]
    assert main(["pretrain", str(records), str(other), str(tmp_path / "out"), *arguments]) == 2
    told = capsys.readouterr().err
    assert re.search(
        r"other was made with another vocabulary \(vocabulary_size 7 there, 24 in .*; vocabulary_sha256", told
    )
    assert f"make it again with the vocab.txt of {records}" in told
