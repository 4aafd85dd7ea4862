"""Rows through a model: what is given back is of the row alone, in its order, without padding."""

import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.batches.encoding import encode
from bert_keras.tasks import inference
from bert_keras.tasks.answer_extraction import QuestionAnswering
from bert_keras.tasks.inference import SequenceRunner
from bert_keras.tasks.text_classification import TextClassification

TOLERANCE = 1e-5  # of logits up to 10; measured: 1.4e-6
TEXTS = ["the one"] + [f"{'so very ' * (number * 7 % 23)}number {number}" for number in range(200)]


@pytest.fixture(scope="module", params=["rows", "tokens"])
def is_token_level(request):
    return request.param == "tokens"


@pytest.fixture(scope="module")
def runner(is_token_level, build):
    """A runner of a tiny model."""
    task = QuestionAnswering() if is_token_level else TextClassification(labels=("a", "b", "c"))
    return SequenceRunner(build(task), is_token_level=is_token_level)


def make_outputs(rows, outputs, is_token_level: bool) -> list[dict]:
    """Return the outputs of each row."""
    splits = rows.row_splits[1:-1] if is_token_level else np.arange(1, len(rows))
    parts = {name: np.split(values, splits) for name, values in outputs.items()}
    return [{name: values[number] for name, values in parts.items()} for number in range(len(rows))]


def test_a_text_alone_gets_what_it_gets_among_two_hundred(is_token_level, runner, tokenizer):
    together = encode(tokenizer, TEXTS, max_sequence_length=64)
    whole = make_outputs(together, runner(together), is_token_level)
    for number in (0, 3, 77, 200):
        alone = encode(tokenizer, [TEXTS[number]], max_sequence_length=64)
        [outputs] = make_outputs(alone, runner(alone), is_token_level)
        assert set(outputs) == ({"start_logits", "end_logits"} if is_token_level else {"logits"})
        for name, values in outputs.items():
            assert values.shape == ((alone.lengths[0],) if is_token_level else (1, 3))
            np.testing.assert_allclose(whole[number][name], values, rtol=0, atol=TOLERANCE)


def test_the_order_of_sequences_does_not_matter(is_token_level, runner, tokenizer):
    order = np.random.default_rng(0).permutation(len(TEXTS))
    given, shuffled = (encode(tokenizer, texts, max_sequence_length=64) for texts in (TEXTS, np.array(TEXTS)[order]))
    given, shuffled = (make_outputs(rows, runner(rows), is_token_level) for rows in (given, shuffled))
    for place, number in enumerate(order):
        for name, values in given[number].items():
            np.testing.assert_allclose(shuffled[place][name], values, rtol=0, atol=TOLERANCE)


def test_the_model_is_asked_as_it_is_trained(is_token_level, runner, build, tokenizer):
    """The features of one row, as the model wants them, give what the runner gives; segments and masks are in them."""
    rows = encode(tokenizer, ["one two"], ["three four five"], max_sequence_length=64)
    features = {
        "token_ids": rows.token_ids[None],
        "segment_ids": rows.is_second[None].astype("int32"),
        "padding_mask": np.ones((1, len(rows.token_ids)), "int32"),
    }
    model = build(QuestionAnswering() if is_token_level else TextClassification(labels=("a", "b", "c")))
    for name, values in model(features, training=False).items():
        given = runner(rows)[name]
        np.testing.assert_allclose(given if not is_token_level else given[None], values, rtol=0, atol=TOLERANCE)


def test_batches_are_of_like_lengths_and_hold_no_more_tokens_than_is_good(monkeypatch):
    monkeypatch.setattr(inference, "_TOKENS_PER_BATCH", 30)
    lengths = np.array([3, 31, 9, 10, 4, 50, 10, 10])
    batches = inference._make_batches(lengths)
    assert [lengths[numbers].tolist() for numbers in batches] == [[50], [31], [10, 10, 10], [9, 4, 3]]
    assert sorted(np.concatenate(batches).tolist()) == list(range(8))


def test_progress_ends_with_all_sequences(runner, tokenizer):
    told = []
    runner(encode(tokenizer, TEXTS, max_sequence_length=64), lambda done, whole: told.append((done, whole)))
    assert told == [(85, 201), (201, 201)]  # 85 rows of 48 tokens are one batch


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_model_that_computes_no_number_is_refused_and_its_weights_are_named(build, tokenizer, value):
    model = build(TextClassification(labels=("a", "b", "c")))
    rows = encode(tokenizer, ["the one"], max_sequence_length=64)
    bias = model.classifier.bias
    bias.assign(np.array([0, value, 0], "float32"))
    named = r"the model outputs NaN or infinity, as do its weights \(.*classifier/bias\); expected finite numbers"
    with pytest.raises(InputError, match=named):
        SequenceRunner(model, is_token_level=False)(rows, once=True)
    bias.assign(np.array([0, 3e38, 0], "float32"))
    model.classifier.kernel.assign(np.full(model.classifier.kernel.shape, 3e38, "float32"))
    with pytest.raises(InputError, match="the model outputs NaN or infinity for this text; expected finite numbers"):
        SequenceRunner(model, is_token_level=False)(rows, once=True)
