"""The whole road, in its quick form, from the shell; and the README, run as it stands."""

import json
import pathlib
import re
import subprocess
import sys

import pytest

from bert_keras.cli.main import main

REPOSITORY = pathlib.Path(__file__).parents[2]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(bash|python)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
QUICK = {"--steps 600": "--steps 3"}  # what the test runs for less long than the README says


def test_the_quick_demo_walks_the_whole_road(quick_demo):
    folder, done = quick_demo
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout)
    assert len(result["answers"]) == 4
    labels = set(json.loads((folder / "demo/classifier/config.json").read_text())["label2id"])
    assert {answer["label"] for answer in result["answers"]} <= labels
    for verb in ("learn-vocab", "make-records", "pretrain", "finetune", "export"):
        assert f"$ bert-keras {verb} demo/" in done.stderr
    assert "steps/s" in done.stderr
    for path in ("vocab.txt", "records/manifest.json", "pretrained/model.safetensors", "artifacts/parity.json"):
        assert (folder / "demo" / path).exists()
    assert json.loads((folder / "demo/artifacts/parity.json").read_text())["artifacts"]["saved_model/1"]["passed"]


def test_the_demo_prints_nothing_that_is_not_ours(quick_demo):
    _, done = quick_demo
    for noise in ("Warning", "WARNING", "cuda", "Traceback", "absl"):
        assert noise not in done.stderr


def test_the_demo_keeps_a_folder_that_is_there(tmp_path, monkeypatch, capsys):
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo/mine").write_text("mine")
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "demo", "--quick"]) == 2
    assert "demo exists and is not empty" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "demo").iterdir()] == ["mine"]


@pytest.mark.parametrize("index", range(len(BLOCKS)))
def test_every_block_of_the_readme_runs(index, quick_demo):
    folder, _ = quick_demo
    language, code = BLOCKS[index]
    for long, short in QUICK.items():
        code = code.replace(long, short)
    if language == "bash":
        command = ["bash", "-euc", code.replace("bert-keras ", f"{sys.executable} -m bert_keras.cli.main ")]
    else:
        command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def test_the_readme_s_two_commands_are_targets_of_the_makefile():
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^make (\w+)", README, re.MULTILINE)
    assert targets[:2] == ["demo", "test"]
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
