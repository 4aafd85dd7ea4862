"""Ctrl-C at any moment, and standard streams that are closed, full or of another encoding: no traceback."""

import json
import os
import signal
import subprocess
import sys
import time
import weakref

import pytest

from bert_keras.cli.console.interrupts import interrupts_end_the_process, lost_interrupts_come_again
from bert_keras.cli.main import main
from tests.marks import slow

# the import of `main` takes 2 ms, in which nothing of ours runs yet
READY = "import sys\nfrom bert_keras.cli.main import main\nprint('ready', flush=True)\nsys.exit(main())"


@pytest.fixture(autouse=True)
def ctrl_c_interrupts():
    """The shell lets the tests ignore Ctrl-C where it runs them in the background, and all their children with them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupted(delay: float, *words: str):
    """Run a command, send it SIGINT after so many seconds, and return its status and what it printed last."""
    command = [sys.executable, "-c", READY, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        _, printed = process.communicate(timeout=60)
    return process.returncode, printed


# from the imports of the commands, which take 0.07 s, over that of TensorFlow to the work
@pytest.mark.parametrize(
    "delay", [0.05, *slow(*(0.01 * step for step in range(1, 26) if step != 5), 0.3, 0.5, 0.8, 1.2, 1.7, 2.2)]
)
def test_an_interrupted_command_says_so_in_one_line(delay):
    status, printed = interrupted(delay, "plan", "base")
    assert status == 130, printed
    assert "Traceback" not in printed
    assert printed.splitlines()[-1].startswith("bert-keras")
    assert "interrupted" in printed.splitlines()[-1]


def turned_into_an_error() -> None:
    try:
        raise KeyboardInterrupt
    finally:
        {}["missing"]  # as argparse does in a `finally` block of its own


@pytest.mark.parametrize("place", ["running.make_parser", "commands.plan.run"])
def test_an_interrupt_that_became_another_error_is_one_all_the_same(place, monkeypatch, capsys):
    monkeypatch.setattr(f"bert_keras.cli.{place}", lambda *_: turned_into_an_error())
    assert main(["plan", "base"]) == 130
    [line] = capsys.readouterr().err.splitlines()
    assert "interrupted" in line


class InterruptedAsItGoes:
    """Its end is a callback of Python's, out of which nothing can be raised."""

    def __del__(self):
        signal.raise_signal(signal.SIGINT)


def drop_an_interrupt():
    with lost_interrupts_come_again():
        InterruptedAsItGoes()
        time.sleep(10)


def test_an_interrupt_that_python_drops_comes_again():
    with pytest.raises(KeyboardInterrupt):
        drop_an_interrupt()


def test_other_errors_of_such_callbacks_are_reported_as_before(monkeypatch):
    reported = []

    def report(unraisable):
        reported.append(unraisable.exc_type)

    monkeypatch.setattr(sys, "unraisablehook", report)
    with lost_interrupts_come_again():
        things = set()
        seen = weakref.ref(things, lambda _: {}["missing"])
        del things
    assert seen() is None
    assert sys.unraisablehook is report
    assert reported == [KeyError]


def in_a_process(*lines: str):
    """Run lines within `interrupts_end_the_process` in a process of its own."""
    program = ["import os, signal, sys", "from bert_keras.cli.console.interrupts import interrupts_end_the_process"]
    block = ["with interrupts_end_the_process():", *(f"    {line}" for line in lines), "print('went on')"]
    return subprocess.run([sys.executable, "-c", "\n".join(program + block)], capture_output=True, text=True)


def test_an_interrupt_while_tensorflow_is_imported_ends_the_process_with_its_line():
    done = in_a_process("print('printed before')", "os.close(2)", "signal.raise_signal(signal.SIGINT)")
    assert done.returncode == 130
    assert done.stdout == "printed before\n"
    assert done.stderr == "bert-keras: interrupted; what was not finished was not written\n"


def test_who_ignores_ctrl_c_goes_on_ignoring_it():
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # children inherit it
    done = in_a_process("signal.raise_signal(signal.SIGINT)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "went on\n", "")


def test_ctrl_c_raises_again_after_the_block():
    with interrupts_end_the_process():
        pass
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def run(words: str, redirected: str, folder, **environment):
    command = f'"{sys.executable}" -m bert_keras.cli.main {words} {redirected}'
    return subprocess.run(
        command, shell=True, cwd=folder, capture_output=True, env={**os.environ, **environment}, stdin=subprocess.PIPE
    )


LEARN = "learn-vocab out.txt --size 60 --text text.txt --overwrite"
CLOSED = [
    # command, redirections, exit status, whether there is something on standard output
    (f"{LEARN} --json", ">&- 2>&- <&-", 0, False),
    *slow(
        (LEARN, "<&-", 0, True),
        (LEARN, ">&-", 0, False),
        (LEARN, "2>&-", 0, True),
        (LEARN, ">/dev/full", 2, False),
        (LEARN, "2>/dev/full", 0, True),
        (LEARN, ">/dev/full 2>/dev/full", 2, False),
        ("learn-vocab out.txt --size 60 --text - --overwrite", "<&-", 2, False),
        ("plan nothing", ">&- 2>&-", 2, False),
        ("plan", "2>&-", 2, False),
        ("plan", "2>/dev/full", 2, False),
        ("--version", ">&-", 0, False),
        ("predict nothing -", "<&- >&-", 2, False),
    ),
]


@pytest.mark.parametrize(("words", "redirected", "status", "has_output"), CLOSED)
def test_closed_and_full_streams_give_no_traceback(words, redirected, status, has_output, tmp_path):
    (tmp_path / "text.txt").write_text("the cat sat on a mat\n")
    done = run(words, redirected, tmp_path)
    assert done.returncode == status, done.stderr
    assert b"Traceback" not in done.stderr
    assert bool(done.stdout) == has_output
    if words.startswith(LEARN):
        assert b"[PAD]" in (tmp_path / "out.txt").read_bytes()[:10]  # and nothing that was printed is in it


@pytest.mark.slow
@pytest.mark.parametrize(
    "encoding", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}]
)
@pytest.mark.parametrize("name", ["caf\u00e9 \u4e2d".encode(), b"caf\xe9"])
def test_a_path_that_standard_output_cannot_hold_is_escaped(encoding, name, tmp_path):
    (tmp_path / "text.txt").write_text("the cat sat on a mat\n")
    for more in ([], ["--overwrite", "--json"]):
        words = [os.fsencode(sys.executable), "-m", "bert_keras.cli.main", "learn-vocab", name, "--size", "60"]
        done = subprocess.run(
            [*words, "--text", "text.txt", *more], cwd=tmp_path, capture_output=True, env={**os.environ, **encoding}
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.isascii()
        assert os.path.exists(os.path.join(os.fsencode(tmp_path), name))
    assert os.fsencode(json.loads(done.stdout)["out"]) in (name, os.fsencode(name.decode("utf-8", "surrogateescape")))
