"""Ctrl-C ends the work, also where the exception was lost on its way."""

import contextlib
import signal

import pytest

from bert_keras.cli.interrupts import heeded_interrupts
from bert_keras.cli.report import ProgressBar


def test_an_interrupt_that_a_library_lost_ends_the_work_at_its_next_step():
    with heeded_interrupts(), ProgressBar("working", "steps") as bar:
        bar.update(1, 9)
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            bar.update(2, 9)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_of_an_earlier_command_is_forgotten():
    with contextlib.suppress(KeyboardInterrupt), heeded_interrupts():
        signal.raise_signal(signal.SIGINT)
    with heeded_interrupts(), ProgressBar("working", "steps") as bar:
        bar.update(1, 9)


def test_a_job_that_ignores_interrupts_goes_on_ignoring_them():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with heeded_interrupts(), ProgressBar("working", "steps") as bar:
            signal.raise_signal(signal.SIGINT)
            bar.update(1, 9)
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
