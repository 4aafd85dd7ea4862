"""Names of models on the Hub are split into their parts, and other names are refused in one sentence."""

import pathlib

import pytest

from bert_keras.errors import InputError
from bert_keras.hub.names import check_repository, check_revision, is_hub_name, parse_hub_name


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("hf://me/model", ("me/model", None, "")),
        ("hf://me/model/", ("me/model", None, "")),
        ("hf://google-bert/bert-base-uncased@main", ("google-bert/bert-base-uncased", "main", "")),
        ("hf://me/model.v2_x@v1.0", ("me/model.v2_x", "v1.0", "")),
        ("hf://me/model@refs/pr/12", ("me/model", "refs/pr/12", "")),
        ("hf://me/model/a/b", ("me/model", None, "a/b")),
        ("hf://me/model@v2/a", ("me/model", "v2", "a")),
        ("hf://me/model@feature%2Fv2.0", ("me/model", "feature/v2.0", "")),
        ("hf://me/model@feature%2Fv2.0/a/b", ("me/model", "feature/v2.0", "a/b")),
        ("hf://me/model@a%40b%25c+d", ("me/model", "a@b%c+d", "")),
    ],
)
def test_a_name_has_a_repository_a_revision_and_a_subfolder(name, parts):
    parsed = parse_hub_name(name)
    assert parsed == parts
    assert str(parsed) == name.rstrip("/")


WRONG = ["", "me", "me/", "/model", "me/model@", "me/model@@v", "me//model", "me/mo del", "-me/model", "me/model/../x"]
WRONG += [f"me/model@{revision}" for revision in ("..", "..%2F..%2Fx", "%2Fx", "a%2F", "a%2F%2Fb", "a%00", "a%20b")]
WRONG += [
    "me/a--b",
    "me/model.git",
    "me/" + "x" * 97,
    "https://x.y/me/model",
    "me/model@v1@v2",
    "mé/model",
    "me/model\n",
]


@pytest.mark.parametrize("name", WRONG)
def test_another_form_is_refused(name):
    with pytest.raises(InputError, match="is not the name of a model on the Hugging Face Hub; expected hf://ORG/NAME"):
        parse_hub_name(f"hf://{name}")


def test_only_a_string_with_the_prefix_is_a_name_on_the_hub():
    assert is_hub_name("hf://me/model")
    assert not any(map(is_hub_name, ("me/model", "hf:/me/model", pathlib.Path("hf://me/model"), None, 3, b"hf://a/b")))


def test_a_repository_to_write_to_has_an_owner():
    assert check_repository("me/model") == check_repository("hf://me/model") == "me/model"
    with pytest.raises(InputError, match="the repository is 'model'; expected USER/NAME"):
        check_repository("model")


@pytest.mark.parametrize("name", ["", "a..b", "a b", "/a", "a/", "a.lock", "a//b", "-a", "a~b", "a:b"])
def test_a_branch_has_a_name_that_git_allows(name):
    check_revision("feature/v2.0")
    with pytest.raises(InputError, match="expected the name of a branch"):
        check_revision(name)
