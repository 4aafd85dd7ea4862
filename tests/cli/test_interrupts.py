"""Ctrl-C at any time causes no traceback, nor do standard streams that are closed, full or not in UTF-8."""

import json
import os
import signal
import subprocess
import sys
import time
import weakref

import pytest

from bert_keras.cli.interrupts import exit_on_interrupt, resend_dropped_interrupts
from bert_keras.cli.main import main
from tests.marks import slow

# importing `main` takes 2 ms, during which our code cannot handle signals
READY = "import sys\nfrom bert_keras.cli.main import main\nprint('ready', flush=True)\nsys.exit(main())"


@pytest.fixture(autouse=True)
def ctrl_c_interrupts():
    """Restore the default handler, because shells make background processes ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt_command(delay: float, *arguments: str):
    """Run a command, send it SIGINT after a delay, and return its status and standard error."""
    command = [sys.executable, "-c", READY, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        _, printed = process.communicate(timeout=60)
    return process.returncode, printed


# the delays end during imports of the commands (0.07 s), the import of TensorFlow, and the work
@pytest.mark.parametrize(
    "delay", [0.05, *slow(*(0.01 * step for step in range(1, 26) if step != 5), 0.3, 0.5, 0.8, 1.2, 1.7, 2.2)]
)
def test_interrupted_command_prints_one_line(delay):
    status, printed = interrupt_command(delay, "plan", "base")
    assert status == 130, printed
    assert "Traceback" not in printed
    assert printed.splitlines()[-1].startswith("bert-keras")
    assert "interrupted" in printed.splitlines()[-1]


def raise_other_error_on_interrupt() -> None:
    try:
        raise KeyboardInterrupt
    finally:
        {}["missing"]  # argparse does this in a `finally` block


@pytest.mark.parametrize("function", ["running.make_parser", "commands.plan.run"])
def test_interrupt_is_recognized_inside_another_exception(function, monkeypatch, capsys):
    monkeypatch.setattr(f"bert_keras.cli.{function}", lambda *_: raise_other_error_on_interrupt())
    assert main(["plan", "base"]) == 130
    [line] = capsys.readouterr().err.splitlines()
    assert "interrupted" in line


class InterruptInFinalizer:
    """Object that sends SIGINT in its finalizer, where Python ignores exceptions."""

    def __del__(self):
        signal.raise_signal(signal.SIGINT)


def ignore_interrupt():
    with resend_dropped_interrupts():
        InterruptInFinalizer()
        time.sleep(10)


def test_ignored_interrupt_is_resent():
    with pytest.raises(KeyboardInterrupt):
        ignore_interrupt()


def test_other_unraisable_errors_reach_the_default_hook(monkeypatch):
    reported = []

    def report(unraisable):
        reported.append(unraisable.exc_type)

    monkeypatch.setattr(sys, "unraisablehook", report)
    with resend_dropped_interrupts():
        target = set()
        reference = weakref.ref(target, lambda _: {}["missing"])
        del target
    assert reference() is None
    assert sys.unraisablehook is report
    assert reported == [KeyError]


def run_in_process(*lines: str):
    """Run lines of code inside `exit_on_interrupt` in a new process."""
    program = ["import os, signal, sys", "from bert_keras.cli.interrupts import exit_on_interrupt"]
    block = ["with exit_on_interrupt():", *(f"    {line}" for line in lines), "print('continued')"]
    return subprocess.run([sys.executable, "-c", "\n".join(program + block)], capture_output=True, text=True)


def test_interrupt_during_the_tensorflow_import_prints_one_message():
    done = run_in_process("print('printed before')", "os.close(2)", "signal.raise_signal(signal.SIGINT)")
    assert done.returncode == 130
    assert done.stdout == "printed before\n"
    assert done.stderr == "bert-keras: interrupted; unfinished output was not written\n"


def test_ignored_sigint_stays_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # child processes inherit the handler
    done = run_in_process("signal.raise_signal(signal.SIGINT)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "continued\n", "")


def test_default_handler_is_restored_after_the_block():
    with exit_on_interrupt():
        pass
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def run(arguments: str, redirections: str, folder, **environment):
    command = f'"{sys.executable}" -m bert_keras.cli.main {arguments} {redirections}'
    return subprocess.run(
        command, shell=True, cwd=folder, capture_output=True, env={**os.environ, **environment}, stdin=subprocess.PIPE
    )


LEARN = "learn-vocab out.txt --size 60 --text text.txt --overwrite"
CLOSED = [
    # command, redirections, exit status, whether standard output is non-empty
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


@pytest.mark.parametrize(("arguments", "redirections", "status", "has_output"), CLOSED)
def test_closed_and_full_streams_cause_no_traceback(arguments, redirections, status, has_output, tmp_path):
    (tmp_path / "text.txt").write_text("the cat sat on a mat\n")
    done = run(arguments, redirections, tmp_path)
    assert done.returncode == status, done.stderr
    assert b"Traceback" not in done.stderr
    assert bool(done.stdout) == has_output
    if arguments.startswith(LEARN):
        assert b"[PAD]" in (tmp_path / "out.txt").read_bytes()[:10]  # printed lines must not end up in the file


@pytest.mark.slow
@pytest.mark.parametrize(
    "encoding", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}]
)
@pytest.mark.parametrize("name", ["caf\u00e9 \u4e2d".encode(), b"caf\xe9"])
def test_paths_are_escaped_if_standard_output_cannot_encode_them(encoding, name, tmp_path):
    (tmp_path / "text.txt").write_text("the cat sat on a mat\n")
    for more in ([], ["--overwrite", "--json"]):
        arguments = [os.fsencode(sys.executable), "-m", "bert_keras.cli.main", "learn-vocab", name, "--size", "60"]
        done = subprocess.run(
            [*arguments, "--text", "text.txt", *more], cwd=tmp_path, capture_output=True, env={**os.environ, **encoding}
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.isascii()
        assert os.path.exists(os.path.join(os.fsencode(tmp_path), name))
    assert os.fsencode(json.loads(done.stdout)["out"]) in (name, os.fsencode(name.decode("utf-8", "surrogateescape")))
