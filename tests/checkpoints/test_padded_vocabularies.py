"""Token tables padded beyond the vocabulary, as in many published models: rows without a token are never used."""

import json

import numpy as np
import pytest
import tensorflow as tf

import bert_keras as bk
from bert_keras.cli.main import main
from bert_keras.heads.fill_mask.graph import build_mask_filler
from bert_keras.pipelines.batches.masking import MaskingTokens

NUM_ROWS = 97  # in the token table of `make_model`
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[E1]", *(f"w{i}" for i in range(83))]
TEXTS = ["w1 [MASK] w2 [E1]", "[MASK]"]


@pytest.fixture(scope="module")
def tokenizer():
    """A tokenizer of 89 tokens."""
    return bk.BertTokenizer(TOKENS, additional_special_tokens=["[E1]"])


@pytest.fixture(scope="module")
def model(make_model):
    """A masked-LM model whose highest logits are those of rows without a token."""
    model = make_model("masked_lm", num_layers=1)
    bias = np.asarray(model.mlm_head.bias).copy()
    bias[len(TOKENS) :] = 2 * np.arange(1, NUM_ROWS - len(TOKENS) + 1)
    model.mlm_head.bias.assign(bias)
    return model


@pytest.fixture
def folder(model, tokenizer, tmp_path):
    """The folder of the model and the tokenizer."""
    bk.save(model, tokenizer, tmp_path / "padded")
    return tmp_path / "padded"


@pytest.mark.parametrize("missing", ["tokenizer.json", "vocab.txt"])
def test_a_padded_folder_loads_and_can_be_converted(missing, folder, tmp_path):
    (folder / missing).unlink()
    (folder / "SHA256SUMS").unlink()
    assert main(["convert", str(folder), str(tmp_path / "out")]) == 0
    assert bk.load_tokenizer(tmp_path / "out").vocabulary == tuple(TOKENS)
    assert json.loads((tmp_path / "out/config.json").read_text())["vocab_size"] == NUM_ROWS
    before, after = bk.load(folder), bk.load(tmp_path / "out")
    for one, other in zip(before.weights, after.weights, strict=True):
        np.testing.assert_array_equal(one, other)


def test_rows_without_a_token_are_never_predicted(model, tokenizer):
    filled = bk.fill_mask(model, tokenizer, TEXTS, top_k=len(TOKENS))
    for masks in filled:
        (proposals,) = masks
        assert {one.token_id for one in proposals} == set(range(len(TOKENS)))
        assert sum(one.probability for one in proposals) < 0.5  # the softmax is over all rows, as in transformers


def test_the_saved_model_predicts_the_same_as_fill_mask(model, tokenizer):
    served = build_mask_filler(lambda features: model(features, training=False), tokenizer, None, 17)
    answer = served.answer(tf.constant(TEXTS))
    for number, (proposals,) in enumerate(bk.fill_mask(model, tokenizer, TEXTS)):
        assert answer["token_ids"][number, 0].numpy().tolist() == [one.token_id for one in proposals]
        np.testing.assert_allclose(
            answer["probabilities"][number, 0], [one.probability for one in proposals], rtol=1e-4
        )


def test_inspect_predicts_only_tokens(model, tokenizer):
    from bert_keras.analysis.inspection.forward_pass import make_input_sequence
    from bert_keras.analysis.inspection.head_outputs import predict_masked_tokens

    row = make_input_sequence(tokenizer, model.encoder.config, TEXTS[0], keep_special_tokens=True)
    (guess,) = predict_masked_tokens(model, tokenizer, row, top_k=3)
    assert {token for token, _ in guess.proposals} <= set(TOKENS)


def test_rows_without_a_token_never_replace_a_masked_token(tokenizer):
    assert MaskingTokens.from_tokenizer(tokenizer).random_ids.max() == len(TOKENS) - 1


def test_many_rows_without_a_token_cause_a_warning(tokenizer, tmp_path, caplog):
    sizes = {"num_layers": 1, "num_heads": 1, "hidden_dim": 4, "intermediate_dim": 4, "max_sequence_length": 8}
    encoder = bk.BertEncoder(bk.BertConfig(vocabulary_size=len(TOKENS) + 1025, **sizes))
    bk.save(encoder, tokenizer, tmp_path / "wide")
    bk.load(tmp_path / "wide")
    assert "has 89 tokens, the model's token table 1,114 rows: does the vocabulary belong to this model?" in caplog.text


@pytest.mark.slow
def test_transformers_loads_a_padded_folder_and_predicts_the_same(folder, tokenizer, model, open_twin):
    from transformers import AutoTokenizer, pipeline

    theirs = pipeline(
        "fill-mask", model=open_twin(folder, "BertForMaskedLM"), tokenizer=AutoTokenizer.from_pretrained(folder)
    )
    ids = list(range(len(TOKENS)))
    for text, (proposals,) in zip(TEXTS, bk.fill_mask(model, tokenizer, TEXTS, top_k=7), strict=True):
        scores = {one["token"]: one["score"] for one in theirs(text, top_k=NUM_ROWS) if one["token"] in ids}
        best = sorted(scores, key=lambda token: -scores[token])[:7]
        assert [one.token_id for one in proposals] == best
        np.testing.assert_allclose([one.probability for one in proposals], [scores[token] for token in best], rtol=1e-4)
