"""`demo --quick` in a process."""

import json

from bert_keras.cli.main import main


def test_quick_demo_runs_the_full_pipeline(quick_demo):
    folder, done = quick_demo
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout)
    assert len(result["answers"]) == 4
    labels = set(json.loads((folder / "demo/classifier/config.json").read_text())["label2id"])
    assert {answer["label"] for answer in result["answers"]} <= labels
    for command in ("learn-vocab", "make-records", "pretrain", "finetune", "export"):
        assert f"$ bert-keras {command} demo/" in done.stderr
    assert "steps/s" in done.stderr
    for path in ("vocab.txt", "records/manifest.json", "pretrained/model.safetensors", "artifacts/parity.json"):
        assert (folder / "demo" / path).exists()
    assert json.loads((folder / "demo/artifacts/parity.json").read_text())["artifacts"]["saved_model/1"]["passed"]


def test_demo_shows_whole_words_and_no_remaining_time_of_an_export(quick_demo):
    _, done = quick_demo
    lines = done.stderr.splitlines()
    for answer in json.loads(done.stdout)["answers"]:
        [shown] = [line[2:72] for line in lines if line.startswith(f"  {answer['text'][:40]}")]
        words = shown.replace(" ...", "").split()
        assert len(words) > 5
        assert words == answer["text"].split()[: len(words)]
    exporting = [line for line in lines if line.startswith("  exporting")]
    assert exporting
    assert not any("ETA" in line for line in exporting)


def test_demo_hides_log_lines_of_libraries(quick_demo):
    _, done = quick_demo
    for noise in ("Warning", "WARNING", "cuda", "Traceback", "absl"):
        assert noise not in done.stderr


def test_demo_does_not_replace_an_existing_folder(tmp_path, monkeypatch, capsys):
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo/mine").write_text("mine")
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "demo", "--quick"]) == 2
    assert "demo exists and is not empty" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "demo").iterdir()] == ["mine"]
