"""The interface of `BertTokenizer`: inputs, outputs and properties."""

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.pipelines.text.tokenizer import BertTokenizer

TEXTS = ["Unaffable playing, the a.", "", "  the\tunplayings\n", "zebra b"]


@pytest.fixture
def token_ids():
    """The expected ids of `TEXTS` with the tiny vocabulary; 1 is [UNK]."""
    return [[5, 6, 7, 8, 9, 15, 10, 11, 16], [], [10, 1], [1, 12]]


@pytest.mark.parametrize("given", [list, np.array, tf.constant], ids=["list", "array", "tensor"])
def test_lists_arrays_and_tensors_have_the_same_ids(tiny_tokenizer, token_ids, given):
    ids = tiny_tokenizer.tokenize(given(TEXTS))
    assert isinstance(ids, tf.RaggedTensor)
    assert ids.dtype == tf.int32
    assert ids.to_list() == token_ids


def test_an_empty_batch_has_no_ids(tiny_tokenizer):
    assert tiny_tokenizer.tokenize([]).to_list() == []


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("one text", "received one text; expected a batch of texts"),
        ([["a"], ["b"]], "received an array of 2 dimensions; expected a batch of texts"),
        (["a", None], "text 1 is None, a NoneType; expected a string"),
        ([1.5], r"text 0 is 1\.5, a float"),
        (["a", "\ud83d"], "text 1 has half a surrogate pair"),
        (tf.constant([7]), r"received a int32 tensor of shape \(1,\); expected a batch of strings"),
        (tf.constant("a"), r"received a string tensor of shape \(\)"),
    ],
)
def test_anything_but_a_batch_of_strings_is_an_error(tiny_tokenizer, texts, message):
    with pytest.raises(InputError, match=message):
        tiny_tokenizer.tokenize(texts)


def test_detokenize_joins_tokens_and_drops_special_tokens_and_padding(tiny_tokenizer):
    rows = [[2, 5, 6, 7, 15, 8, 9, 17, 3, 0, 0], [2, 3], [], [1, 11]]
    texts = [b"unaffable , playings", b"", b"", b"a"]
    ragged = tf.ragged.constant(rows, dtype=tf.int32)
    assert tiny_tokenizer.detokenize(rows).numpy().tolist() == texts
    assert tiny_tokenizer.detokenize(ragged).numpy().tolist() == texts
    assert tiny_tokenizer.detokenize(ragged.to_tensor()).numpy().tolist() == texts
    assert tiny_tokenizer.detokenize(ragged.to_tensor().numpy()).numpy().tolist() == texts
    assert tf.function(tiny_tokenizer.detokenize)(ragged).numpy().tolist() == texts


def test_properties_have_the_vocabulary_and_the_special_ids():
    tokens = ["a", "[MASK]", "[SEP]", "b", "[UNK]", "[CLS]", "[PAD]"]
    tokenizer = BertTokenizer(tokens, lowercase=False, max_sequence_length=77)
    assert tokenizer.vocabulary == tuple(tokens)
    assert tokenizer.vocabulary_size == 7
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id) == (
        6,
        4,
        5,
        2,
        1,
    )
    assert tokenizer.special_ids == (6, 4, 5, 2, 1)
    assert tokenizer.lowercase is False
    assert tokenizer.max_sequence_length == 77
    assert "7 tokens, lowercase=False, max_sequence_length=77" in repr(tokenizer)
