"""Folders that appear whole or not at all, and digests that notice every change."""

import contextlib

import pytest

import bert_keras as bk
from bert_keras.files import (
    check_checksums,
    check_digest,
    check_writable_file,
    file_digest,
    publish_file,
    publish_folder,
    read_json,
    write_checksums,
    write_json,
)


class _HalfWayError(Exception):
    """What breaks a block half way."""


def everything_in(folder) -> dict:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_appears_whole_with_its_parents(tmp_path):
    with publish_folder(tmp_path / "a/b/out") as staging:
        (staging / "file").write_text("content")
        assert not (tmp_path / "a/b/out").exists()
    assert everything_in(tmp_path) == {"a/b/out/file": b"content"}


def test_a_failed_block_leaves_nothing(tmp_path):
    with contextlib.suppress(_HalfWayError), publish_folder(tmp_path / "out") as staging:
        (staging / "file").write_text("content")
        raise _HalfWayError
    assert list(tmp_path.iterdir()) == []


def test_a_full_folder_is_kept_unless_it_may_be_replaced(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "old").write_text("old")
    with pytest.raises(bk.InputError, match=r"out exists and is not empty.*overwrite"), publish_folder(out):
        pass
    with contextlib.suppress(_HalfWayError), publish_folder(out, overwrite=True) as staging:
        (staging / "new").write_text("half of it")
        raise _HalfWayError
    assert everything_in(tmp_path) == {"out/old": b"old"}
    with publish_folder(out, overwrite=True) as staging:
        (staging / "new").write_text("new")
    assert everything_in(tmp_path) == {"out/new": b"new"}


def test_a_file_in_the_way_is_named(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(bk.InputError, match=r"out is a file"), publish_folder(tmp_path / "out", overwrite=True):
        pass


def test_a_file_is_replaced_at_once_or_not_at_all(tmp_path):
    with publish_file(tmp_path / "a/file") as staging:
        staging.write_text("first")
    with contextlib.suppress(_HalfWayError), publish_file(tmp_path / "a/file") as staging:
        staging.write_text("second")
        raise _HalfWayError
    assert everything_in(tmp_path) == {"a/file": b"first"}
    with pytest.raises(bk.InputError, match=r"a is a folder"), publish_file(tmp_path / "a"):
        pass


def test_a_file_that_cannot_be_written_is_told_beforehand_and_the_check_leaves_nothing(tmp_path):
    check_writable_file(tmp_path / "new/deep/file.txt")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file.txt").write_text("old")
    check_writable_file(tmp_path / "file.txt", overwrite=True)
    with pytest.raises(bk.InputError, match=r"file\.txt exists: name another file"):
        check_writable_file(tmp_path / "file.txt")
    with pytest.raises(bk.InputError, match="is a folder; expected the name of a file"):
        check_writable_file(tmp_path, overwrite=True)
    with pytest.raises(bk.InputError, match=r"deep/new\.txt cannot be written \(.*file\.txt: Not a directory\)"):
        check_writable_file(tmp_path / "file.txt/deep/new.txt")


def test_a_digest_notices_a_bit_a_byte_and_a_missing_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"abcdef")
    digest = file_digest(path)
    assert digest["bytes"] == 6
    check_digest(path, digest)
    path.write_bytes(b"abcdeg")
    with pytest.raises(bk.InputError, match=r"file does not match the SHA-256"):
        check_digest(path, digest)
    path.write_bytes(b"abcde")
    with pytest.raises(bk.InputError, match=r"file has 5 bytes where 6 were recorded"):
        check_digest(path, digest)
    path.unlink()
    with pytest.raises(bk.InputError, match=r"file is missing"):
        check_digest(path, digest)


def test_checksums_are_those_of_sha256sum(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    write_checksums(tmp_path, ["file"])
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, B.1
    assert (tmp_path / "SHA256SUMS").read_text() == f"{known}  file\n"
    check_checksums(tmp_path)
    (tmp_path / "SHA256SUMS").write_text("no such line\n")
    with pytest.raises(bk.InputError, match=r"SHA256SUMS:1 is not a line"):
        check_checksums(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"{", "not readable JSON"), (b"\xff", "not readable JSON"), (b"[]", "holds a JSON list")],
)
def test_json_that_cannot_be_read_is_named(tmp_path, content, message):
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(bk.InputError, match=rf"x\.json .*{message}"):
        read_json(tmp_path / "x.json")
    with pytest.raises(bk.InputError, match=r"y\.json does not exist"):
        read_json(tmp_path / "y.json")


def test_json_comes_back_as_it_was_written(tmp_path):
    write_json(tmp_path / "x.json", {"ü": [1, 2.5, None]})
    assert read_json(tmp_path / "x.json") == {"ü": [1, 2.5, None]}
    assert "ü" in (tmp_path / "x.json").read_text(encoding="utf-8")
