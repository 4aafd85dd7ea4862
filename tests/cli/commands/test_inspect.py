"""`inspect` writes a page and figures; bad input causes a one-sentence error and no files."""

import json
import sys

import pytest

import bert_keras as bk
from bert_keras.cli.main import main
from bert_keras.staging import LISTING
from tests.cli.conftest import tiny_encoder
from tests.marks import slow_except


@pytest.fixture(scope="module")
def masked_lm(tokenizer, tmp_path_factory):
    """Folder of a tiny masked LM."""
    folder = tmp_path_factory.mktemp("masked") / "lm"
    encoder = tiny_encoder(tokenizer)
    bk.save(bk.BertMaskedLM(bk.BertEncoder(encoder.config, pooler=False)), tokenizer, folder)
    return folder


def run(capsys, *arguments):
    status = main(["inspect", *map(str, arguments)])
    return status, capsys.readouterr()


def test_page_and_figures_are_written(checkpoint, tmp_path, capsys, fake_figures):
    status, printed = run(capsys, checkpoint, "the cat sat", "a dog", "--out", tmp_path / "out")
    assert status == 0, printed.err
    assert f"wrote {tmp_path / 'out'}: open {tmp_path / 'out/index.html'}; 8 tokens, 6 heads" in printed.out
    assert "second text  a dog" in printed.err
    assert (tmp_path / "out/attention.png").exists()


def test_texts_may_follow_the_options(checkpoint, tmp_path, capsys):
    status, printed = run(capsys, checkpoint, "--no-pictures", "--out", tmp_path / "out", "the cat sat", "a dog")
    assert status == 0, printed.err
    assert "second text  a dog" in printed.err


def test_json_lists_the_files_and_the_heads(masked_lm, tmp_path, capsys, fake_figures):
    options = ["--layer", 1, "--head", 2, "--top-k", 3, "--json"]
    status, printed = run(capsys, masked_lm, "the [MASK] sat", "--out", tmp_path / "out", *options)
    assert status == 0, printed.err
    result = json.loads(printed.out)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [LISTING, *sorted(result["files"])]
    assert "attention_layer_1_head_2.svg" in result["files"]
    assert [(head["layer"], head["head"]) for head in result["heads"]] == [(x, y) for x in (0, 1) for y in (0, 1, 2)]
    assert len(result["masked_predictions"][0]["proposals"]) == 3


@pytest.fixture
def tuning(tuned):
    """Fine-tuned classifier. Request it before `fake_figures`, because its confusion matrix must be a real figure."""
    return tuned("classify")


def test_training_option_plots_the_training_curves(tuning, tmp_path, capsys, fake_figures):
    status, printed = run(capsys, "--training", tuning.out, "--out", tmp_path / "out", "--json")
    assert status == 0, printed.err
    result = json.loads(printed.out)
    assert result["files"] == ["index.html", "confusion_matrix.png", "training.png", "training.svg"]
    assert result["scores"]["accuracy"] == json.loads(tuning.stdout)["accuracy"]


@pytest.mark.parametrize("task", slow_except(["classify", "tag", "answer", "embed"], quick=["answer"]))
def test_models_of_every_task_can_be_inspected(untrained, tmp_path, capsys, task):
    second = [] if task in ("classify", "tag") else ["the dog ran ."]
    status, printed = run(capsys, untrained(task).out, "the cat", *second, "--out", tmp_path / "out", "--no-pictures")
    assert status == 0, printed.err
    assert '<section id="prediction">' in (tmp_path / "out/index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{model}"], "there are 0 texts; expected one, or two for a pair"),
        (["{model}", "a", "b", "c"], "there are 3 texts"),
        (["nowhere", "the cat"], "nowhere does not exist"),
        (["{model}", "the cat", "--layer", "2"], "there is no layer 2; the model has layers 0 to 1"),
        (["{model}", "the cat", "--head", "3"], "there is no head 3; the model has heads 0 to 2"),
        (["{model}", "the cat " * 10], "the text has 22 tokens with [CLS] and [SEP]; the model accepts at most 19"),
        (["{model}", "--training"], "has no training history; expected training_log.jsonl or metrics.json"),
        (["{model}", "the cat", "--training"], "--training takes no texts"),
        (["{model}", "the cat", "--layer", "-1"], "is not an integer >= 0"),
    ],
)
def test_bad_input_prints_one_sentence_and_writes_nothing(checkpoint, tmp_path, capsys, arguments, message):
    arguments = [word.format(model=checkpoint) for word in arguments]
    try:
        status = main(["inspect", *arguments, "--out", str(tmp_path / "out")])
    except SystemExit as stopped:  # raised by argparse
        status = stopped.code
    assert status == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
    assert not list(tmp_path.iterdir())


def test_existing_folder_is_not_replaced(checkpoint, tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("mine")
    status, printed = run(capsys, checkpoint, "the cat", "--out", tmp_path, "--no-pictures")
    assert status == 2
    assert "exists and is not empty" in printed.err
    status, printed = run(capsys, checkpoint, "the cat", "--out", tmp_path, "--no-pictures", "--overwrite")
    assert status == 2
    assert "holds mine.txt and no .bert_keras.json, so inspect did not write it" in printed.err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_missing_matplotlib_is_reported_before_any_work(checkpoint, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("bert_keras.cli.commands.inspect.load_tensorflow", lambda: pytest.fail("TensorFlow was loaded"))
    status, printed = run(capsys, checkpoint, "the cat", "--out", tmp_path / "out")
    assert status == 2
    assert "pip install 'bert-keras[plots]'" in printed.err
    assert not list(tmp_path.iterdir())


def test_no_pictures_does_not_require_matplotlib(checkpoint, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, printed = run(capsys, checkpoint, "the cat", "--out", tmp_path / "out", "--no-pictures")
    assert status == 0, printed.err


def test_folder_without_vocabulary_is_rejected(tokenizer, tmp_path, capsys):
    bk.save(tiny_encoder(tokenizer), None, tmp_path / "bare")
    status, printed = run(capsys, tmp_path / "bare", "the cat", "--out", tmp_path / "out")
    assert status == 2
    assert "bare has no vocabulary, neither tokenizer.json nor vocab.txt" in printed.err
