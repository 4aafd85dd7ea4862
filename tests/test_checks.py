"""Values from untrusted files have the expected type and range, or are reported in one short sentence."""

import json
import re

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.checks import check_integer, check_value, format_names, quote, read_field, resolve_inside

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
def test_a_value_of_another_type_is_reported_in_one_short_sentence(kind, value):
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


def test_a_missing_field_returns_its_default_or_is_reported():
    assert read_field({}, "a", int, source="x", default=2) == 2
    assert read_field({"a": None}, "a", int, source="x", default=None) is None
    with pytest.raises(bk.InputError, match="x sets a to None; expected an integer"):
        read_field({"a": None}, "a", int, source="x", default=2)
    with pytest.raises(bk.InputError, match="x lacks a; expected a list of strings: restore"):
        read_field({}, "a", list[str], source="x")


def test_messages_shorten_large_values_and_escape_control_characters():
    deep = json.loads("[" * 500 + "]" * 500)
    for value in ("x" * 70_000, ["y" * 70_000] * 1000, {"z" * 70_000: "z"}, deep, 10**4000):
        assert len(quote(value)) < 400
    assert quote("\x1b[2J\n") == r"'\x1b[2J\n'"
    assert format_names(["a", "\x1b", "c", "d", "e"]) == r"a, \x1b, c and 2 more"
    assert format_names(["a"]) == "a"


@pytest.mark.parametrize("name", ["", ".", "x", "x/y.json", "1_Pooling/", "..x", "a..b"])
def test_a_name_inside_the_folder_is_resolved(tmp_path, name):
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


def test_symbolic_links_are_followed(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/x").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/x").symlink_to(tmp_path / "elsewhere/x")
    assert resolve_inside(tmp_path / "folder", "x", source="index").read_text() == "x"


def test_a_list_item_is_checked_like_a_field():
    assert check_value(5, int, name="[3]", source="x") == 5
    with pytest.raises(bk.InputError, match=re.escape("x sets [3] to 'y'; expected an integer")):
        check_value("y", int, name="[3]", source="x")


def test_a_number_that_python_cannot_print_is_described():
    assert quote(16**5000) == quote([16**5000]) == "a value with a number of more than 4,300 digits"


@pytest.mark.parametrize("value", [3, np.int64(3), np.int32(3)])
def test_an_integer_in_range_is_returned_as_a_python_int(value):
    assert check_integer("n", value, 3, 3) == 3
    assert type(check_integer("n", value)) is int


@pytest.mark.parametrize("value", [True, 3.0, "3", None, 0, -1, 4])
def test_an_argument_that_is_not_an_integer_in_range_is_reported(value):
    with pytest.raises(bk.InputError, match=r"^n is .*; expected an integer from 1 to 3$"):
        check_integer("n", value, maximum=3)
