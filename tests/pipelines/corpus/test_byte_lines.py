"""Gzip is decompressed, damage is an error, and long lines are split."""

import gzip
import io
import random

import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.corpus import text_lines
from bert_keras.pipelines.corpus.text_lines import open_bytes, read_short_lines

PACKED = gzip.compress(random.Random(3).randbytes(5000).hex().encode())


def read(path):
    with open_bytes(path, str(path), lambda _: None) as file:
        return file.read()


def test_gzip_is_detected_by_its_content_and_can_have_several_members(tmp_path):
    path = tmp_path / "named.txt"
    path.write_bytes(gzip.compress(b"one\n") + gzip.compress(b"two\n"))
    assert read(path) == b"one\ntwo\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"plain text\n", "is not gzip, though its name ends in .gz: rename it, or copy it again"),
        (b"", "is not gzip, though its name ends in .gz"),
        (PACKED[:-2000], "the gzip data is truncated or damaged .*: copy the file again"),
        (PACKED[:10] + b"\xff" * 9 + PACKED[19:], "the gzip data is truncated or damaged .*invalid block type"),
        (PACKED[:-8] + b"\1\2\3\4" + PACKED[-4:], "the gzip data is truncated or damaged .CRC check failed"),
    ],
)
def test_damaged_gzip_is_an_error(tmp_path, content, message):
    path = tmp_path / "bad.txt.gz"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"bad.txt.gz:? {message}"):
        read(path)


def split_parts(content):
    return list(read_short_lines(io.BytesIO(content)))


def test_short_lines_are_read_whole_with_their_numbers():
    assert split_parts(b"one\n\ntwo\r\nlast") == [(1, b"one\n"), (2, b"\n"), (3, b"two\r\n"), (4, b"last")]


@pytest.mark.parametrize(
    "line",
    [
        b"word \xc3\xa9\xc3\xa9 or\ttwo " * 9,
        "\u4e2d\u6587".encode() * 20,
        b"x" * 99,
        b"x " + b"y" * 57,
        b"aaa " + b"b" * 12,
    ],
)
@pytest.mark.parametrize("end", [b"", b"\nlast\n"])
def test_a_long_line_is_split_at_white_space_or_between_characters_without_loss(monkeypatch, line, end):
    monkeypatch.setattr(text_lines, "_MAX_PART_BYTES", 16)
    parts = split_parts(b"first\n" + line + end)
    assert b"".join(part for _, part in parts) == b"first\n" + line + end
    assert max(len(part) for _, part in parts) <= 2 * 16
    assert [number for number, _ in parts] == sorted(number for number, _ in parts)
    assert {number for number, part in parts if b"last" in part} == ({3} if end else set())
    words = [word for _, part in parts for word in part.decode().split()]  # each part is valid UTF-8
    if b"two" in line:
        assert words == (b"first\n" + line + end).decode().split()
