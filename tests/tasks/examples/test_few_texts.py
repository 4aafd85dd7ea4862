"""A few texts are answered without tracing a graph, and answered the same."""

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.pipelines.batches.encoding import encode
from bert_keras.tasks import predictor
from bert_keras.tasks.inference import SequenceRunner
from bert_keras.tasks.predictor import Predictor
from bert_keras.tasks.text_classification import TextClassification, TextExample

TEXTS = ["the one", "number three", "so very very very many"]


class Eagerness:
    """A model that writes down whether it is called op by op."""

    def __init__(self):
        self.calls = []

    def __call__(self, features, training):
        self.calls.append(tf.executing_eagerly())
        return {"logits": tf.cast(features["token_ids"][:, :3], tf.float32)}


@pytest.fixture
def model():
    return Eagerness()


def test_one_batch_runs_op_by_op_where_no_more_will_follow(model, tokenizer):
    rows = encode(tokenizer, TEXTS, max_sequence_length=64)
    run = SequenceRunner(model, is_token_level=False)
    alone = run(rows, once=True)
    assert model.calls == [True]
    np.testing.assert_array_equal(run(rows)["logits"], alone["logits"])
    assert model.calls == [True, False], "otherwise it is traced"


def test_several_batches_are_traced(model, tokenizer):
    rows = encode(tokenizer, ["so very " * 30] * 200, max_sequence_length=64)
    SequenceRunner(model, is_token_level=False)(rows, once=True)
    assert model.calls == [False]


@pytest.mark.parametrize(("once", "size", "expected"), [(True, 9, [True]), (True, 2, [False]), (False, 9, [False])])
def test_a_stream_is_traced_if_it_is_longer_than_a_chunk(once, size, expected, model, tokenizer, monkeypatch):
    monkeypatch.setattr(predictor, "EXAMPLES_PER_CHUNK", size)
    ask = Predictor(model, tokenizer, TextClassification(labels=("a", "b", "c")))
    answers = [len(chunk) for chunk in ask.stream(map(TextExample, TEXTS), once=once)]
    assert answers == ([3] if size == 9 else [2, 1])
    assert model.calls == expected


def test_the_answers_are_the_same(build, tokenizer):
    task = TextClassification(labels=("a", "b", "c"))
    ask = Predictor(build(task), tokenizer, task)
    few, traced = (list(ask.stream(map(TextExample, TEXTS), once=once)) for once in (True, False))
    for one, other in zip(*few, *traced, strict=True):
        assert one["label"] == other["label"]
        np.testing.assert_allclose(one["probabilities"], other["probabilities"], rtol=0, atol=1e-6)
