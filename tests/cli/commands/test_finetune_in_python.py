"""`bk.finetune` and `bk.evaluate` return the same results and messages as the commands."""

import json
import shutil

import pytest

import bert_keras as bk
from bert_keras.cli.main import main
from bert_keras.errors import InputError
from tests.code_blocks import read_blocks


def test_docs_example_has_the_scores_of_the_commands(shallow_checkpoint, tmp_path, monkeypatch, capsys, untraced):
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo/pretrained").symlink_to(shallow_checkpoint)
    monkeypatch.chdir(tmp_path)
    blocks = [block for block in read_blocks("docs/guide/finetuning.md") if block.language == "python"]
    [block] = [block for block in blocks if "tuned = bk.finetune(" in block.code]
    names = {"__name__": "docs"}
    exec(compile(block.code, str(block), "exec"), names)
    tuned = names["tuned"]
    assert capsys.readouterr().out.endswith("on 2 held-out examples;\n")
    assert (len(tuned.data.train), len(tuned.data.dev), tuned.data.columns.label) == (18, 2, "stars")

    metrics = json.loads((tmp_path / "my/reviews/metrics.json").read_text())
    assert {name: metrics[name] for name in tuned.scores} == tuned.scores
    assert metrics["held_out"]["examples"] == 2
    assert (
        "- dev: 2 examples, 0.1 of the texts held out with seed 0, each class in proportion"
        in (tmp_path / "my/reviews/README.md").read_text().splitlines()
    )
    assert (tmp_path / "my/reviews/confusion_matrix.png").exists()
    held_out = [{"text": example.text, "label": example.label} for example in tuned.data.dev]
    scores = bk.evaluate("my/reviews", held_out)
    assert scores == tuned.epochs[tuned.best]
    (tmp_path / "dev.json").write_text(json.dumps(held_out))
    assert main(["evaluate", "my/reviews", "dev.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"examples": 2, "skipped": 0, **scores}


QUESTIONS = [{"question": "Who?", "context": "the cat", "answers": {"text": ["cat"], "answer_start": [4]}}]
FAULTS = {
    "unknown setting": (
        {"num_epoch": 3},
        r"num_epoch is not an argument of finetune; expected some of num_epochs, ",
    ),
    "setting out of range": ({"learning_rate": -1}, r"learning_rate is -1"),
    "bad data": ({"train": [("a", "x"), ("b", None)]}, r"train\[1\]: the field 'label' has no value"),
    "unknown task": ({"task": "rank"}, r"the task is 'rank'; expected one of classify, tag, answer, embed"),
    "option of another task": (
        {"task": "tag", "problem": "multi_label", "text_column": "body"},
        r"^problem is for classify, and the task is tag: leave it out; text_column is for classify or embed, and the",
    ),
    "objective for a classifier": (
        {"objective": "contrastive"},
        r"^objective is for embed, and the task is classify",
    ),
    "prompt for a classifier": ({"prompt": "query"}, r"^prompt is for embed, and the task is classify: leave it out"),
    "answer length for a classifier": (
        {"max_answer_length": 3},
        r"^max_answer_length is for answer, and the task is classify",
    ),
    "separator for single_label": (
        {"separator": ";"},
        r"^separator is for the problem multi_label, and the problem is single_label: leave it out",
    ),
    "length as a string": (
        {"max_sequence_length": "16"},
        r"^max_sequence_length is '16'; expected an integer >= 1$",
    ),
    "fractional length": ({"max_sequence_length": 64.5}, r"^max_sequence_length is 64\.5; expected an integer >= 1$"),
    "overlap as a string": ({"window_overlap": "3"}, r"^window_overlap is '3'; expected an integer >= 0$"),
    "answer length as a string": (
        {"task": "answer", "max_answer_length": "3", "train": QUESTIONS, "dev": QUESTIONS},
        r"^max_answer_length is '3'; expected an integer >= 1$",
    ),
    "share as a string": ({"dev_share": "0.1"}, r"^the held-out share is '0\.1'; expected a number between 0"),
    "existing output folder": ({"out": "full"}, r"full exists and is not empty"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_bad_input_raises_input_error_and_writes_nothing(fault, checkpoint, tmp_path, monkeypatch):
    changes, message = FAULTS[fault]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/notes.txt").write_text("mine")
    settings = {"out": "out", "train": [("a cat", "x"), ("a dog", "y")]} | changes
    with pytest.raises(InputError, match=message):
        bk.finetune(checkpoint, settings.pop("out"), **settings)
    assert [path.name for path in tmp_path.iterdir()] == ["full"]


def test_fixes_suggested_in_python_name_arguments_instead_of_options(checkpoint, untrained):
    with pytest.raises(InputError, match=r"correct them, or skip them with on_error='skip'$"):
        bk.evaluate(untrained("classify").out, [("", "cat"), ("", "dog")])
    with pytest.raises(InputError, match=r"correct them, or skip them with on_error='skip'$"):
        bk.finetune(checkpoint, train=[("", "cat"), ("", "dog")])
    with pytest.raises(InputError, match=r"with label_column=, .* problem='regression', or name .* with dev=$"):
        bk.finetune(checkpoint, train=[("a", "0.1"), ("b", "0.2")])
    with pytest.raises(InputError, match=r"no column has a usual name for texts.* text_column="):
        bk.finetune(checkpoint, train=[{"prose": "a", "label": "x"}])


def test_evaluate_counts_bad_examples(untrained):
    with pytest.raises(
        InputError, match=r"^2 of 3 examples are bad: data\[1\]: .*; data\[2\]: the label 'bird' is not one"
    ):
        bk.evaluate(untrained("classify").out, [("the cat", "cat"), ("", "dog"), ("a bird", "bird")])
    scores = bk.evaluate(untrained("classify").out, [("the cat", "cat"), ("", "dog")], on_error="skip")
    assert scores["accuracy"] in (0.0, 1.0)


@pytest.mark.slow
def test_evaluate_accepts_a_prompt_name_like_the_command(untrained, tmp_path, capsys):
    done = untrained("embed")
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


EVALUATE_FAULTS = {
    "unknown setting": (
        {"text_colunm": "x"},
        r"^text_colunm is not an argument of evaluate; expected some of on_err",
    ),
    "option of another task": ({"word_column": "x"}, r"^word_column is for tag, and the task is classify: leave it"),
    "prompt for a classifier": ({"prompt": "query"}, r"^prompt is for embed, and the task is classify: leave it out"),
    "separator for single_label": (
        {"separator": ";"},
        r"^separator is for the problem multi_label, and the problem is s",
    ),
    "length as a string": (
        {"max_sequence_length": "16"},
        r"^max_sequence_length is '16'; expected an integer >= 1$",
    ),
    "fractional length": ({"max_sequence_length": 64.5}, r"^max_sequence_length is 64\.5; expected an integer >= 1$"),
}


@pytest.mark.parametrize("fault", EVALUATE_FAULTS)
def test_options_of_evaluate_are_checked_before_the_model_is_built(fault, untrained, monkeypatch):
    settings, message = EVALUATE_FAULTS[fault]
    monkeypatch.setattr("bert_keras.checkpoints.loading.load", None)
    with pytest.raises(InputError, match=message):
        bk.evaluate(untrained("classify").out, [("the cat", "cat")], **settings)
