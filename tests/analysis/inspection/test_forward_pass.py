"""The inside of a model: rows of tokens, attention, scores, hidden states."""

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.analysis.inspection.forward_pass import look
from bert_keras.analysis.inspection.histograms import NUM_BINS, score_histograms
from bert_keras.analysis.inspection.input_sequence import row_of
from bert_keras.errors import InputError
from tests.conftest import MODELS
from tests.marks import slow_except

TEXT, SECOND = "The cats sat on a mat.", "every dog"


def softmax(scores):
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def test_a_row_names_the_characters_of_each_token(make, tokenizer):
    row = row_of(tokenizer, make("encoder").config, TEXT, SECOND)
    assert row.tokens == tuple("[CLS] the cat ##s sat on a mat . [SEP] every dog [SEP]".split())
    assert row.segment_ids.tolist() == [0] * 10 + [1] * 3
    found = [
        (TEXT, SECOND)[segment][start:end]
        for segment, start, end in zip(row.segment_ids, row.starts, row.ends, strict=True)
        if start >= 0
    ]
    assert found == ["The", "cat", "s", "sat", "on", "a", "mat", ".", "every", "dog"]
    assert row.word_ids.tolist() == [-1, 0, 1, 1, 2, 3, 4, 5, 6, -1, 0, 1, -1]


def test_a_model_that_computes_no_number_is_refused(make, tokenizer):
    model = bk.BertEncoder(make("encoder").config)
    model.blocks[1].feed_forward.bias.assign(np.full(model.blocks[1].feed_forward.bias.shape, np.nan))
    with pytest.raises(InputError, match=r"the model outputs NaN or infinity, as do its weights \(.*feed_forward"):
        look(model, row_of(tokenizer, model.config, TEXT))


def test_a_head_that_computes_no_number_is_refused(make, tokenizer):
    model = bk.BertClassifier(bk.BertEncoder(make("encoder").config), num_classes=2)
    model.classifier.kernel.assign(np.full(model.classifier.kernel.shape, 3e38))
    model.encoder.pooler.bias.assign(np.full(model.encoder.pooler.bias.shape, 9))  # so each of its outputs is about 1
    with pytest.raises(InputError, match="the model outputs NaN or infinity for this text"):
        look(model, row_of(tokenizer, model.encoder.config, TEXT))


@pytest.mark.parametrize("texts", [(TEXT,), (TEXT, SECOND)])
def test_scaled_scores_give_the_models_own_attention(make, tokenizer, texts):
    model = make("encoder")
    seen = look(model, row_of(tokenizer, model.config, *texts))
    for layer in range(3):
        expected = softmax(seen.scaled_scores(layer))
        np.testing.assert_allclose(seen.attention[layer], expected, rtol=0, atol=1e-6)  # measured: 2.4e-7
        raw = seen.raw_scores(layer)
        np.testing.assert_allclose(raw, seen.scaled_scores(layer) * np.sqrt(6), rtol=1e-6)  # H = 30 / 5


@pytest.mark.parametrize(
    "model_kind",
    slow_except(MODELS, quick=["encoder_without_pooler", "pretrainer", "token_classifier", "electra_with_generator"]),
    indirect=True,
)
def test_every_kind_of_model_can_be_looked_into(make, model_kind, tokenizer, run):
    model = make(model_kind)
    encoder = getattr(model, "encoder", model)
    row = row_of(tokenizer, encoder.config, TEXT)
    seen = look(model, row)
    assert seen.attention.shape == (3, 5, 10, 10)
    assert seen.queries.shape == (3, 5, 10, 6)
    assert seen.hidden_states.shape == (4, 10, 30)
    plain = run(encoder, row.features())["sequence_output"][0]
    np.testing.assert_allclose(seen.hidden_states[-1], plain, rtol=0, atol=1e-6)  # measured: 0
    assert "attention_scores" not in seen.outputs


def test_histograms_count_every_score_and_scaling_narrows_them(make, tokenizer):
    model = make("encoder")
    found = score_histograms(look(model, row_of(tokenizer, model.config, TEXT)))
    assert found.raw.shape == (3, NUM_BINS)
    assert found.raw.sum(1).tolist() == [5 * 10 * 10] * 3
    assert found.scaled.sum(1).tolist() == [5 * 10 * 10] * 3
    np.testing.assert_allclose(found.raw_spread / found.scaled_spread, np.sqrt(6), rtol=1e-5)
    assert (found.raw_peak > found.scaled_peak).all()


def test_the_mean_largest_share_is_that_of_the_model(make, tokenizer):
    model = make("encoder")
    seen = look(model, row_of(tokenizer, model.config, TEXT))
    expected = seen.attention.max(-1).mean((1, 2))
    np.testing.assert_allclose(score_histograms(seen).scaled_peak, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (("the cat " * 8,), "the text has 18 tokens with .* reads 17 at most .* cut the text"),
        (("the cat " * 4, "a dog " * 4), "the two texts have 19 tokens"),
        ((" \n",), "the text has no tokens; expected words"),
        (("the cat", ""), "the second text has no tokens"),
    ],
)
def test_texts_that_do_not_fit_are_told(make, tokenizer, texts, message):
    with pytest.raises(InputError, match=message):
        row_of(tokenizer, make("encoder").config, *texts)


def test_a_model_without_segments_takes_no_pair(sizes, tokenizer):
    config = bk.BertConfig(**{**sizes, "type_vocabulary_size": 1})
    assert len(row_of(tokenizer, config, TEXT)) == 10
    with pytest.raises(InputError, match="knows no second text"):
        row_of(tokenizer, config, TEXT, SECOND)


def test_another_models_tokenizer_is_told(make):
    tokenizer = bk.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(str, range(93))])
    with pytest.raises(InputError, match="the tokenizer has 98 tokens, the model 97 rows"):
        row_of(tokenizer, make("encoder").config, "cat")
