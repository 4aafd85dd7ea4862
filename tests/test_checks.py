"""Values of files that anybody may have written: of their type, in their range, or one short sentence."""

import json
import re

import pytest

import bert_keras as bk
from bert_keras.checks import check_value, format_names, quote, read_field, resolve_inside

WRONG = {
    int: [True, 1.0, "1", None, [1], {}, 2**63, -(2**63) - 1, float("nan")],
    float: [False, "1", None, [], float("nan"), float("inf"), -float("inf"), 10**400],
    bool: [0, 1, "true", None],
    str: [1, None, b"x", ["x"], "\ud800", "a\udfff"],
    dict: [[], "x", None],
    list: [{}, "x", None, ("x",)],
    list[str]: ["x", [1], ["x", None], ["\ud800"], {}],
    list[int]: [[True], [1.5], ["1"]],
    dict[str, int]: [{"a": "1"}, {"a": True}, []],
    dict[str, str]: [{"a": 1}, {"a": "\ud800"}],
}
RIGHT = {
    int: [0, -1, 2**63 - 1],
    float: [0, 0.5, -3],
    bool: [True, False],
    str: ["", "x", "é"],
    list[str]: [[], ["x"]],
    dict[str, int]: [{}, {"a": 1}],
}


@pytest.mark.parametrize(("kind", "value"), [(kind, value) for kind, values in WRONG.items() for value in values])
def test_a_value_of_another_type_is_one_short_sentence(kind, value):
    with pytest.raises(bk.InputError, match=r"^x\.json sets a to .*; expected .*: correct it, or restore") as caught:
        read_field({"a": value}, "a", kind, source="x.json")
    assert len(str(caught.value)) < 300
    str(caught.value).encode()


@pytest.mark.parametrize(("kind", "value"), [(kind, value) for kind, values in RIGHT.items() for value in values])
def test_a_value_of_its_type_is_returned(kind, value):
    assert read_field({"a": value}, "a", kind, source="x.json") == value


def test_numbers_and_choices_have_bounds():
    assert read_field({"a": 3}, "a", int, source="x", minimum=3, maximum=3) == 3
    assert read_field({"a": "b"}, "a", str, source="x", choices=("b", "c")) == "b"
    with pytest.raises(bk.InputError, match=re.escape("x sets a to 3; expected an integer >= 4: ")):
        read_field({"a": 3}, "a", int, source="x", minimum=4)
    with pytest.raises(bk.InputError, match=re.escape("x sets a to 3; expected a number from 0 to 1: ")):
        read_field({"a": 3}, "a", float, source="x", minimum=0, maximum=1)
    with pytest.raises(bk.InputError, match=re.escape("x sets a to 'd'; expected one of b, c: ")):
        read_field({"a": "d"}, "a", str, source="x", choices=("b", "c"))
    with pytest.raises(bk.InputError, match=re.escape("x sets a to ['b']; expected one of b, c: ")):
        read_field({"a": ["b"]}, "a", str, source="x", choices={"b": 1, "c": 2})  # unhashable


def test_a_missing_field_is_its_default_or_named():
    assert read_field({}, "a", int, source="x", default=2) == 2
    assert read_field({"a": None}, "a", int, source="x", default=None) is None
    with pytest.raises(bk.InputError, match="x sets a to None; expected an integer"):
        read_field({"a": None}, "a", int, source="x", default=2)
    with pytest.raises(bk.InputError, match="x lacks a; expected a list of strings: restore"):
        read_field({}, "a", list[str], source="x")


def test_messages_show_little_of_a_large_value_and_escape_control_characters():
    deep = json.loads("[" * 500 + "]" * 500)
    for value in ("x" * 70_000, ["y" * 70_000] * 1000, {"z" * 70_000: "z"}, deep, 10**4000):
        assert len(quote(value)) < 400
    assert quote("\x1b[2J\n") == r"'\x1b[2J\n'"
    assert format_names(["a", "\x1b", "c", "d", "e"]) == r"a, \x1b, c and 2 more"
    assert format_names(["a"]) == "a"


@pytest.mark.parametrize("name", ["", ".", "x", "x/y.json", "1_Pooling/", "..x", "a..b"])
def test_a_name_inside_the_folder_is_its_path(tmp_path, name):
    assert resolve_inside(tmp_path, name, source="x") == tmp_path / name


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd",
        "..",
        "../x",
        "x/../../y",
        "x/..",
        "x\0",
        "\ud800",
        "C:/x",
        "..\\x",
        "x" * 256,
        "x/" * 600,
        5,
        None,
        [],
    ],
)
def test_a_name_that_leaves_the_folder_is_refused(tmp_path, name):
    with pytest.raises(bk.InputError, match=r"^index names .*; expected a path inside .*, without '\.\.'"):
        resolve_inside(tmp_path, name, source="index")


def test_a_link_that_the_user_made_is_followed(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/x").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/x").symlink_to(tmp_path / "elsewhere/x")
    assert resolve_inside(tmp_path / "folder", "x", source="index").read_text() == "x"


def test_a_value_out_of_a_list_is_checked_alike():
    assert check_value(5, int, name="[3]", source="x") == 5
    with pytest.raises(bk.InputError, match=re.escape("x sets [3] to 'y'; expected an integer")):
        check_value("y", int, name="[3]", source="x")


def test_a_number_that_python_does_not_spell_is_shown():
    assert quote(16**5000) == quote([16**5000]) == "a value with a number of more than 4,300 digits"
