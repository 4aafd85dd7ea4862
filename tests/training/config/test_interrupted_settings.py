"""Ctrl-C while pydantic builds a class of settings."""

import contextlib
import signal
import threading

import pydantic.dataclasses
import pytest

from bert_keras.training.config.settings import Count, settings

MAKE_DECORATOR = pydantic.dataclasses.dataclass


@pytest.fixture(autouse=True)
def ctrl_c_interrupts():
    """Restore the default handler, because shells make background processes ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def dropped_interrupt(monkeypatch):
    """Send SIGINT while a class is built, and drop its exception as pydantic's Rust code does."""

    def dataclass(**options):
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return MAKE_DECORATOR(**options)

    monkeypatch.setattr(pydantic.dataclasses, "dataclass", dataclass)


def make_settings():
    @settings
    class Example:
        num_layers: Count = 2

    return Example


def test_dropped_interrupt_is_raised_after_the_class(dropped_interrupt):
    with pytest.raises(KeyboardInterrupt):
        make_settings()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ignored_sigint_stays_ignored(dropped_interrupt):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert make_settings()().num_layers == 2
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_classes_are_built_in_any_thread():
    built = []
    thread = threading.Thread(target=lambda: built.append(make_settings()))
    thread.start()
    thread.join()
    assert built[0]().num_layers == 2
