"""Predictions for a few texts run eagerly, without tracing a graph, and have the same results."""

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.engines import predictor
from bert_keras.engines.keras_engine import KerasEngine
from bert_keras.engines.predictor import Predictor
from bert_keras.engines.sequence_runner import SequenceRunner
from bert_keras.heads.classify.task import TextClassification, TextExample
from bert_keras.pipelines.batches.encoding import encode

TEXTS = ["the one", "number three", "so very very very many"]


class EagerRecorder:
    """Model that records whether each call runs eagerly."""

    def __init__(self):
        self.calls = []

    def __call__(self, features, training):
        self.calls.append(tf.executing_eagerly())
        return {"logits": tf.cast(features["token_ids"][:, :3], tf.float32)}


@pytest.fixture
def model():
    return EagerRecorder()


def test_single_final_batch_runs_eagerly(model, tokenizer):
    sequences = encode(tokenizer, TEXTS, max_sequence_length=64)
    run = SequenceRunner(KerasEngine(model), is_token_level=False)
    alone = run(sequences, once=True)
    assert model.calls == [True]
    np.testing.assert_array_equal(run(sequences)["logits"], alone["logits"])
    assert model.calls == [True, False], "more batches may follow, so the graph is traced"


def test_several_batches_run_in_a_traced_graph(model, tokenizer):
    sequences = encode(tokenizer, ["so very " * 30] * 200, max_sequence_length=64)
    SequenceRunner(KerasEngine(model), is_token_level=False)(sequences, once=True)
    assert model.calls == [False]


@pytest.mark.parametrize(("once", "size", "expected"), [(True, 9, [True]), (True, 2, [False]), (False, 9, [False])])
def test_stream_runs_in_a_traced_graph_if_it_is_longer_than_a_chunk(
    once, size, expected, model, tokenizer, monkeypatch
):
    monkeypatch.setattr(predictor, "EXAMPLES_PER_CHUNK", size)
    predict = Predictor(model, tokenizer, TextClassification(labels=("a", "b", "c")))
    answers = [len(chunk) for chunk in predict.stream(map(TextExample, TEXTS), once=once)]
    assert answers == ([3] if size == 9 else [2, 1])
    assert model.calls == expected


def test_eager_and_traced_answers_are_equal(build, tokenizer):
    task = TextClassification(labels=("a", "b", "c"))
    predict = Predictor(build(task), tokenizer, task)
    few, traced = (list(predict.stream(map(TextExample, TEXTS), once=once)) for once in (True, False))
    for one, other in zip(*few, *traced, strict=True):
        assert one["label"] == other["label"]
        np.testing.assert_allclose(one["probabilities"], other["probabilities"], rtol=0, atol=1e-6)
