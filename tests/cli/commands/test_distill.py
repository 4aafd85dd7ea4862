"""`distill`: the output folder, printed settings and results, its settings file, and one-sentence errors."""

import json
import re

import pytest

import bert_keras as bk
from bert_keras.cli.main import main
from bert_keras.training.config.sources import read_toml
from tests.marks import slow_except

AUTO_CLASSES = {
    "classify": "AutoModelForSequenceClassification",
    "tag": "AutoModelForTokenClassification",
    "answer": "AutoModelForQuestionAnswering",
    "embed": "AutoModel",
}
FAST = ["--epochs", "1", "--batch-size", "8"]


@pytest.mark.parametrize("task", slow_except(AUTO_CLASSES, quick=["classify"]))
def test_the_folder_opens_everywhere_and_its_settings_repeat_the_run(task, untrained, tmp_path, capsys, untraced):
    import transformers

    teacher, train, dev = untrained(task)
    files = ["--train", str(train), "--dev", str(dev)]
    status = main(["distill", str(teacher), str(tmp_path / "out"), *files, "--layers", "1", *FAST, "--json"])
    printed = capsys.readouterr()
    assert status == 0, printed.err
    result = json.loads(printed.out)
    metrics = json.loads((tmp_path / "out/metrics.json").read_text())
    assert result == {"out": str(tmp_path / "out"), **metrics, "warnings": result["warnings"]}
    assert metrics["teacher"]["parameters"] == metrics["parameters"] == bk.load(teacher).count_params()
    for pattern in (r"student +1 of the teacher's layers\n", r"temperature +2\n", r"model +parameters +"):
        assert re.search(pattern, printed.err)
    assert bk.Predictor.from_checkpoint(tmp_path / "out").task.name == task
    getattr(transformers, AUTO_CLASSES[task]).from_pretrained(tmp_path / "out")
    card = (tmp_path / "out/README.md").read_text()
    assert "## How it was distilled" in card
    assert f"- teacher: {teacher.name}" in card
    settings = tmp_path / "out/distillation.toml"
    assert read_toml(settings)["num_layers"] == 1
    assert main(["distill", str(teacher), str(tmp_path / "again"), "--config", str(settings)]) == 0
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("out", "again")]
    assert weights[0] == weights[1]


def test_unlabelled_texts_are_read_from_a_file(untrained, tmp_path, capsys, untraced):
    teacher, _, dev = untrained("classify")
    texts = tmp_path / "texts.txt"
    texts.write_text("the red mat\nevery cat ran\n" * 8)
    command = ["distill", str(teacher), str(tmp_path / "out"), "--unlabelled", str(texts), "--dev", str(dev)]
    assert main([*command, "--layers", "1", *FAST]) == 0
    printed = capsys.readouterr().err
    assert re.search(rf"unlabelled +{re.escape(str(texts))} \(16 examples\)\n", printed)
    assert re.search(r"losses +outputs 1\n", printed)
    assert re.search(r"teacher's score +accuracy [0-9.]+\n", printed)


BAD = {
    "no student": ([], "neither student nor num_layers was given"),
    "too many layers": (["--layers", "9"], "num_layers is 9 and the teacher has 1 layers"),
    "no examples": (["--layers", "1", "--train", ""], "no training examples were named"),
    "an option of another task": (["--layers", "1", "--tag-column", "2"], "--tag-column is for tag"),
    "a misspelled preset": (["--student", "smal"], "student is smal, which does not exist; expected one of tiny"),
    "a missing file": (["--layers", "1", "--unlabelled", "nothing.txt"], "nothing.txt does not exist"),
    "both held-out files": (["--layers", "1", "--dev-share", "0.2"], "were both given"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_ends_with_one_sentence(case, untrained, tmp_path, capsys):
    options, message = BAD[case]
    teacher, train, dev = untrained("classify")
    files = ["--dev", str(dev)] + ([] if case == "no examples" else ["--train", str(train)])
    options = options[:2] if case == "no examples" else options
    assert main(["distill", str(teacher), str(tmp_path / "out"), *files, *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("bert-keras distill: ")
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()
