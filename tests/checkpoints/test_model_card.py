"""Model cards: huggingface_hub reads their metadata, and their code runs in each library."""

import math
import re
import subprocess
import sys

import hypothesis
import pytest
import yaml
from huggingface_hub import ModelCard, ModelCardData
from huggingface_hub.repocard_data import eval_results_to_model_index
from hypothesis import strategies

import bert_keras as bk
from bert_keras.checkpoints.huggingface.model_card import (
    MeasuredScores,
    build_model_card,
    format_metadata,
    replace_folder,
)
from bert_keras.checkpoints.reading import read_checkpoint
from tests.checkpoints.tiny_folders import write_classifier
from tests.conftest import MODELS

TAGS = {
    "encoder": "feature-extraction",
    "classifier": "text-classification",
    "token_classifier": "token-classification",
    "question_answerer": "question-answering",
    "masked_lm": "fill-mask",
    "pretrainer": "fill-mask",
    "embedder": "sentence-similarity",
    "electra": "feature-extraction",
}
SCORES = {"accuracy": 0.91, "macro_f1": 0.875, "loss": 0.31, "ours_alone": 1.0, "rmse": math.nan}
WORDS = "the weather was a pleasant surprise it is raining she born in london paris of france how ada lovelace . ?"


@pytest.fixture(scope="module")
def tokenizer():
    words = [f"word{number}" for number in range(97 - 5 - len(WORDS.split()))]
    return bk.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS.split(), *words])


@pytest.mark.parametrize("kind", TAGS)
def test_the_hub_files_each_model_under_its_task_and_a_library_that_opens_the_folder(kind, make_model):
    data = ModelCard(build_model_card(make_model(kind))).data
    assert data.pipeline_tag == TAGS[kind]
    assert data.library_name == ("sentence-transformers" if kind == "embedder" else "transformers")
    assert {"bert-keras", "electra" if kind == "electra" else "bert"} <= set(data.tags)
    assert data.get("base_model") is data.get("license") is data.get("language") is None
    assert all(data["widget"])


def test_the_scores_in_the_metadata_are_those_that_were_measured(make_model):
    card = build_model_card(make_model("classifier"), measured=MeasuredScores(SCORES, "held-out examples: 7 of a.csv"))
    data = ModelCard(card).data
    found = {(result.metric_name, result.metric_type): result.metric_value for result in data.eval_results}
    assert found == {("Accuracy", "accuracy"): 0.91, ("Macro F1", "f1"): 0.875, ("Cross-entropy", "loss"): 0.31}
    assert {(result.task_type, result.dataset_name) for result in data.eval_results} == {
        ("text-classification", "held-out examples: 7 of a.csv")
    }
    assert data.metrics == ["accuracy", "f1", "loss"]
    index = yaml.safe_load(card.split("---")[1])["model-index"]
    assert eval_results_to_model_index("BertClassifier", data.eval_results) == index
    again = ModelCardData(model_name="BertClassifier", eval_results=data.eval_results).to_dict()
    assert again["model-index"] == index


def test_only_a_model_of_the_hub_is_named_as_the_base_model(make_model, tmp_path):
    model, checkpoint = make_model("classifier"), read_checkpoint(write_classifier(tmp_path / "start"))
    for start in (None, "google/bert", tmp_path, checkpoint):
        assert "base_model" not in build_model_card(model, start=start)
    checkpoint.hub_name = "hf://google-bert/bert-base-uncased@main"
    for start in (checkpoint, checkpoint.hub_name):
        assert ModelCard(build_model_card(model, start=start)).data.base_model == "google-bert/bert-base-uncased"


SCALARS = strategies.none() | strategies.booleans() | strategies.integers() | strategies.text()
SCALARS |= strategies.floats(allow_nan=False, allow_infinity=False)
SCALARS |= strategies.sampled_from(["yes", "null", "1e3", "- a", "a: b", "a #b", "é", "🙂", "\x85", "\u2028", "~"])
VALUES = strategies.recursive(
    SCALARS,
    lambda inner: strategies.lists(inner, max_size=3) | strategies.dictionaries(strategies.text(), inner, max_size=3),
    max_leaves=8,
)


@hypothesis.settings(max_examples=150, deadline=None)
@hypothesis.given(strategies.dictionaries(strategies.text(), VALUES, max_size=4))
def test_metadata_of_any_values_is_yaml_with_these_values(metadata):
    text = format_metadata(metadata)
    assert (yaml.safe_load(text.removeprefix("---").removesuffix("---")) or {}) == metadata


def test_ordinary_metadata_has_no_needless_quotes():
    text = format_metadata({"license": "apache-2.0", "tags": ["bert", "yes"], "k": 1, "x": [{"a": 1.5, "b": None}]})
    assert text == "---\nlicense: apache-2.0\ntags:\n- bert\n- 'yes'\nk: 1\nx:\n- a: 1.5\n  b: null\n---"


def test_the_name_of_a_repository_replaces_the_folder_in_code(make_model):
    card = replace_folder(build_model_card(make_model("classifier")), "me/model")
    assert 'from_checkpoint("hf://me/model")' in card
    assert 'pipeline("text-classification", model="me/model")' in card
    assert '"this folder"' not in card


def read_blocks(card):
    return re.findall(r"^```python\n(.*?)^```$", card, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in MODELS if kind != "electra_with_generator"])
def test_the_code_of_a_card_runs_in_each_library(kind, make_model, tokenizer, tmp_path):
    """In a folder that contains the model as "this folder"."""
    bk.save(make_model(kind), tokenizer, tmp_path / "this folder")
    blocks = read_blocks((tmp_path / "this folder/README.md").read_text("utf-8"))
    assert len(blocks) == 2
    for block in blocks:
        done = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, block + done.stderr[-3000:]
        assert done.stdout.strip()
