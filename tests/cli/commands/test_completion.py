"""Shell completion: commands, options, choices and files, in a real shell."""

import shutil
import subprocess

import pytest

from bert_keras.cli.commands.completion import SHELLS
from bert_keras.cli.main import COMMANDS, main
from bert_keras.cli.options.declaring import FILES

# what a shell does when Tab is pressed, for each command line
COMPLETE = """
source {script}
while read -r line; do
    read -ra COMP_WORDS <<< "$line"
    [[ $line == *" _" ]] && COMP_WORDS[-1]=""
    COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)) COMPREPLY=()
    $(complete -p bert-keras | sed 's/.*-F \\([^ ]*\\).*/\\1/')
    echo "${{COMPREPLY[*]}}"
done
"""
LINES = {
    "bert-keras fine": ["finetune"],
    "bert-keras _": [*COMMANDS],
    "bert-keras finetune --tens": ["--tensorboard"],
    "bert-keras finetune --task _": ["classify", "tag", "answer", "embed"],
    "bert-keras finetune --log-format j": ["json"],
    "bert-keras finetune --config se": ["settings.toml"],
    "bert-keras finetune che": ["checkpoint"],
    "bert-keras convert che": ["checkpoint"],
    "bert-keras pretrain rec": ["records"],
    "bert-keras completion z": ["zsh"],
}


@pytest.fixture
def make_script(tmp_path, capsys):
    """Function that writes the script of a shell and returns its path."""
    pytest.importorskip("shtab")

    def make(shell):
        assert main(["completion", shell]) == 0
        (tmp_path / f"completion.{shell}").write_text(capsys.readouterr().out)
        return tmp_path / f"completion.{shell}"

    return make


def test_bash_completes_commands_options_choices_and_files(make_script, tmp_path):
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    script = make_script("bash")
    (tmp_path / "settings.toml").touch()
    for folder in ("checkpoint", "records"):
        (tmp_path / folder).mkdir()
    code = COMPLETE.format(script=script)
    text = "\n".join(LINES) + "\n"
    done = subprocess.run(["bash", "-c", code], input=text, capture_output=True, text=True, cwd=tmp_path)
    assert done.stderr == ""
    completed = dict(zip(LINES, (set(line.split()) for line in done.stdout.split("\n")), strict=False))
    completed["bert-keras _"] -= {"-h", "--help", "--version", "--log-format"}
    assert completed == {line: set(words) for line, words in LINES.items()}


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_gets_a_script_with_all_commands(shell, make_script):
    script = make_script(shell).read_text()
    assert all(command in script for command in COMMANDS)


def test_files_are_completed_by_the_functions_of_shtab():
    shtab = pytest.importorskip("shtab")
    assert FILES.items() <= shtab.FILE.items()


def test_a_missing_shtab_is_reported_with_the_extra(monkeypatch, capsys):
    monkeypatch.setattr("bert_keras.extras.is_installed", lambda package: package != "shtab")
    assert main(["completion", "bash"]) == 2
    assert "bert-keras[completion]" in capsys.readouterr().err
