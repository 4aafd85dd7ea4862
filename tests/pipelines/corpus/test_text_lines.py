"""Text files are read strictly, and errors have the file and the line."""

import re

import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.text_lines import read_vocabulary_lines


def test_only_the_newline_ends_a_line_and_a_byte_order_mark_is_dropped(tmp_path):
    path = tmp_path / "odd.txt"
    path.write_bytes("\ufeffone\u2028still one\n\x85two\r\n\nlast".encode())
    assert list(read_vocabulary_lines(path)) == ["one\u2028still one\n", "\x85two\r\n", "\n", "last"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"fine\nna\xefve\n", r"line 2: byte 0xef at column 3 is not UTF-8: save"),
        ("fine\n".encode("utf-16"), r"line 1: there is a NUL byte"),
        (b"fine\nfine\n\0", r"line 3: there is a NUL byte"),
    ],
)
def test_invalid_text_is_an_error_with_file_and_line(tmp_path, content, message):
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=re.escape(str(path)) + ", " + message):
        list(read_vocabulary_lines(path))


def test_a_missing_file_and_a_folder_have_different_errors(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.txt does not exist"):
        list(read_vocabulary_lines(tmp_path / "nowhere.txt"))
    with pytest.raises(InputError, match=r"is a folder; expected a UTF-8 text file"):
        list(read_vocabulary_lines(tmp_path))
