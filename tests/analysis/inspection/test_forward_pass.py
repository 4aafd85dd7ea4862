"""Input sequences, and the attention, scores and hidden states of a forward pass."""

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.analysis.inspection.forward_pass import NUM_BINS, count_scores, make_input_sequence, run_forward_pass
from bert_keras.errors import InputError
from tests.conftest import MODELS
from tests.marks import slow_except

TEXT, SECOND = "The cats sat on a mat.", "every dog"


def softmax(scores):
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def test_a_sequence_has_the_characters_of_each_token(make, tokenizer):
    sequence = make_input_sequence(tokenizer, make("encoder").config, TEXT, SECOND)
    assert sequence.tokens == tuple("[CLS] the cat ##s sat on a mat . [SEP] every dog [SEP]".split())
    assert sequence.segment_ids.tolist() == [0] * 10 + [1] * 3
    words = [
        (TEXT, SECOND)[segment][start:end]
        for segment, start, end in zip(sequence.segment_ids, sequence.starts, sequence.ends, strict=True)
        if start >= 0
    ]
    assert words == ["The", "cat", "s", "sat", "on", "a", "mat", ".", "every", "dog"]
    assert sequence.word_ids.tolist() == [-1, 0, 1, 1, 2, 3, 4, 5, 6, -1, 0, 1, -1]


def test_a_model_with_nan_weights_is_rejected(make, tokenizer):
    model = bk.BertEncoder(make("encoder").config)
    model.blocks[1].feed_forward.bias.assign(np.full(model.blocks[1].feed_forward.bias.shape, np.nan))
    with pytest.raises(InputError, match=r"the model outputs NaN or infinity, as do its weights \(.*feed_forward"):
        run_forward_pass(model, make_input_sequence(tokenizer, model.config, TEXT))


def test_a_head_with_infinite_outputs_is_rejected(make, tokenizer):
    model = bk.BertClassifier(bk.BertEncoder(make("encoder").config), num_classes=2)
    model.classifier.kernel.assign(np.full(model.classifier.kernel.shape, 3e38))
    model.encoder.pooler.bias.assign(np.full(model.encoder.pooler.bias.shape, 9))  # each output is about 1
    with pytest.raises(InputError, match="the model outputs NaN or infinity for this text"):
        run_forward_pass(model, make_input_sequence(tokenizer, model.encoder.config, TEXT))


@pytest.mark.parametrize("texts", [(TEXT,), (TEXT, SECOND)])
def test_softmax_of_the_scaled_scores_is_the_attention(make, tokenizer, texts):
    model = make("encoder")
    result = run_forward_pass(model, make_input_sequence(tokenizer, model.config, *texts))
    for layer in range(3):
        expected = softmax(result.compute_scaled_scores(layer))
        np.testing.assert_allclose(result.attention[layer], expected, rtol=0, atol=1e-6)  # measured: 2.4e-7
        raw = result.compute_raw_scores(layer)
        np.testing.assert_allclose(raw, result.compute_scaled_scores(layer) * np.sqrt(6), rtol=1e-6)  # H = 30 / 5


@pytest.mark.parametrize(
    "model_kind",
    slow_except(MODELS, quick=["encoder_without_pooler", "pretrainer", "token_classifier", "electra_with_generator"]),
    indirect=True,
)
def test_every_kind_of_model_runs(make, model_kind, tokenizer, run):
    model = make(model_kind)
    encoder = getattr(model, "encoder", model)
    sequence = make_input_sequence(tokenizer, encoder.config, TEXT)
    result = run_forward_pass(model, sequence)
    assert result.attention.shape == (3, 5, 10, 10)
    assert result.queries.shape == (3, 5, 10, 6)
    assert result.hidden_states.shape == (4, 10, 30)
    expected = run(encoder, sequence.features())["sequence_output"][0]
    np.testing.assert_allclose(result.hidden_states[-1], expected, rtol=0, atol=1e-6)  # measured: 0
    assert "attention_scores" not in result.outputs


def test_histograms_count_every_score_and_scaling_narrows_them(make, tokenizer):
    model = make("encoder")
    histograms = count_scores(run_forward_pass(model, make_input_sequence(tokenizer, model.config, TEXT)))
    assert histograms.counts.shape == (3, NUM_BINS)
    assert histograms.counts.sum(1).tolist() == [5 * 10 * 10] * 3
    np.testing.assert_allclose(histograms.raw_spread / histograms.scaled_spread, np.sqrt(6), rtol=1e-5)
    assert (histograms.raw_peak > histograms.scaled_peak).all()


def test_the_average_peak_is_that_of_the_attention(make, tokenizer):
    model = make("encoder")
    result = run_forward_pass(model, make_input_sequence(tokenizer, model.config, TEXT))
    expected = result.attention.max(-1).mean((1, 2))
    np.testing.assert_allclose(count_scores(result).scaled_peak, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (("the cat " * 8,), "the text has 18 tokens with .* accepts at most 17 .* shorten the text"),
        (("the cat " * 4, "a dog " * 4), "the two texts have 19 tokens"),
        ((" \n",), "the text has no tokens; expected at least one word"),
        (("the cat", ""), "the second text has no tokens"),
    ],
)
def test_texts_without_tokens_or_with_too_many_are_rejected(make, tokenizer, texts, message):
    with pytest.raises(InputError, match=message):
        make_input_sequence(tokenizer, make("encoder").config, *texts)


def test_a_model_with_one_segment_rejects_a_pair(sizes, tokenizer):
    config = bk.BertConfig(**{**sizes, "type_vocabulary_size": 1})
    assert len(make_input_sequence(tokenizer, config, TEXT)) == 10
    with pytest.raises(InputError, match="the model accepts only one"):
        make_input_sequence(tokenizer, config, TEXT, SECOND)


def test_the_tokenizer_of_another_model_is_rejected(make):
    tokenizer = bk.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(str, range(93))])
    with pytest.raises(InputError, match="the tokenizer has 98 tokens and the model's token table 97 rows"):
        make_input_sequence(tokenizer, make("encoder").config, "cat")
