"""JSON files and SHA-256 checksums."""

import pytest

import bert_keras as bk
from bert_keras.files import (
    CHECKSUMS,
    check_checksums,
    check_digest,
    compute_digest,
    format_json,
    parse_json,
    read_json,
    write_checksums,
    write_json,
)


def test_a_digest_detects_a_flipped_bit_a_lost_byte_and_a_missing_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"abcdef")
    digest = compute_digest(path)
    assert digest["bytes"] == 6
    check_digest(path, digest)
    path.write_bytes(b"abcdeg")
    with pytest.raises(bk.InputError, match=r"file does not match its recorded SHA-256"):
        check_digest(path, digest)
    path.write_bytes(b"abcde")
    with pytest.raises(bk.InputError, match=r"file has 5 bytes; expected 6"):
        check_digest(path, digest)
    path.unlink()
    with pytest.raises(bk.InputError, match=r"file is missing"):
        check_digest(path, digest)


def test_checksums_have_the_format_of_sha256sum(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    write_checksums(tmp_path, ["file"])
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, B.1
    assert (tmp_path / "SHA256SUMS").read_text() == f"{known}  file\n"
    check_checksums(tmp_path)
    (tmp_path / "SHA256SUMS").write_text("no such line\n")
    with pytest.raises(bk.InputError, match=r"SHA256SUMS:1 is not a line"):
        check_checksums(tmp_path)


@pytest.mark.parametrize("line", ["{} *file\n", "{}  ./file\n", "{}  file\r\n", "{} *file"])
@pytest.mark.parametrize("letters", [str.lower, str.upper])
def test_checksums_of_other_tools_are_accepted(letters, line, tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    digest = letters(compute_digest(tmp_path / "file")["sha256"])
    (tmp_path / CHECKSUMS).write_bytes(line.format(digest).encode())
    read = []
    check_checksums(tmp_path, lambda name: read.append(name) or True)
    assert read == ["file"]
    (tmp_path / "file").write_bytes(b"abd")
    with pytest.raises(bk.InputError, match="file does not match its recorded SHA-256"):
        check_checksums(tmp_path)


@pytest.mark.parametrize("line", ["{}\tfile", "{} file", "{}  ", "x{}  file", "g" * 64 + "  file"])
def test_an_invalid_checksum_line_is_reported_with_its_number(line, tmp_path):
    (tmp_path / CHECKSUMS).write_text("\n" + line.format("a" * 64) + "\n")
    with pytest.raises(bk.InputError, match=r"SHA256SUMS:2 is not a line"):
        check_checksums(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"{", "not readable JSON"), (b"\xff", "not readable JSON"), (b"[]", "holds a JSON list")],
)
def test_invalid_json_is_reported_with_its_file(tmp_path, content, message):
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(bk.InputError, match=rf"x\.json .*{message}"):
        read_json(tmp_path / "x.json")
    with pytest.raises(bk.InputError, match=r"y\.json does not exist"):
        read_json(tmp_path / "y.json")


def test_deep_json_and_huge_numbers_are_refused(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}")
    with pytest.raises(bk.InputError, match=r"x\.json is nested too deeply"):
        read_json(path)
    path.write_text('{"a": ' + "1" * 5_000 + "}")
    with pytest.raises(bk.InputError, match=r"x\.json is not readable JSON"):
        read_json(path)


def test_json_above_the_size_limit_is_refused_unread(tmp_path):
    path = tmp_path / "x.json"
    with path.open("wb") as file:
        file.truncate(10**12)  # a hole: it takes no space
    with pytest.raises(bk.InputError, match=r"x\.json has 1,000,000,000,000 bytes; expected 67,108,864 at most"):
        read_json(path)


def test_a_folder_in_place_of_a_json_file_is_refused(tmp_path):
    (tmp_path / "x.json").mkdir()
    with pytest.raises(bk.InputError, match=r"x\.json is not readable JSON"):
        read_json(tmp_path / "x.json")


def test_read_json_returns_what_write_json_wrote(tmp_path):
    write_json(tmp_path / "x.json", {"ü": [1, 2.5, None]})
    assert read_json(tmp_path / "x.json") == {"ü": [1, 2.5, None]}
    assert "ü" in (tmp_path / "x.json").read_text(encoding="utf-8")


def test_half_a_surrogate_pair_is_refused_and_a_whole_one_is_accepted(tmp_path):
    assert parse_json('{"a": "\\ud83d\\ude00"}', "x") == {"a": "\U0001f600"}
    for text in ('{"a": "\\ud83d"}', '{"\\uDE00": 1}', '{"a": ["x\\udfff"]}'):
        with pytest.raises(bk.InputError, match=r"^x is not readable JSON \(.*surrogates not allowed\)"):
            parse_json(text, "x")


def test_read_json_accepts_a_list_if_one_is_expected(tmp_path):
    (tmp_path / "x.json").write_text("[1]")
    assert read_json(tmp_path / "x.json", list) == [1]
    with pytest.raises(bk.InputError, match=r"holds a JSON dict; expected a list"):
        parse_json("{}", "x", list)


def test_nan_and_infinity_are_written_as_null(tmp_path):
    value = {"a": [float("nan"), 1.5, (float("inf"),)], "b": {"c": -float("inf")}, "d": "NaN é"}
    assert format_json(value) == '{"a": [null, 1.5, [null]], "b": {"c": null}, "d": "NaN é"}'
    write_json(tmp_path / "x.json", value)
    assert read_json(tmp_path / "x.json") == {"a": [None, 1.5, [None]], "b": {"c": None}, "d": "NaN é"}


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "x/../../outside", "x" * 300])
def test_checksums_of_files_outside_the_folder_are_refused(tmp_path, name):
    (tmp_path / "folder").mkdir()
    (tmp_path / "outside").write_bytes(b"abc")
    (tmp_path / "folder" / CHECKSUMS).write_text(f"{compute_digest(tmp_path / 'outside')['sha256']}  {name}\n")
    with pytest.raises(bk.InputError, match=r"SHA256SUMS:1 names .*; expected a path inside"):
        check_checksums(tmp_path / "folder")


def test_a_list_of_checksums_has_a_bounded_size(tmp_path):
    (tmp_path / CHECKSUMS).write_bytes(b"\n" * (2**20 + 1))
    with pytest.raises(bk.InputError, match=r"SHA256SUMS is not a list of SHA-256"):
        check_checksums(tmp_path)
