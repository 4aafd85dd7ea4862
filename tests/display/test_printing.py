"""Printed text is one line that a terminal does not interpret, in the encoding of its stream."""

import io
import re
import sys

import pytest

from bert_keras.display.printing import print_line, printable


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("caf\u00e9 \u4e2d\u6587 \U0001f600 \u05d0\u200f", "caf\u00e9 \u4e2d\u6587 \U0001f600 \u05d0\u200f"),
        ("\0\t\n\r\x1b[31m\x7f", r"\x00\t\n\r\x1b[31m\x7f"),
        ("\x80\x9b2J", r"\x80\x9b2J"),
        ("\u202egpj.exe\u2066\u2069\u2028", r"\u202egpj.exe\u2066\u2069\u2028"),
        ("caf\udce9", r"caf\udce9"),
        (7, "7"),
    ],
)
def test_printed_text_is_one_line_without_control_characters(text, escaped):
    assert printable(text) == escaped


def test_long_text_keeps_its_beginning_and_end():
    text = printable("begin " + "x" * 70_000 + " the remedy", max_length=300)
    assert len(text) < 350
    assert re.fullmatch(r"begin x+ \[69,717 characters left out\] x+ the remedy", text)
    assert printable("x" * 300, max_length=300) == "x" * 300


@pytest.mark.parametrize(
    ("encoding", "escaped"),
    [("ascii", rb"caf\xe9 \u4e2d"), ("latin-1", b"caf\xe9 \\u4e2d"), ("utf-8", "caf\u00e9 \u4e2d".encode())],
)
def test_characters_outside_the_encoding_are_escaped(encoding, escaped, monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    print_line("caf\u00e9 \u4e2d", to_output=True)
    assert stream.buffer.getvalue() == escaped + b"\n"
