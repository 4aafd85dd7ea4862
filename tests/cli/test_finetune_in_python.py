"""`bk.finetune` and `bk.evaluate`: the example of docs/finetuning.md runs, and says what the commands say."""

import json
import pathlib
import re
import shutil

import pytest

import bert_keras as bk
from bert_keras.cli.main import main
from bert_keras.errors import InputError

DOCS = pathlib.Path(__file__).parents[2] / "docs/finetuning.md"


def test_the_example_of_the_docs_runs_and_scores_as_the_commands_do(checkpoint, tmp_path, monkeypatch, capsys):
    (tmp_path / "checkpoint").symlink_to(checkpoint)
    monkeypatch.chdir(tmp_path)
    [code] = re.findall(r"^```python\n(.*?)^```$", DOCS.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    names = {"__name__": "docs"}
    exec(compile(code, str(DOCS), "exec"), names)
    tuned = names["tuned"]
    assert capsys.readouterr().out.endswith("on 2 held-out examples;\n")
    assert (len(tuned.data.train), len(tuned.data.dev), tuned.data.columns.label) == (18, 2, "stars")

    metrics = json.loads((tmp_path / "out/metrics.json").read_text())
    assert {name: metrics[name] for name in tuned.scores} == tuned.scores
    assert metrics["held_out"]["examples"] == 2
    assert (
        "- dev: 2 examples, 0.1 of the texts held out with seed 0, each class in proportion"
        in (tmp_path / "out/README.md").read_text().splitlines()
    )
    assert (tmp_path / "out/confusion_matrix.png").exists()
    held_out = [{"text": example.text, "label": example.label} for example in tuned.data.dev]
    scores = bk.evaluate("out", held_out)
    assert scores == tuned.epochs[tuned.best]
    (tmp_path / "dev.json").write_text(json.dumps(held_out))
    assert main(["evaluate", "out", "dev.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"examples": 2, "skipped": 0, **scores}


FAULTS = {
    "a setting that is none": ({"num_epoch": 3}, r"num_epoch is no setting of finetune; expected some of num_epochs, "),
    "a setting out of range": ({"learning_rate": -1}, r"learning_rate is -1"),
    "bad data": ({"train": [("a", "x"), ("b", None)]}, r"train\[1\]: the field 'label' has no value"),
    "a task that is none": ({"task": "rank"}, r"the task is 'rank'; expected one of classify, tag, answer, embed"),
    "an output that is there": ({"out": "full"}, r"full exists and is not empty"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_bad_input_is_an_input_error_and_nothing_is_written(fault, checkpoint, tmp_path, monkeypatch):
    changes, message = FAULTS[fault]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/notes.txt").write_text("mine")
    settings = {"out": "out", "train": [("a cat", "x"), ("a dog", "y")]} | changes
    with pytest.raises(InputError, match=message):
        bk.finetune(checkpoint, settings.pop("out"), **settings)
    assert [path.name for path in tmp_path.iterdir()] == ["full"]


def test_evaluate_counts_bad_examples(tuned):
    with pytest.raises(
        InputError, match=r"^2 of 3 examples are bad: data\[1\]: .*; data\[2\]: the label 'bird' is none"
    ):
        bk.evaluate(tuned("classify").out, [("the cat", "cat"), ("", "dog"), ("a bird", "bird")])
    scores = bk.evaluate(tuned("classify").out, [("the cat", "cat"), ("", "dog")], on_error="skip")
    assert scores["accuracy"] in (0.0, 1.0)


def test_evaluate_takes_the_name_of_a_prompt_as_the_command_does(tuned, tmp_path, capsys):
    done = tuned("embed")
    folder = shutil.copytree(done.out, tmp_path / "with_prompts")
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": {"query": "every red "}}))
    scores = {}
    for name in ("query", ""):
        assert main(["evaluate", str(folder), str(done.dev), "--prompt", name, "--json"]) == 0
        scores[name] = json.loads(capsys.readouterr().out)
        assert bk.evaluate(folder, done.dev, prompt=name).items() <= scores[name].items()
    assert scores["query"] != scores[""]
    with pytest.raises(InputError, match=r"there is no prompt 'qery'; expected one of query"):
        bk.evaluate(folder, done.dev, prompt="qery")
