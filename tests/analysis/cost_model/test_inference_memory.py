"""Memory of one pass against the shapes of a real one."""

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.analysis.cost_model.inference_memory import inference_memory
from bert_keras.analysis.cost_model.subjects import HEADS
from tests.marks import slow_except


@pytest.mark.parametrize("head", slow_except([None, *HEADS], quick=[None, "classification", "masked_lm"]))
def test_scores_are_those_of_a_real_pass(head):
    config = bk.BertConfig.from_preset("tiny", vocabulary_size=50, max_sequence_length=70)
    encoder = bk.BertEncoder(config)
    model = encoder if head is None else HEADS[head](encoder, 3)
    found = inference_memory(model, batch_size=3)
    assert [one.length for one in found] == [32, 64]
    ids = np.ones((3, 64), np.int32)
    scores = encoder({"token_ids": ids, "padding_mask": ids}, return_attention_scores=True)["attention_scores"]
    whole = sum(np.prod(one.shape) * 4 for one in scores)
    if head in ("classification", "masked_lm", "pretraining"):  # few positions of the last block are read
        assert whole / 2 < found[1].attention_scores < whole
    else:
        assert found[1].attention_scores == whole
    assert found[1].weights == 4 * model.count_params()
    widest = 3 * 64 * config.intermediate_dim * 4  # what feed-forward makes
    assert widest < found[1].tensors < 3 * widest


def test_a_model_of_short_rows_is_told_at_its_longest():
    config = bk.BertConfig.from_preset("tiny", vocabulary_size=50, max_sequence_length=20)
    assert [one.length for one in inference_memory(bk.BertEncoder(config))] == [20]


def test_long_texts_take_more():
    found = inference_memory(bk.BertEncoder(bk.BertConfig.from_preset("tiny", vocabulary_size=50)))
    tensors = [one.tensors for one in found]
    assert tensors == sorted(tensors)
    assert [one.length for one in found] == [32, 64, 128, 256, 512]
    assert found[-1].attention_scores == 256 * found[0].attention_scores
