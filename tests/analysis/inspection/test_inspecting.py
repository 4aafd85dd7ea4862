"""`bk.inspect`: guesses, answers, what is asked for wrongly."""

import dataclasses

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.analysis.inspection.input_sequence import row_of
from bert_keras.analysis.inspection.masked_predictions import MOST_WORDS, masked_guesses, words_of
from bert_keras.errors import InputError

TEXT, SECOND = "The cats sat on a mat.", "every dog ran"


def test_guesses_at_masks_are_those_of_fill_mask(make, tokenizer, see):
    text = "The [MASK] sat on a [MASK]."
    seen = see("pretrainer", text, top_k=3)
    [expected] = bk.fill_mask(make("pretrainer"), tokenizer, [text], top_k=3)
    assert [guess.position for guess in seen.guesses] == [2, 6]
    for guess, fillings in zip(seen.guesses, expected, strict=True):
        assert [token for token, _ in guess.proposals] == [filling.token for filling in fillings]
        probabilities = [probability for _, probability in guess.proposals]
        assert probabilities == pytest.approx([filling.probability for filling in fillings], rel=1e-5)
        assert guess.probability is None


def test_without_a_mask_each_word_is_masked_with_all_its_tokens(make, tokenizer, see):
    seen = see("masked_lm", TEXT, SECOND)
    assert [guess.token for guess in seen.guesses] == "the cat ##s sat on a mat . every dog ran".split()
    [one, other] = [guess for guess in seen.guesses if guess.token in ("cat", "##s")]
    row = row_of(tokenizer, make("masked_lm").encoder.config, TEXT, SECOND)
    features = {**row.features(), "mask_positions": np.array([[2, 3]])}
    features["token_ids"] = features["token_ids"].copy()
    features["token_ids"][0, [2, 3]] = tokenizer.mask_id
    logits = np.asarray(make("masked_lm")(features)["mlm_logits"])[0]
    probabilities = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    expected = [probabilities[0, row.token_ids[2]], probabilities[1, row.token_ids[3]]]
    assert [one.probability, other.probability] == pytest.approx(expected, rel=1e-5)


def test_words_of_two_texts_are_two_words(make, tokenizer):
    row = row_of(tokenizer, make("encoder").config, "the cats", "the hat")
    assert [places.tolist() for places in words_of(row, tokenizer)] == [[1], [2, 3], [5], [6]]


def test_of_a_long_text_the_first_words_are_masked(make, tokenizer):
    model = make("masked_lm", max_sequence_length=90)
    row = row_of(tokenizer, model.encoder.config, "cat " * 80)
    assert len(masked_guesses(model, tokenizer, row)) == MOST_WORDS


def test_electras_generator_guesses_too(see):
    assert len(see("electra_with_generator", "a [MASK] sat").guesses) == 1
    assert see("electra", "a cat sat").guesses == ()


def test_where_no_head_guesses_a_mask_is_a_word_in_brackets(see):
    assert "[MASK]" not in see("classifier", "a [MASK] sat").tokens


def test_a_classifier_answers_with_its_probabilities(make, tokenizer, run, see):
    seen = see("classifier", TEXT)
    logits = run(make("classifier"), seen.look.row.features())["logits"][0].astype(float)
    expected = np.exp(logits) / np.exp(logits).sum()
    found = {finding.label: finding.value for finding in seen.answer.findings}
    assert found == pytest.approx(dict(zip(("red", "green", "blue", "black"), expected, strict=True)), rel=1e-4)
    assert [finding.is_given for finding in seen.answer.findings] == [True, False, False, False]


def test_tags_stand_at_their_characters(see):
    answer = see("token_classifier", TEXT).answer
    words = [TEXT[finding.start : finding.end] for finding in answer.findings]
    assert words == "The cats sat on a mat .".split()


def test_an_answer_is_cut_from_the_context(see):
    answer = see("question_answerer", "every dog", TEXT).answer
    assert answer.findings[0].is_given
    for finding in answer.findings:
        assert TEXT[finding.start : finding.end] == finding.label
        assert finding.text == 1


def test_a_pair_has_a_next_sentence_and_one_text_has_none(see):
    follows, is_random = see("pretrainer", TEXT, SECOND).answer.findings
    assert follows.value + is_random.value == pytest.approx(1)
    assert see("pretrainer", TEXT).answer is None


def test_an_embedder_says_how_alike_two_texts_are_each_read_alone(make, tokenizer, run, see):
    [finding] = see("embedder", TEXT, SECOND).answer.findings
    config = make("embedder").encoder.config
    one, other = (
        run(make("embedder"), row_of(tokenizer, config, text).features())["embedding"][0] for text in (TEXT, SECOND)
    )
    assert finding.value == pytest.approx(float(one @ other), abs=1e-5)
    assert see("embedder", TEXT).answer is None


def test_electra_tells_which_tokens_look_replaced(see):
    seen = see("electra", TEXT)
    logits = seen.look.outputs["replaced_logits"][1:-1]  # [CLS] and [SEP] are no tokens of the text
    assert [finding.value for finding in seen.answer.findings] == pytest.approx(list(1 / (1 + np.exp(-logits))))
    assert [finding.label for finding in seen.answer.findings] == list(seen.tokens[1:-1])


def test_an_encoder_answers_nothing_with_a_pooler_or_without(see):
    for kind, has_pooler in (("encoder", True), ("encoder_without_pooler", False)):
        seen = see(kind, TEXT)
        assert seen.answer is None
        assert seen.has_pooler is has_pooler


@pytest.mark.parametrize(
    ("kind", "texts", "options", "message"),
    [
        ("encoder", (TEXT,), {"layer": 3}, "there is no layer 3; the model has layers 0 to 2: name one of them"),
        ("encoder", (TEXT,), {"head": 5}, "there is no head 5; the model has heads 0 to 4"),
        ("encoder", (TEXT,), {"head": -1}, "there is no head -1"),
        ("masked_lm", (TEXT,), {"top_k": 98}, "top_k is 98; expected 1 to 97"),
        ("question_answerer", (TEXT,), {}, "a question needs a context, and there is none"),
        ("token_classifier", (TEXT, SECOND), {}, "a second text was given: leave it out"),
    ],
)
def test_what_cannot_be_shown_is_told_in_one_sentence(see, kind, texts, options, message):
    with pytest.raises(InputError, match=message):
        see(kind, *texts, **options)


def test_a_model_alone_needs_its_tokenizer(make):
    with pytest.raises(InputError, match="a model was given without its tokenizer"):
        bk.inspect(make("encoder"), TEXT)


def test_a_folder_is_inspected_as_its_model(make, tokenizer, see, tmp_path):
    bk.save(make("classifier"), tokenizer, tmp_path / "folder")
    loaded, of_model = bk.inspect(tmp_path / "folder", TEXT), see("classifier", TEXT)
    np.testing.assert_allclose(loaded.attention, of_model.attention, rtol=0, atol=1e-6)
    assert loaded.name == "folder"
    assert loaded.answer == of_model.answer


def test_the_numbers_are_plain_values(see):
    found = see("classifier", TEXT).to_dict()
    assert len(found["heads"]) == 15
    assert found["heads"][7] == dataclasses.asdict(see("classifier", TEXT).heads[7])
    assert found["tokens"][:2] == ["[CLS]", "the"]
