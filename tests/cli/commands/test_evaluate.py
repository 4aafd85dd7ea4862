"""`evaluate`: same scores as `finetune`, output files, and one-sentence errors."""

import json
import re
import shutil
import sys

import pytest

import bert_keras as bk
from bert_keras.cli.main import main
from bert_keras.cli.options.task_options import format_scores
from bert_keras.engines import predictor
from bert_keras.pipelines.records.making_records import write_records
from bert_keras.pipelines.text.portable_tokenizer import TokenizerSpec
from bert_keras.pipelines.text.text_rules import TextRules
from tests.cli.conftest import tiny_encoder
from tests.marks import slow_except

NUM_HELD_OUT = {"classify": 9, "tag": 9, "answer": 6, "embed": 8}


@pytest.mark.parametrize("task", slow_except(NUM_HELD_OUT, quick=["classify"]))
def test_scores_of_the_held_out_file_equal_those_of_training(task, tuned, monkeypatch, capsys):
    monkeypatch.setattr(predictor, "EXAMPLES_PER_CHUNK", 2)  # other batches would change the last digits
    done = tuned(task)
    assert main(["evaluate", str(done.out), str(done.dev), "--json"]) == 0
    printed = capsys.readouterr()
    metrics = json.loads((done.out / "metrics.json").read_text())
    assert json.loads(printed.out) == {
        "examples": NUM_HELD_OUT[task],
        "skipped": 0,
        **metrics["epochs"][metrics["epoch"] - 1],
    }


def test_settings_and_scores_are_printed(tuned, capsys):
    done = tuned("classify")
    assert main(["evaluate", str(done.out), str(done.dev)]) == 0
    printed = capsys.readouterr()
    assert printed.err.startswith(
        f"bert-keras evaluate\n  checkpoint  {done.out}\n  task        classify, single_label\n"
        f"  file        {done.dev} (9 examples)\n  columns     text 'text', label 'label'\n"
        "  sequences   at most 19 tokens, longer texts truncated\n"
    )
    scores = json.loads((done.out / "metrics.json").read_text())
    expected = ", ".join(f"{name} {scores[name]:.4g}" for name in ("accuracy", "macro_f1", "matthews"))
    assert printed.out == f"{done.dev}: {expected} on 9 examples\n"


def test_three_scores_are_printed_starting_with_the_main_score():
    tags = {"precision": 0.5, "recall": 0.25, "f1": 1 / 3, "accuracy": 0.9}
    assert format_scores(tags, "f1") == "f1 0.3333, precision 0.5, recall 0.25"
    classes = {"accuracy": 0.75, "macro_f1": 0.6, "micro_f1": 0.75, "matthews": 0.1, "loss": 0.5}
    assert format_scores(classes, "accuracy") == "accuracy 0.75, macro_f1 0.6, matthews 0.1"
    assert format_scores({"micro_f1": 0.5, "macro_f1": 0.6}, "micro_f1") == "micro_f1 0.5, macro_f1 0.6"


def test_scores_and_confusion_matrix_are_written_to_the_given_files(tuned, tmp_path, capsys):
    done = tuned("classify")
    out, plot = tmp_path / "new/scores.json", tmp_path / "matrix.png"
    command = ["evaluate", str(done.out), str(done.dev), "--out", str(out), "--plot", str(plot), "--json"]
    assert main(command) == 0
    printed = json.loads(capsys.readouterr().out)
    assert {"examples": 9, "skipped": 0, **json.loads(out.read_text())} == printed
    assert plot.read_bytes() == (done.out / "confusion_matrix.png").read_bytes()

    out.write_text("old")
    assert main(command) == 2
    last_line = capsys.readouterr().err.strip().split("\n")[-1]
    assert re.search(r"scores\.json exists: name another file, or give --overwrite; .*matrix\.png exists", last_line)
    assert out.read_text() == "old"
    assert main([*command, "--overwrite"]) == 0
    assert {"examples": 9, "skipped": 0, **json.loads(out.read_text())} == printed


def test_evaluation_may_use_a_different_sequence_length(tuned, capsys):
    done = tuned("classify")
    assert main(["evaluate", str(done.out), str(done.dev), "--max-sequence-length", "5", "--window-overlap", "1"]) == 0
    assert (
        "sequences   at most 5 tokens, longer texts split into windows that overlap by 1\n" in capsys.readouterr().err
    )


FAULTS = {
    "several problems at once": (
        "nothing no.csv --out full --plot full",
        r"nothing does not exist; .*; no\.csv does not exist; .*; full is a folder; .*; "
        r"--out and --plot are both full; expected two different files",
    ),
    "masked LM and a file of words": (
        "masked_lm odd.conll",
        r"odd\.conll contains words, not texts; expected \.txt, ",
    ),
    "masked LM and options of labelled examples": (
        "masked_lm dev.csv --label-column label --seed 3 --plot p.png",
        r"--label-column, --seed, --plot is not for a masked LM on a file of texts: leave it out",
    ),
    "masked LM and options of texts": (
        "masked_lm records --text-column text",
        r"--text-column is not for a masked LM on a folder of records: leave it out",
    ),
    "masked LM and records of another tokenizer": (
        "masked_lm cased_records",
        r"masked_lm has another tokenizer than the records cased_records \(lowercase is True and False",
    ),
    "masked LM and a folder without records": ("masked_lm full", r"full.manifest\.json"),
    "options for masked LMs": (
        "classify dev.csv --limit 3 --split train",
        r"--limit, --split is for models with a masked-LM head: leave it out",
    ),
    "folder of an unknown format": ("full dev.csv", r"full is not a checkpoint of a supported format"),
    "unknown label": (
        "classify odd.csv",
        r"odd\.csv, line 3: the label 'bird' is not one of the model's, which are 'cat', 'dog': correct the label",
    ),
    "unknown tag": (
        "tag odd.conll",
        r"odd\.conll, line 1: the label 'B-HAT' is not one of the model's, which are 'O', 'B-PET', 'I-PET'",
    ),
    "missing field": ("classify ragged.csv", r"ragged\.csv, line 2: the row has 1 field but there are 2 columns"),
    "missing column": (
        "classify dev.csv --label-column truth",
        r"dev\.csv, line 1: there is no column 'truth'; the columns are 'text', 'label'",
    ),
    "file of another task": (
        "classify odd.conll",
        r"odd\.conll is a file for the task tag, and the task is classify: name another file or task",
    ),
    "options of other tasks": (
        "classify dev.csv --word-column 0 --tag-column 1",
        r"--word-column is for tag, and the task is classify: leave it out; --tag-column is for tag",
    ),
    "confusion matrix of tags": (
        "tag dev.conll --plot plot.png",
        r"only a classifier with single labels has a confusion matrix, and this is tag: leave out --plot",
    ),
    "scores would replace the examples": (
        "classify dev.csv --out dev.csv --overwrite",
        r"dev\.csv is an input of this run and would be replaced by dev\.csv: write to another path",
    ),
}


@pytest.fixture(scope="module")
def records_of_both_casings(tokenizer, tmp_path_factory):
    """Folder that contains two records folders, one cased and one uncased."""
    folder = tmp_path_factory.mktemp("both")
    story = [["the cat sat on a mat", "every dog ran off"] for _ in range(9)]
    for name, lowercase in (("records", True), ("cased_records", False)):
        facts = TokenizerSpec(tokenizer.vocabulary, TextRules(lowercase=lowercase))
        write_records(folder / name, story, facts, max_sequence_length=16, held_out_rate=0.4)
    return folder


@pytest.fixture(scope="module")
def masked_lm(tokenizer, tmp_path_factory):
    """Folder of a masked LM with one layer."""
    folder = tmp_path_factory.mktemp("masked") / "masked_lm"
    config = tiny_encoder(tokenizer, num_layers=1).config
    bk.save(bk.BertMaskedLM(bk.BertEncoder(config, pooler=False)), tokenizer, folder)
    return folder


@pytest.fixture
def workplace(tmp_path, checkpoint, masked_lm, untrained, records_of_both_casings, monkeypatch):
    """Folder with checkpoints, and with good and bad files."""
    (tmp_path / "encoder").symlink_to(checkpoint)
    (tmp_path / "masked_lm").symlink_to(masked_lm)
    for task in ("classify", "tag"):
        (tmp_path / task).symlink_to(untrained(task).out)
        shutil.copy(untrained(task).dev, tmp_path / f"dev{untrained(task).dev.suffix}")
    for path in records_of_both_casings.iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "full").mkdir()
    (tmp_path / "odd.csv").write_text("text,label\nthe cat,cat\na bird,bird\n")
    (tmp_path / "odd.conll").write_text("the O\nhat B-HAT\n")
    (tmp_path / "ragged.csv").write_text("text,label\nthe cat\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("fault", FAULTS)
def test_bad_input_prints_one_sentence_with_status_2_and_writes_nothing(fault, workplace, capsys):
    arguments, message = FAULTS[fault]
    before = sorted(workplace.rglob("*"))
    assert main(["evaluate", *arguments.split()]) == 2
    printed = capsys.readouterr()
    last_line = printed.err.strip().split("\n")[-1]
    assert last_line.startswith("bert-keras evaluate: ")
    assert re.search(message, last_line)
    assert printed.out == ""
    assert sorted(workplace.rglob("*")) == before


def test_masked_lm_can_be_evaluated_on_records_and_texts(workplace, capsys):
    (workplace / "texts.txt").write_text("The cat sat.\n\nevery dog ran off\n")
    assert main("evaluate masked_lm records --out scores.json".split()) == 0
    printed = capsys.readouterr()
    assert re.search(
        r"records +records \(held_out, \d+ sequences\)\n +masks +15 % of the tokens, seed 0\n", printed.err
    )
    scores = json.loads((workplace / "scores.json").read_text())
    expected = (
        rf"^records: masked-LM loss {scores['mlm_loss']:.4g}, accuracy \S+, perplexity {scores['perplexity']:.4g} on \d"
    )
    assert re.search(expected, printed.out)
    assert main("evaluate masked_lm texts.txt --json".split()) == 0
    line_scores = json.loads(capsys.readouterr().out)
    assert (line_scores["texts"], line_scores["tokens"], line_scores["unknown_rate"]) == (2, 8, 0)
    (workplace / "texts.csv").write_text("id,text\n1,The cat sat.\n2,every dog ran off\n3,a hat\n")
    assert main("evaluate masked_lm texts.csv --limit 2".split()) == 0
    printed = capsys.readouterr().out
    assert f"pseudo-perplexity {line_scores['pseudo_perplexity']:.4g}, loss" in printed


def test_missing_matplotlib_is_reported_before_any_work(workplace, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["evaluate", "classify", "dev.csv", "--plot", "plot.png"]) == 2
    stderr = capsys.readouterr().err
    assert "needs the package 'matplotlib', which is not installed: run  pip install 'bert-keras[plots]'" in stderr
    assert "evaluating" not in stderr
    assert not (workplace / "plot.png").exists()


def test_prompt_is_prepended_to_each_evaluated_text(untrained, tmp_path, capsys):
    done = untrained("embed")
    folder = shutil.copytree(done.out, tmp_path / "with_prompts")
    prompts = {"prompts": {"query": "every red ", "none": ""}, "default_prompt_name": "query"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    scores = []
    for options in ([], ["--prompt", "query"], ["--prompt", "none"]):
        assert main(["evaluate", str(folder), str(done.dev), "--json", *options]) == 0
        scores.append(json.loads(capsys.readouterr().out))
    assert scores[0] == scores[1] != scores[2]
