"""The card of a repository has what the user and the folder know about the model, in a form that the Hub reads."""

import pytest
import yaml
from huggingface_hub import ModelCard

from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.errors import InputError
from bert_keras.export.pushing.pushed_card import CardOptions, complete_card, split_card
from bert_keras.export.pushing.pushing import push

from .conftest import METRICS, MODEL_FILES

OPTIONS = CardOptions("apache-2.0", "hf://google-bert/bert-base-uncased", ("stanfordnlp/imdb",), ("en", "deu"))
NONE = CardOptions()
ARTIFACTS = ("onnx/model.onnx", "onnx/model_quantized.onnx", "saved_model/1", "tflite/model_float32.tflite")


@pytest.fixture
def complete(folder):
    """Function that completes a card for the repository me/reviews."""
    checkpoint = read_checkpoint(folder)

    def complete(card=None, options=NONE, **arguments):
        return complete_card(card, "me/reviews", checkpoint, options, **arguments)

    return complete


def test_a_folder_without_a_card_gets_one(complete):
    card = ModelCard(complete(options=OPTIONS, metrics=METRICS))
    data = card.data
    assert (data.license, data.base_model) == ("apache-2.0", "google-bert/bert-base-uncased")
    assert (data.datasets, data.language, data.library_name) == (["stanfordnlp/imdb"], ["en", "deu"], "transformers")
    assert data.pipeline_tag == "text-classification"
    assert data.model_name == "reviews"
    found = {(one.metric_name, one.metric_value, one.dataset_name, one.dataset_type) for one in data.eval_results}
    dataset = "1,200 held-out examples", "stanfordnlp/imdb"
    assert found == {("Accuracy", 0.75, *dataset), ("Macro F1", 0.5, *dataset)}
    assert "Labels: red, green, blue." in card.text
    assert 'from_checkpoint("hf://me/reviews")' in card.text
    assert 'model="me/reviews"' in card.text


def test_a_model_without_measured_scores_has_none_in_its_card(complete):
    assert ModelCard(complete()).data.eval_results is None
    assert "metrics" not in split_card(complete())[0]


def test_what_the_user_wrote_stays(complete):
    card = "---\nlicense: mit\nthumbnail: x.png\ntags: [mine]\nlibrary_name: keras\n---\n"
    card += "\n# Title\n\nText: 'this folder'.\n"
    metadata, body = split_card(complete(card))
    assert metadata == {
        "library_name": "keras",
        "pipeline_tag": "text-classification",
        "tags": ["mine"],
        "license": "mit",
        "thumbnail": "x.png",
    }
    assert body == "\n# Title\n\nText: 'this folder'.\n"
    assert split_card(complete(card, OPTIONS))[0]["license"] == "apache-2.0"
    assert split_card(complete("# Only text\n"))[1] == "\n# Only text\n"


@pytest.mark.parametrize("line", ["# ---- license ----", "title: a ---", "title: ---", 'title: "a\\n  ---"'])
def test_only_a_line_of_three_hyphens_ends_the_metadata(line):
    text = "\n# Title\n\n---\n\nText.\n"
    for end in ("---\n", "---  \r\n"):
        metadata, body = split_card(f"---\nlicense: mit\n{line}\nthumbnail: x.png\n{end}{text}")
        assert (metadata["license"], metadata["thumbnail"], body) == ("mit", "x.png", text)
    assert split_card("---\n---\nText.\n") == ({}, "\nText.\n")
    assert split_card("---\nlicense: mit\n---") == ({"license": "mit"}, "\n")


def test_a_card_of_release_0_1_gets_the_library_that_opens_the_folder(complete):
    card = "---\nlibrary_name: keras\ntags: [bert, bert-keras]\n---\n\n# BertClassifier\n"
    assert split_card(complete(card))[0]["library_name"] == "transformers"


def test_english_examples_are_left_out_for_other_languages(complete):
    assert "widget" in split_card(complete())[0]
    assert "widget" not in split_card(complete(options=CardOptions(languages=["de"])))[0]
    own = "---\nwidget:\n- text: Wie ist das Wetter?\n---\n"
    assert split_card(complete(own, CardOptions(languages=["de"])))[0]["widget"] == [{"text": "Wie ist das Wetter?"}]


def test_artifacts_have_tags_files_and_code(complete):
    card = complete(artifacts=ARTIFACTS)
    assert {"onnx", "transformers.js", "tflite"} <= set(ModelCard(card).data.tags)
    for part in (
        'predictor = bk.Predictor.from_artifact(folder + "/onnx/model_quantized.onnx")',
        'snapshot_download("me/reviews", allow_patterns=["*.json", "*.txt", "onnx/model_quantized.onnx"])',
        'await pipeline("text-classification", "me/reviews", { dtype: "q8" });',
        'hf_hub_download("me/reviews", "tflite/model_float32.tflite")',
        'hf download me/reviews --include "saved_model/*" --local-dir model',
    ):
        assert part in card
    assert not {"onnx", "tflite"} & set(ModelCard(complete()).data.tags)


@pytest.mark.parametrize(
    ("card", "message"),
    [
        ("---\na: [\n---\n", "README.md has metadata that is not YAML"),
        ("---\n- a\n---\n", "README.md has metadata that is not a YAML mapping"),
        ("---\n1: a\n---\n", "README.md has metadata that is not a YAML mapping with strings as keys"),
        ("---\na: !!python/object:os.system {}\n---\n", "README.md has metadata that is not YAML"),
    ],
)
def test_wrong_metadata_is_reported(complete, card, message):
    with pytest.raises(InputError, match=message):
        complete(card)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("license", "MIT License"),
        ("base_model", "/home/me/model"),
        ("base_model", "../model"),
        ("datasets", ["my data.csv"]),
        ("languages", ["English"]),
    ],
)
def test_an_option_that_the_hub_does_not_know_is_refused(option, value):
    with pytest.raises(InputError, match=f"^{option.rstrip('s')} is .*; expected .*: correct it, or leave it out"):
        CardOptions(**{option: value})


def test_a_dry_run_returns_what_would_be_pushed_and_changes_nothing(folder):
    (folder / "private.txt").write_text("")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    pushed = push(folder, "me/reviews", license="mit", dry_run=True)
    assert (pushed.url, pushed.commit) == (None, None)
    assert set(pushed.plan.files) == MODEL_FILES | {"metrics.json", "README.md"}
    assert pushed.plan.sizes["config.json"] == (folder / "config.json").stat().st_size
    assert pushed.plan.files["README.md"].decode() == pushed.plan.card
    assert yaml.safe_load(pushed.plan.card.split("---")[1])["license"] == "mit"
    assert pushed.plan.left_out == ["private.txt"]
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_a_push_without_a_network_or_to_a_wrong_place_is_refused(folder):
    with pytest.raises(InputError, match="HF_HUB_OFFLINE is set, and push needs the Hugging Face Hub: unset it"):
        push(folder, "me/reviews")
    with pytest.raises(InputError, match="the repository is 'reviews'; expected USER/NAME"):
        push(folder, "reviews", dry_run=True)
    with pytest.raises(InputError, match="with_saved_model is set without artifacts"):
        push(folder, "me/reviews", with_saved_model=True, dry_run=True)
    with pytest.raises(InputError, match="a pull request goes to the main branch, and the revision is v2"):
        push(folder, "me/reviews", create_pr=True, revision="v2", dry_run=True)


def test_a_card_that_is_not_text_is_reported(folder):
    (folder / "README.md").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"README\.md is not UTF-8"):
        push(folder, "me/reviews", dry_run=True)
