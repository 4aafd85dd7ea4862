"""Vocabulary files are read strictly, and a written file can be read."""

import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS, encode_vocabulary, read_vocabulary, write_vocabulary


def test_unusual_tokens_survive_writing_and_reading(tmp_path):
    tokens = [*SPECIAL_TOKENS, "\u2028", "\x85", "a", "##a", "\u3000", "\u4e2d"]
    write_vocabulary(tmp_path / "vocab.txt", tokens)
    assert (tmp_path / "vocab.txt").read_bytes() == "".join(f"{token}\n" for token in tokens).encode()
    assert (tmp_path / "vocab.txt").read_bytes() == encode_vocabulary(tokens)
    assert read_vocabulary(tmp_path / "vocab.txt") == tokens


def test_windows_line_ends_a_byte_order_mark_and_trailing_blank_lines_are_accepted(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes("\ufeff".encode() + "\r\n".join([*SPECIAL_TOKENS, "a", "", ""]).encode())
    assert read_vocabulary(path) == [*SPECIAL_TOKENS, "a"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([*SPECIAL_TOKENS, "", "a"], r"vocab\.txt, line 6: the line is blank.*remove the blank line"),
        ([*SPECIAL_TOKENS, "a", "b", "a"], r"vocab\.txt, line 8: the token 'a' is also on line 6.*restore"),
        (["[PAD]", "[UNK]", "a"], r"vocab\.txt: none of the 3 lines is \[CLS\] or \[SEP\] or \[MASK\]; expected"),
        ([], r"vocab\.txt: none of the 0 lines is \[PAD\]"),
    ],
)
def test_a_file_with_shifted_ids_is_an_error_with_its_line(tmp_path, lines, message):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_vocabulary(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[PAD]\n[UNK]\nna\xefve\n", r"vocab\.txt, line 3: byte 0xef at column 3 is not UTF-8: save"),
        ("[PAD]\n".encode("utf-16-le"), r"vocab\.txt, line 1: there is a NUL byte"),
        (b"[PAD]\na\rb\n", r"vocab\.txt, line 2: the token 'a\\rb' has a line end"),
    ],
)
def test_a_file_that_is_not_text_is_an_error_with_its_line(tmp_path, content, message):
    path = tmp_path / "vocab.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_vocabulary(path)


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(InputError, match=r"vocab\.txt does not exist"):
        read_vocabulary(tmp_path / "vocab.txt")


def test_a_token_with_a_line_end_is_not_written(tmp_path):
    with pytest.raises(InputError, match="line 6: the token 'a\\\\nb' has a line end"):
        write_vocabulary(tmp_path / "vocab.txt", [*SPECIAL_TOKENS, "a\nb"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "size"), [("uncased", 30522), ("cased", 28996), ("chinese", 21128)])
def test_published_vocabularies_can_be_read(published_vocabularies, tmp_path, name, size):
    path = published_vocabularies / f"bert_{name}_vocab.txt"
    vocabulary = read_vocabulary(path)
    assert len(vocabulary) == size
    assert vocabulary[100:104] == ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert encode_vocabulary(vocabulary) == path.read_bytes()
