"""`bk.inspect`: predictions, and invalid arguments."""

import dataclasses

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.analysis.inspection.forward_pass import make_input_sequence
from bert_keras.analysis.inspection.head_outputs import MAX_WORDS, find_words, predict_masked_tokens
from bert_keras.errors import InputError

TEXT, SECOND = "The cats sat on a mat.", "every dog ran"


def test_predictions_at_masks_match_fill_mask(make, tokenizer, inspect_tiny):
    text = "The [MASK] sat on a [MASK]."
    predictions = inspect_tiny("pretrainer", text, top_k=3).masked_predictions
    [expected] = bk.fill_mask(make("pretrainer"), tokenizer, [text], top_k=3)
    assert [prediction.position for prediction in predictions] == [2, 6]
    for prediction, fillings in zip(predictions, expected, strict=True):
        assert [token for token, _ in prediction.proposals] == [filling.token for filling in fillings]
        probabilities = [probability for _, probability in prediction.proposals]
        assert probabilities == pytest.approx([filling.probability for filling in fillings], rel=1e-5)
        assert prediction.probability is None


def test_without_a_mask_each_word_is_masked_with_all_its_tokens(make, tokenizer, inspect_tiny):
    predictions = inspect_tiny("masked_lm", TEXT, SECOND).masked_predictions
    assert [prediction.token for prediction in predictions] == "the cat ##s sat on a mat . every dog ran".split()
    [first, second] = [prediction for prediction in predictions if prediction.token in ("cat", "##s")]
    sequence = make_input_sequence(tokenizer, make("masked_lm").encoder.config, TEXT, SECOND)
    features = {**sequence.features(), "mask_positions": np.array([[2, 3]])}
    features["token_ids"] = features["token_ids"].copy()
    features["token_ids"][0, [2, 3]] = tokenizer.mask_id
    logits = np.asarray(make("masked_lm")(features)["mlm_logits"])[0]
    probabilities = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    expected = [probabilities[0, sequence.token_ids[2]], probabilities[1, sequence.token_ids[3]]]
    assert [first.probability, second.probability] == pytest.approx(expected, rel=1e-5)


def test_words_do_not_span_two_texts(make, tokenizer):
    sequence = make_input_sequence(tokenizer, make("encoder").config, "the cats", "the hat")
    assert [positions.tolist() for positions in find_words(sequence, tokenizer)] == [[1], [2, 3], [5], [6]]


def test_only_the_first_words_of_a_long_text_are_masked(make, tokenizer):
    model = make("masked_lm", max_sequence_length=90)
    sequence = make_input_sequence(tokenizer, model.encoder.config, "cat " * 80)
    assert len(predict_masked_tokens(model, tokenizer, sequence)) == MAX_WORDS


def test_the_generator_of_electra_predicts_masked_tokens(inspect_tiny):
    assert len(inspect_tiny("electra_with_generator", "a [MASK] sat").masked_predictions) == 1
    assert inspect_tiny("electra", "a cat sat").masked_predictions == ()


def test_without_a_masked_lm_head_a_mask_is_ordinary_text(inspect_tiny):
    assert "[MASK]" not in inspect_tiny("classifier", "a [MASK] sat").tokens


def test_a_classifier_predicts_class_probabilities(make, tokenizer, run, inspect_tiny):
    inspection = inspect_tiny("classifier", TEXT)
    logits = run(make("classifier"), inspection.forward_pass.sequence.features())["logits"][0].astype(float)
    expected = np.exp(logits) / np.exp(logits).sum()
    items = inspection.prediction.items
    probabilities = dict(zip(("red", "green", "blue", "black"), expected, strict=True))
    assert {item.label: item.value for item in items} == pytest.approx(probabilities, rel=1e-4)
    assert [item.is_predicted for item in items] == [True, False, False, False]


def test_tags_have_character_ranges(inspect_tiny):
    items = inspect_tiny("token_classifier", TEXT).prediction.items
    words = [TEXT[item.start : item.end] for item in items]
    assert words == "The cats sat on a mat .".split()


def test_an_answer_is_a_range_of_the_context(inspect_tiny):
    items = inspect_tiny("question_answerer", "every dog", TEXT).prediction.items
    assert items[0].is_predicted
    for item in items:
        assert TEXT[item.start : item.end] == item.label
        assert item.text == 1


def test_next_sentence_prediction_needs_a_pair(inspect_tiny):
    is_next, is_random = inspect_tiny("pretrainer", TEXT, SECOND).prediction.items
    assert is_next.value + is_random.value == pytest.approx(1)
    assert inspect_tiny("pretrainer", TEXT).prediction is None


def test_an_embedder_encodes_two_texts_separately_for_their_cosine(make, tokenizer, run, inspect_tiny):
    [item] = inspect_tiny("embedder", TEXT, SECOND).prediction.items
    config = make("embedder").encoder.config
    first, second = (
        run(make("embedder"), make_input_sequence(tokenizer, config, text).features())["embedding"][0]
        for text in (TEXT, SECOND)
    )
    assert item.value == pytest.approx(float(first @ second), abs=1e-5)
    assert inspect_tiny("embedder", TEXT).prediction is None


def test_electra_predicts_replaced_tokens(inspect_tiny):
    inspection = inspect_tiny("electra", TEXT)
    logits = inspection.forward_pass.outputs["replaced_logits"][1:-1]  # without [CLS] and [SEP]
    assert [item.value for item in inspection.prediction.items] == pytest.approx(list(1 / (1 + np.exp(-logits))))
    assert [item.label for item in inspection.prediction.items] == list(inspection.tokens[1:-1])


def test_an_encoder_predicts_nothing(inspect_tiny):
    for kind, has_pooler in (("encoder", True), ("encoder_without_pooler", False)):
        inspection = inspect_tiny(kind, TEXT)
        assert inspection.prediction is None
        assert inspection.has_pooler is has_pooler


@pytest.mark.parametrize(
    ("kind", "texts", "options", "message"),
    [
        ("encoder", (TEXT,), {"layer": 3}, "there is no layer 3; the model has layers 0 to 2: choose one of them"),
        ("encoder", (TEXT,), {"head": 5}, "there is no head 5; the model has heads 0 to 4"),
        ("encoder", (TEXT,), {"head": -1}, "there is no head -1"),
        ("masked_lm", (TEXT,), {"top_k": 98}, "top_k is 98; expected an integer from 1 to 97"),
        ("question_answerer", (TEXT,), {}, "a question needs a context, and there is none"),
        ("token_classifier", (TEXT, SECOND), {}, "a second text was given: leave it out"),
    ],
)
def test_invalid_arguments_are_rejected(inspect_tiny, kind, texts, options, message):
    with pytest.raises(InputError, match=message):
        inspect_tiny(kind, *texts, **options)


def test_a_model_needs_its_tokenizer(make):
    with pytest.raises(InputError, match="a model was given without its tokenizer"):
        bk.inspect(make("encoder"), TEXT)


def test_a_folder_is_inspected_like_its_model(make, tokenizer, inspect_tiny, tmp_path):
    bk.save(make("classifier"), tokenizer, tmp_path / "folder")
    loaded, expected = bk.inspect(tmp_path / "folder", TEXT), inspect_tiny("classifier", TEXT)
    np.testing.assert_allclose(loaded.attention, expected.attention, rtol=0, atol=1e-6)
    assert loaded.name == "folder"
    assert loaded.prediction == expected.prediction


def test_to_dict_returns_plain_values(inspect_tiny):
    values = inspect_tiny("classifier", TEXT).to_dict()
    assert len(values["heads"]) == 15
    assert values["heads"][7] == dataclasses.asdict(inspect_tiny("classifier", TEXT).heads[7])
    assert values["tokens"][:2] == ["[CLS]", "the"]
