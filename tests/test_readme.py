"""The README: its short blocks run in the quick suite, all blocks in their order in the whole suite."""

import functools
import io
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from bert_keras.cli.main import main, parser

REPOSITORY = pathlib.Path(__file__).parents[1]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(bash|python)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
SHORTER = {"--steps 600": "--steps 3"}  # what the test trains for less long than the README says
LONG = ("bert-keras pretrain", "model.fit", "--to saved_model tflite onnx", "bert-keras plan")  # 15 to 45 s each


def parse_commands(block: str) -> list[tuple[str, list[str]]]:
    """Return the commands of a shell block: what each reads from standard input, and its arguments."""
    commands = []
    for line in block.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["echo"] and words[2:4] == ["|", "bert-keras"]:
            commands.append((words[1] + "\n", words[4:]))
        elif words:
            assert words[0] == "bert-keras", f"{line}: a test runs bert-keras alone, or echo before it"
            commands.append(("", words[1:]))
    return commands


def is_long(code: str) -> bool:
    return any(command in code for command in LONG)


@pytest.fixture(scope="module")
def workplace(quick_demo):
    """A folder with what `make demo` makes, and by the names of the first block, which makes the same."""
    folder, _ = quick_demo
    shutil.copytree(folder / "demo", folder / "my")
    return folder


def test_every_command_is_known():
    for language, code in BLOCKS:
        for _, arguments in parse_commands(code) if language == "bash" else ():
            assert parser().parse_args(arguments).command == arguments[0]


@pytest.mark.parametrize("index", [index for index, (_, code) in enumerate(BLOCKS) if not is_long(code)])
def test_short_blocks_run(index, workplace, monkeypatch, capsys):
    """In this process: each import of TensorFlow would take longer than the commands."""
    language, code = BLOCKS[index]
    monkeypatch.chdir(workplace)
    if language == "python":
        exec(compile(code, f"block {index} of README.md", "exec"), {"__name__": "readme"})
        return
    for standard_input, arguments in parse_commands(code):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(standard_input.encode())))
        assert main(arguments) == 0, capsys.readouterr().err[-3000:]


@pytest.mark.slow
def test_every_block_runs_in_a_process_of_its_own(quick_demo, tmp_path):
    folder = tmp_path / "workplace"
    folder.mkdir()
    (folder / "demo").symlink_to(quick_demo[0] / "demo")
    for language, block in BLOCKS:
        code = functools.reduce(lambda text, pair: text.replace(*pair), SHORTER.items(), block)
        command = {
            "bash": [
                "bash",
                "-euc",
                code.replace("bert-keras ", f"{sys.executable} -m bert_keras.cli.main "),
            ],
            "python": [sys.executable, "-c", code],
        }[language]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, code + done.stderr[-3000:]


def test_the_two_commands_are_targets_of_the_makefile():
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^make ([\w-]+)", README, re.MULTILINE)
    assert targets[:2] == ["demo", "test"]
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
