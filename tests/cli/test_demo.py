"""The whole road, in its quick form, from the shell; and the README, run as it stands."""

import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

import pytest

from bert_keras.cli.main import main

from . import one_process

REPOSITORY = pathlib.Path(__file__).parents[2]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(bash|python)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
CODES = [code for _, code in BLOCKS]
QUICK = {"--steps 600": "--steps 3"}  # what the test runs for less long than the README says
LONG = ("bert-keras pretrain", "--to saved_model tflite onnx", "bert-keras plan")  # 6 to 50 s of processor time each


def is_long(code: str) -> bool:
    """Whether a block has a command that takes long: the others run in the quick tests."""
    return any(command in code for command in LONG)


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


@pytest.fixture(scope="module")
def run_block(quick_demo, tmp_path_factory):
    """A function that runs a block of the README beside the demo, its commands in one process."""
    folder, _ = quick_demo
    shutil.copytree(folder / "demo", folder / "my")  # what the first block makes, by the same names
    place = tmp_path_factory.mktemp("server")
    client = [sys.executable, one_process.__file__, str(place / "socket")]
    with subprocess.Popen([sys.executable, "-m", "tests.cli.one_process", str(place / "socket")], cwd=REPOSITORY):
        while not (place / "socket").exists():
            time.sleep(0.05)

        def run(language: str, code: str, folder: pathlib.Path = folder):
            words = [*client, "-c", code]
            if language == "bash":
                words = ["bash", "-euc", f'bert-keras() {{ {shlex.join(client)} "$@"; }}\n{code}']
            with open(place / "output", "w+") as output:  # a pipe would stay open in the server
                status = subprocess.run(words, cwd=folder, stdout=output, stderr=output).returncode
                output.seek(0)
                assert status == 0, output.read()[-3000:]

        yield run
        subprocess.run([*client, "stop"])


@pytest.mark.parametrize("index", [index for index, code in enumerate(CODES) if not is_long(code)])
def test_every_short_block_of_the_readme_runs(index, run_block):
    run_block(*BLOCKS[index])


@pytest.mark.slow
def test_every_block_of_the_readme_runs_in_their_order(run_block, quick_demo, tmp_path):
    shutil.copytree(quick_demo[0] / "demo", tmp_path / "demo")
    for language, code in BLOCKS:
        for long, short in QUICK.items():
            code = code.replace(long, short)
        run_block(language, code, tmp_path)


def test_the_readme_s_two_commands_are_targets_of_the_makefile():
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^make (\w+)", README, re.MULTILINE)
    assert targets[:2] == ["demo", "test"]
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
