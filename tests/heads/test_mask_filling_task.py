"""Artifacts of masked LMs fill masks as `bk.fill_mask` does, whose judge is transformers."""

import pytest

import bert_keras as bk
from bert_keras.errors import InputError
from bert_keras.export.onnx.to_onnx import write_onnx_folder
from tests.export.conftest import LENGTH, WORDS, build

TEXTS = ["the [MASK] sat on a mat .", "[MASK] and [MASK]", "caf\u00e9 [MASK][SEP] dog", "\U0001f600 the\u0301 [MASK]"]


@pytest.fixture(scope="module")
def masked_lm():
    tokenizer = bk.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS], max_sequence_length=LENGTH)
    config = bk.BertConfig(
        vocabulary_size=tokenizer.vocabulary_size + 3,  # a padded embedding table
        num_layers=1,
        num_heads=3,
        hidden_dim=36,
        intermediate_dim=40,
        max_sequence_length=LENGTH,
        initializer_range=0.3,
    )
    return build("masked_lm", config), tokenizer


@pytest.fixture(scope="module", params=["onnx", "checkpoint", "model"])
def predictor(request, masked_lm, tmp_path_factory):
    if request.param == "model":
        return bk.Predictor(*masked_lm)
    folder = tmp_path_factory.mktemp("masked_lm") / "model"
    if request.param == "onnx":
        write_onnx_folder(*masked_lm, folder)
        return bk.Predictor.from_artifact(folder)
    bk.save(*masked_lm, folder)
    return bk.Predictor.from_checkpoint(folder)


def test_fillings_are_those_of_fill_mask(predictor, masked_lm):
    for answer, masks in zip(predictor(TEXTS), bk.fill_mask(*masked_lm, TEXTS), strict=True):
        for fillings, expected in zip(answer["masks"], masks, strict=True):
            got = [(one["token"], one["token_id"], one["text"]) for one in fillings]
            assert got == [(one.token, one.token_id, one.text) for one in expected]
            probabilities = [one["probability"] for one in fillings]
            assert probabilities == pytest.approx([one.probability for one in expected], abs=1e-5)


def test_top_limits_the_tokens(predictor):
    [answer] = predictor(["the [MASK]"], top=2)
    assert [len(fillings) for fillings in answer["masks"]] == [2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("the cat", r"text 1 \('the cat'\) has no \[MASK\]"),
        ("[MASK]" * 30, r"has 32 tokens with \[CLS\] and \[SEP\]; the model accepts up to 19"),
        (("[MASK]", "a"), r"filling \[MASK\] needs single texts"),
    ],
)
def test_bad_texts_are_reported(predictor, text, message):
    with pytest.raises(InputError, match=message):
        predictor([text])


def test_masked_lms_are_trained_and_scored_elsewhere(predictor):
    with pytest.raises(InputError, match="pretrain"):
        predictor.task.add_labels(None, [])
    with pytest.raises(InputError, match="evaluate"):
        predictor.task.score([], [])
