"""`SequenceRunner` returns the outputs of each sequence in the given order, without padding."""

import threading

import numpy as np
import pytest

from bert_keras.engines.engine import Engine
from bert_keras.engines.keras_engine import KerasEngine
from bert_keras.engines.sequence_runner import SequenceRunner, make_batches
from bert_keras.errors import InputError
from bert_keras.heads.answer.task import QuestionAnswering
from bert_keras.heads.classify.task import TextClassification
from bert_keras.pipelines.batches.encoding import encode

TOLERANCE = 1e-5  # measured: 1.4e-6, for logits of magnitude up to 10
TEXTS = ["the one"] + [f"{'so very ' * (number * 7 % 23)}number {number}" for number in range(200)]


@pytest.fixture(scope="module", params=["sequences", "tokens"])
def is_token_level(request):
    return request.param == "tokens"


@pytest.fixture(scope="module")
def runner(is_token_level, build):
    """`SequenceRunner` of a tiny model."""
    task = QuestionAnswering() if is_token_level else TextClassification(labels=("a", "b", "c"))
    return SequenceRunner(KerasEngine(build(task)), is_token_level=is_token_level)


def make_outputs(sequences, outputs, is_token_level: bool) -> list[dict]:
    """Return the outputs of each sequence."""
    splits = sequences.row_splits[1:-1] if is_token_level else np.arange(1, len(sequences))
    parts = {name: np.split(values, splits) for name, values in outputs.items()}
    return [{name: values[number] for name, values in parts.items()} for number in range(len(sequences))]


def test_other_sequences_do_not_change_the_outputs(is_token_level, runner, tokenizer):
    batch = encode(tokenizer, TEXTS, max_sequence_length=64)
    all_outputs = make_outputs(batch, runner(batch), is_token_level)
    for number in (0, 3, 77, 200):
        alone = encode(tokenizer, [TEXTS[number]], max_sequence_length=64)
        [outputs] = make_outputs(alone, runner(alone), is_token_level)
        assert set(outputs) == ({"start_logits", "end_logits"} if is_token_level else {"logits"})
        for name, values in outputs.items():
            assert values.shape == ((alone.lengths[0],) if is_token_level else (1, 3))
            np.testing.assert_allclose(all_outputs[number][name], values, rtol=0, atol=TOLERANCE)


def test_outputs_do_not_depend_on_the_order_of_sequences(is_token_level, runner, tokenizer):
    order = np.random.default_rng(0).permutation(len(TEXTS))
    outputs, shuffled = (encode(tokenizer, texts, max_sequence_length=64) for texts in (TEXTS, np.array(TEXTS)[order]))
    outputs, shuffled = (
        make_outputs(sequences, runner(sequences), is_token_level) for sequences in (outputs, shuffled)
    )
    for position, index in enumerate(order):
        for name, values in outputs[index].items():
            np.testing.assert_allclose(shuffled[position][name], values, rtol=0, atol=TOLERANCE)


def test_runner_output_equals_a_direct_call_of_the_model(is_token_level, runner, build, tokenizer):
    """The features of one sequence include segments and the padding mask."""
    sequences = encode(tokenizer, ["one two"], ["three four five"], max_sequence_length=64)
    features = {
        "token_ids": sequences.token_ids[None],
        "segment_ids": sequences.is_second[None].astype("int32"),
        "padding_mask": np.ones((1, len(sequences.token_ids)), "int32"),
    }
    model = build(QuestionAnswering() if is_token_level else TextClassification(labels=("a", "b", "c")))
    for name, values in model(features, training=False).items():
        actual = runner(sequences)[name]
        np.testing.assert_allclose(actual if not is_token_level else actual[None], values, rtol=0, atol=TOLERANCE)


def test_batches_have_similar_lengths_and_a_limited_number_of_tokens():
    lengths = np.array([3, 31, 9, 10, 4, 50, 10, 10])
    batches = make_batches(lengths, tokens_per_batch=30)
    assert [lengths[numbers].tolist() for numbers in batches] == [[50], [31], [10, 10, 10], [9, 4, 3]]
    assert sorted(np.concatenate(batches).tolist()) == list(range(8))


def test_batches_can_be_limited_to_sequences_of_similar_length():
    lengths = np.array([3, 31, 9, 10, 4, 50, 10, 8])
    batches = make_batches(lengths, tokens_per_batch=60, shortest_share=0.75)
    assert [lengths[numbers].tolist() for numbers in batches] == [[50], [31], [10, 10, 9, 8], [4, 3]]


class Recorder(Engine):
    """Engine that records the shapes of its batches."""

    length_step, max_length = 8, 20

    def __init__(self):
        self.shapes = []

    def run(self, features, *, once=False):
        self.shapes.append(features["token_ids"].shape)
        return {"logits": features["padding_mask"].sum(axis=1, keepdims=True).astype(np.float32)}


def test_lengths_are_rounded_up_but_not_beyond_the_maximum(tokenizer):
    engine = Recorder()
    for num_words, length in ((3, 8), (6, 8), (7, 16), (15, 20), (18, 20)):
        sequences = encode(tokenizer, ["the " * num_words], max_sequence_length=20)
        outputs = SequenceRunner(engine, is_token_level=False)(sequences)
        assert engine.shapes.pop() == (1, length)
        assert outputs["logits"].tolist() == [[num_words + 2]]  # the padding is masked


class Pair(Recorder):
    """Engine whose batches end only if two of them run at the same time."""

    num_instances, tokens_per_batch = 2, 1

    def __init__(self):
        super().__init__()
        self.barrier = threading.Barrier(2, timeout=20)

    def run(self, features, *, once=False):
        self.barrier.wait()
        return super().run(features, once=once)


def test_instances_run_batches_at_the_same_time_and_keep_their_order(tokenizer):
    texts = ["the " * number for number in (1, 5, 2, 4)]
    sequences = encode(tokenizer, texts, max_sequence_length=20)
    outputs = SequenceRunner(Pair(), is_token_level=False)(sequences)
    assert outputs["logits"][:, 0].tolist() == [3, 7, 4, 6]


def test_progress_ends_with_all_sequences(runner, tokenizer):
    calls = []
    runner(encode(tokenizer, TEXTS, max_sequence_length=64), lambda done, total: calls.append((done, total)))
    assert calls == [(85, 201), (201, 201)]  # 85 sequences of 48 tokens are one batch


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_non_finite_outputs_raise_an_error_that_names_non_finite_weights(build, tokenizer, value):
    model = build(TextClassification(labels=("a", "b", "c")))
    sequences = encode(tokenizer, ["the one"], max_sequence_length=64)
    bias = model.classifier.bias
    bias.assign(np.array([0, value, 0], "float32"))
    message = r"the model outputs NaN or infinity, as do its weights \(.*classifier/bias\); expected finite numbers"
    with pytest.raises(InputError, match=message):
        SequenceRunner(KerasEngine(model), is_token_level=False)(sequences, once=True)
    bias.assign(np.array([0, 3e38, 0], "float32"))
    model.classifier.kernel.assign(np.full(model.classifier.kernel.shape, 3e38, "float32"))
    with pytest.raises(InputError, match="the model outputs NaN or infinity for this text; expected finite numbers"):
        SequenceRunner(KerasEngine(model), is_token_level=False)(sequences, once=True)
