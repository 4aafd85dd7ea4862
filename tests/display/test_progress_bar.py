"""Progress bars in terminals, pipes, CI logs and notebooks."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

from bert_keras.display.progress_bar import ProgressBar

BAR = """
import time
from bert_keras.display.progress_bar import ProgressBar
with ProgressBar("training", "steps") as bar:
    for step in range(1, 41):
        bar.update(step, 40, f"loss {1 / step:.3f}  accuracy 0.500  tokens/s 12,345")
        if step == 20:
            bar.print("held out: accuracy 0.75")
        time.sleep(0.01)
"""
ESCAPE, COLOR, UP = "\x1b", re.compile(r"\x1b\[[\d;]*m"), "\x1b[1A"
PLAIN = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}


def run_in_terminal(environment: dict, *, columns: int = 120) -> str:
    """Run `BAR` in a pseudo-terminal and return all that it printed."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    command = [sys.executable, "-c", BAR]
    process = subprocess.Popen(command, stderr=theirs, stdin=theirs, stdout=theirs, env={**PLAIN, **environment})
    os.close(theirs)
    printed = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the terminal is closed
            break
        if not part:
            break
        printed += part
    os.close(ours)
    assert process.wait() == 0
    return printed.decode()


def get_last_lines(printed: str) -> list[str]:
    """Return what a terminal shows at the end: each line as it was drawn last."""
    lines = [line.split("\r")[-1] for line in printed.replace("\r\n", "\n").split("\n")]
    return [re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", line).rstrip() for line in lines if line]


@pytest.mark.parametrize("columns", [120, 40, 20])
def test_a_bar_moves_in_one_line_of_a_terminal_however_narrow(columns):
    printed = run_in_terminal({"TERM": "xterm-256color"}, columns=columns)
    assert ESCAPE in printed
    assert UP not in printed, "the bar took more than one line"
    lines = [line for line in get_last_lines(printed) if line]
    assert lines[0].strip() == "held out: accuracy 0.75"[: max(columns, 30)]
    assert len(lines) == 2
    assert len(lines[1]) <= columns
    if columns == 120:
        assert re.search(r"training .* 40/40 .*steps/s +loss 0\.025", lines[1])


@pytest.mark.parametrize(
    "environment",
    [{"TERM": "dumb"}, {"TERM": "xterm", "CI": "true"}, {"TERM": "xterm", "JPY_PARENT_PID": "1"}],
    ids=["dumb", "CI", "command in a notebook"],
)
def test_terminals_that_cannot_redraw_and_ci_jobs_get_few_lines_without_escape_codes(environment):
    check_lines(run_in_terminal(environment).replace("\r\n", "\n"))


def test_no_color_leaves_the_bar_and_removes_colors():
    printed = run_in_terminal({"TERM": "xterm-256color", "NO_COLOR": "1"})
    assert "40/40" in printed
    codes = {code for code in COLOR.findall(printed) if re.search(r"[34]\d|38|48", code)}
    assert codes == set()


@pytest.mark.parametrize("environment", [{}, {"FORCE_COLOR": "1"}, {"TTY_COMPATIBLE": "1"}], ids=str)
def test_a_pipe_gets_few_lines_without_escape_codes(environment):
    done = subprocess.run(
        [sys.executable, "-c", BAR], capture_output=True, text=True, env={**PLAIN, "TERM": "xterm", **environment}
    )
    assert done.stdout == ""
    check_lines(done.stderr)


def check_lines(printed: str) -> None:
    assert ESCAPE not in printed
    assert "\r" not in printed
    lines = printed.splitlines()
    assert len(lines) == 11
    assert lines[-1].split()[:3] == ["training", "40/40", "steps"]


@pytest.mark.parametrize("has_rate", [True, False])
def test_log_lines_name_the_unit_and_have_rate_and_eta_only_where_they_are_useful(has_rate, capsys):
    with ProgressBar("learning", "words", has_rate=has_rate) as bar:
        for done in (1, 5, 10):
            bar.update(done, 10)
    lines = capsys.readouterr().err.splitlines()
    assert [" ".join(line.split()[:3]) for line in lines] == [f"learning {done}/10 words" for done in (1, 5, 10)]
    assert ["words/s" in line for line in lines] == [False, has_rate, has_rate]
    assert ["ETA" in line for line in lines] == [False, has_rate, False]


def test_a_bar_that_restarts_prints_ten_lines_again(capsys):
    with ProgressBar("training", "steps") as bar:
        for _ in range(2):
            for done in range(1, 41):
                bar.update(done, 40)
            bar.restart()
    counts = [line.split()[1] for line in capsys.readouterr().err.splitlines()]
    assert counts == [f"{done}/40" for done in range(4, 41, 4)] * 2


@pytest.mark.parametrize("total", [1, None])
def test_one_unit_is_named_in_the_singular(total, capsys):
    with ProgressBar("predicting", "examples") as bar:
        bar.update(1, total)
    assert capsys.readouterr().err.strip() == f"predicting 1{'/1' if total else ''} example"


COMMAND = "!{python} -m bert_keras.cli.main learn-vocab vocab.txt --text text.txt --size 300"


@pytest.fixture
def run_notebook(tmp_path):
    """Function that executes cells in a real kernel and returns the outputs of each."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")

    def run(*cells: str) -> list[list]:
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        nbclient.NotebookClient(
            notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
        ).execute()
        return [cell.outputs for cell in notebook.cells]

    return run


@pytest.mark.slow
def test_a_notebook_shows_one_output_that_is_updated_in_place(run_notebook, tmp_path):
    (tmp_path / "text.txt").write_text("the cat sat on a mat and every dog ran off\n" * 500)
    bar, command = run_notebook(BAR, COMMAND.format(python=sys.executable))
    [output] = bar
    assert output.output_type == "display_data"
    text, markup = output.data["text/plain"], output.data["text/html"]
    assert re.match(r"training 40/40 steps .*steps/s  loss 0\.025", text)
    assert text.endswith("\nheld out: accuracy 0.75")
    assert '<progress aria-label="training" value="40" max="40">' in markup
    printed = "".join(output.text for output in command)
    assert "wrote vocab.txt" in printed
    assert ESCAPE not in printed


@pytest.mark.slow
def test_a_training_in_a_notebook_shows_one_bar(run_notebook, tiny_checkpoint):
    train = (
        "import bert_keras as bk\n"
        "pets = [(f'a {pet} {n}', pet) for n in range(40) for pet in ('cat', 'dog')]\n"
        f"tuned = bk.finetune({str(tiny_checkpoint)!r}, train=pets, num_epochs=2, batch_size=4OPTIONS)"
    )
    [shown, hidden] = run_notebook(train.replace("OPTIONS", ""), train.replace("OPTIONS", ", verbose=False"))
    [output] = [output for output in shown if output.output_type == "display_data"]
    assert re.match(r"training 36/36 steps ", output.data["text/plain"])
    assert output.data["text/plain"].count("held out: accuracy") == 2
    assert hidden == []


@pytest.fixture
def tiny_checkpoint(tmp_path):
    """A folder with a tiny encoder and a vocabulary."""
    import bert_keras as bk

    tokenizer = bk.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "cat", "dog"])
    config = bk.BertConfig(
        vocabulary_size=8, num_layers=1, num_heads=2, hidden_dim=16, intermediate_dim=24, max_sequence_length=24
    )
    bk.save(bk.BertEncoder(config), tokenizer, tmp_path / "tiny")
    return tmp_path / "tiny"
