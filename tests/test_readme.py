"""The README: its short blocks run in the quick suite, all blocks in their order in the whole suite."""

import functools
import re
import shutil
import subprocess
import sys

import pytest

from tests.code_blocks import REPOSITORY, read_blocks
from tests.running_blocks import PageRunner

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
BLOCKS = [block for block in read_blocks("README.md") if block.is_run]
SHORTER = {"--steps 600": "--steps 3"}  # what the test trains for less long than the README says
LONG = ("bert-keras pretrain", "model.fit", "--to saved_model tflite onnx", "bert-keras plan")  # 15 to 45 s each


def is_long(code: str) -> bool:
    return any(command in code for command in LONG)


@pytest.fixture(scope="module")
def workplace(quick_demo):
    """A folder with what `make demo` makes, and by the names of the first block, which makes the same."""
    folder, _ = quick_demo
    shutil.copytree(folder / "demo", folder / "my")
    return folder


@pytest.mark.parametrize("block", [block for block in BLOCKS if not is_long(block.code)], ids=str)
def test_short_blocks_run(block, workplace, monkeypatch, capsys):
    """In this process: each import of TensorFlow would take longer than the commands."""
    monkeypatch.chdir(workplace)
    with PageRunner(workplace, capsys, monkeypatch) as runner:
        runner.run(block)


@pytest.mark.slow
def test_every_block_runs_in_a_process_of_its_own(quick_demo, tmp_path):
    folder = tmp_path / "workplace"
    folder.mkdir()
    (folder / "demo").symlink_to(quick_demo[0] / "demo")
    for block in BLOCKS:
        code = functools.reduce(lambda text, pair: text.replace(*pair), SHORTER.items(), block.code)
        command = {
            "bash": [
                "bash",
                "-euc",
                code.replace("bert-keras ", f"{sys.executable} -m bert_keras.cli.main "),
            ],
            "python": [sys.executable, "-c", code],
        }[block.language]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, code + done.stderr[-3000:]


def test_the_two_commands_are_targets_of_the_makefile():
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^make ([\w-]+)", README, re.MULTILINE)
    assert targets[:2] == ["demo", "test"]
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
