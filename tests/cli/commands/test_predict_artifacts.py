"""`predict` answers from artifacts without TensorFlow, and continues an interrupted run."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

import bert_keras as bk
from bert_keras.cli.main import main
from bert_keras.cli.predictions import count_examples
from bert_keras.engines import predictor as predictor_module
from bert_keras.engines.cores import count_cores
from bert_keras.export.onnx.to_onnx import write_onnx_folder
from tests.marks import slow

TEXTS = ["the cat sat", "a dog ran off with its red hat .", "", "every cat", "dogs", "A Café, a red hat and the dog ."]


@pytest.fixture(scope="module")
def artifacts(untrained, tmp_path_factory):
    """Folder with the ONNX artifact of the tiny classifier."""
    out = tmp_path_factory.mktemp("artifacts")
    ask = bk.Predictor.from_checkpoint(untrained("classify").out)
    write_onnx_folder(ask.model, ask.tokenizer, out / "onnx", task=ask.task.settings())
    return out


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS * 40) + "\n", encoding="utf-8")
    return path


def read_lines(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("options", [[], *slow(["--engine", "openvino", "--instances", "2", "--threads", "1"])])
def test_answers_of_an_artifact_equal_those_of_its_checkpoint(options, artifacts, untrained, texts, tmp_path, capsys):
    for model, name, given in ((untrained("classify").out, "expected", []), (artifacts, "got", options)):
        command = ["predict", str(model), str(texts), "--out", str(tmp_path / name), "--on-error", "skip", *given]
        assert main(command) == 0
    expected, got = read_lines(tmp_path / "expected"), read_lines(tmp_path / "got")
    assert len(got) == 200
    tolerance = 0.02 if options else 2e-6  # bfloat16
    for one, other in zip(got, expected, strict=True):
        assert one["line"] == other["line"]
        assert one["probability"] == pytest.approx(other["probability"], abs=tolerance)
    printed = capsys.readouterr().err
    assert re.search(rf"\n  engine +{'openvino' if options else 'onnxruntime'}\n", printed)


@pytest.mark.parametrize(
    ("given", "is_file", "expected"),
    [
        ([], True, {"instances": count_cores()}),
        ([], False, {}),
        (["--threads", "1"], True, {"threads": 1}),
        (["--instances", "3"], True, {"instances": 3}),
    ],
)
def test_a_file_gets_an_instance_per_core(given, is_file, expected, artifacts, texts, tmp_path, monkeypatch):
    seen, load = {}, bk.Predictor.from_artifact

    def record_and_load(artifact, **options):
        seen.update(options)
        return load(artifact, **options)

    monkeypatch.setattr(bk.Predictor, "from_artifact", record_and_load)
    inputs = [str(texts), "--on-error", "skip"] if is_file else ["the red cat"]
    assert main(["predict", str(artifacts), *inputs, "--out", str(tmp_path / "out.jsonl"), *given]) == 0
    assert seen == expected


def test_the_command_runs_without_tensorflow(artifacts):
    code = (
        "import sys\nfrom bert_keras.cli.main import main\n"
        f"status = main(['predict', {str(artifacts)!r}, 'the red cat'])\n"
        "sys.exit(status or str(sorted({'tensorflow', 'keras'} & set(sys.modules))))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stderr.endswith("\n1 answer\n[]\n")
    assert set(json.loads(run.stdout)) == {"label", "probability"}


class Stop(BaseException):
    """What ends a run in the middle."""


@pytest.fixture
def interrupt_after(monkeypatch):
    """Function that lets a run answer some chunks of 64 examples and then stops it."""
    answer = bk.Predictor.answer
    monkeypatch.setattr(predictor_module, "EXAMPLES_PER_CHUNK", 64)
    answered = []

    def set_limit(num_chunks):
        def answer_or_stop(self, chunk, **options):
            if num_chunks is not None and len(answered) == num_chunks:
                raise Stop
            answered.append(len(chunk))
            return answer(self, chunk, **options)

        answered.clear()
        monkeypatch.setattr(bk.Predictor, "answer", answer_or_stop)
        return answered

    return set_limit


def test_an_interrupted_run_continues_and_its_file_is_the_same(interrupt_after, artifacts, texts, tmp_path, capsys):
    command = ["predict", str(artifacts), str(texts), "--on-error", "skip", "--out"]
    assert main([*command, str(tmp_path / "whole.jsonl")]) == 0
    assert capsys.readouterr().out.endswith(": 200 answers, 40 bad lines skipped\n")
    out = tmp_path / "out.jsonl"
    interrupt_after(2)
    with pytest.raises(Stop):
        main([*command, str(out)])
    assert not out.exists()
    with open(tmp_path / ".out.jsonl.partial/answers.jsonl", "ab") as file:
        file.write(b'{"line": 12')  # what a process can have written when it is killed
    answered = interrupt_after(None)
    assert main([*command, str(out)]) == 0
    printed = capsys.readouterr()
    assert answered == [64, 8]  # of the 200 the first 128 are not computed again
    assert "continuing an interrupted run after 128 answers" in printed.err
    assert printed.out.endswith(": 200 answers, 40 bad lines skipped\n")
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("change", ["options", "texts"])
def test_a_run_with_other_settings_or_texts_starts_afresh(change, interrupt_after, artifacts, texts, tmp_path, capsys):
    command = ["predict", str(artifacts), str(texts), "--on-error", "skip", "--out", str(tmp_path / "out.jsonl")]
    interrupt_after(1)
    with pytest.raises(Stop):
        main(command)
    if change == "texts":
        texts.write_text("\n".join(["dogs"] * 100), encoding="utf-8")
    answered = interrupt_after(None)
    assert main([*command, *(["--top", "2"] if change == "options" else [])]) == 0
    assert sum(answered) == (100 if change == "texts" else 200)
    assert "an interrupted run with other settings or files was discarded" in capsys.readouterr().err


@pytest.mark.slow
def test_a_killed_process_continues(artifacts, tmp_path):
    """SIGKILL leaves no chance to clean up."""
    texts, out = tmp_path / "many.txt", tmp_path / "out.jsonl"
    texts.write_text("\n".join(f"the cat number {number} sat" for number in range(60_000)), encoding="utf-8")
    command = [sys.executable, "-m", "bert_keras.cli.main", "predict", str(artifacts), str(texts), "--out", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    state = tmp_path / ".out.jsonl.partial/state.json"
    while process.poll() is None and not state.exists():
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert not out.exists()
    finished = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=True).stderr
    assert "continuing an interrupted run after" in finished
    assert [line["line"] for line in read_lines(out)] == list(range(1, 60_001))


def test_options_of_artifacts_are_refused_for_a_checkpoint(untrained, capsys):
    assert main(["predict", str(untrained("classify").out), "the cat", "--threads", "2"]) == 2
    assert "--threads is for artifacts, and " in capsys.readouterr().err
    assert main(["predict", str(untrained("classify").out), "the cat", "--engine", "onnxruntime"]) == 2
    assert "has no artifact; the engine onnxruntime needs an .onnx file: export it, or" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "number"), [("a.txt", "x\ny", 2), ("a.csv", "text\nx\n", 1), ("a.json", "[]", None)]
)
def test_examples_are_counted_for_the_progress_bar(name, content, number, tmp_path):
    path = pathlib.Path(tmp_path / name)
    path.write_text(content)
    assert count_examples(path, path.suffix[1:]) == number
