"""Packed sequences have their tokens in the right places, whatever is cut or padded."""

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.features import FEATURES
from bert_keras.pipelines.packing import pack, pack_tokens

IDS = {"cls_id": 2, "sep_id": 3, "pad_id": 9}


def ragged(rows):
    return tf.ragged.constant(rows, dtype=tf.int32, ragged_rank=1)


def as_lists(features):
    return {name: tensor.numpy().tolist() for name, tensor in features.items()}


def google_packed(first, second, max_sequence_length, length):
    """Google's `_truncate_seq_pair` (always from the end) and packing, one list at a time."""
    first, second, pair = list(first), list(second or []), second is not None
    while len(first) + len(second) > max_sequence_length - (3 if pair else 2):
        (first if len(first) > len(second) else second).pop()
    ids, segments = [2, *first, 3], [0] * (len(first) + 2)
    if pair:
        ids, segments = [*ids, *second, 3], [*segments, *[1] * (len(second) + 1)]
    padding = length - len(ids)
    return ids + [9] * padding, segments + [0] * padding, [1] * len(ids) + [0] * padding


@pytest.mark.parametrize("pair", [False, True], ids=["single", "pair"])
@pytest.mark.parametrize("max_sequence_length", [5, 8, 13, 50])
@pytest.mark.parametrize("fixed", [False, True], ids=["longest", "fixed"])
def test_every_row_is_what_googles_code_packs(pair, max_sequence_length, fixed):
    rng = np.random.default_rng(max_sequence_length)
    first, second = ([rng.integers(10, 99, rng.integers(0, 17)).tolist() for _ in range(23)] for _ in range(2))
    length = max_sequence_length + 4 if fixed else None
    features = pack_tokens(
        ragged(first),
        ragged(second) if pair else None,
        **IDS,
        max_sequence_length=max_sequence_length,
        pad_to_length=length,
    )
    special = 3 if pair else 2
    sizes = [len(a) + (len(b) if pair else 0) + special for a, b in zip(first, second, strict=True)]
    length = length or min(max(sizes), max_sequence_length)
    rows = [
        google_packed(a, b if pair else None, max_sequence_length, length) for a, b in zip(first, second, strict=True)
    ]
    for name, expected in zip(("token_ids", "segment_ids", "padding_mask"), zip(*rows, strict=True), strict=True):
        assert features[name].numpy().tolist() == list(expected), name


def test_names_and_types_are_those_of_the_table_of_features(tiny_tokenizer):
    features = pack(tiny_tokenizer, ["the a", "b"], max_sequence_length=7)
    assert set(features) == {"token_ids", "segment_ids", "padding_mask"}
    for name, tensor in features.items():
        assert tensor.dtype.name == FEATURES[name].dtype


def test_eager_tf_function_and_tf_data_agree(tiny_tokenizer):
    first, second = ["the unaffable a", "", "b, c."], ["playing", "the a b c d", "c"]
    expected = as_lists(pack(tiny_tokenizer, first, second, max_sequence_length=9))
    assert expected["token_ids"] == [
        [2, 10, 5, 6, 7, 3, 8, 9, 3],
        [2, 3, 10, 11, 12, 13, 14, 3, 0],
        [2, 12, 15, 13, 16, 3, 13, 3, 0],
    ]

    def packed(a, b):
        return pack(tiny_tokenizer, a, b, max_sequence_length=9)

    spec = tf.TensorSpec([None], tf.string)
    assert as_lists(tf.function(packed, input_signature=[spec, spec])(first, second)) == expected
    dataset = tf.data.Dataset.from_tensor_slices((first, second)).batch(3).map(packed)
    assert as_lists(next(iter(dataset))) == expected


def test_a_fixed_length_is_a_static_shape(tiny_tokenizer):
    dataset = tf.data.Dataset.from_tensor_slices(["a", "b", "the a"]).batch(2, drop_remainder=True)
    dataset = dataset.map(lambda texts: pack(tiny_tokenizer, texts, max_sequence_length=5, pad_to_length=11))
    assert {name: tuple(spec.shape) for name, spec in dataset.element_spec.items()} == {
        "token_ids": (2, 11),
        "segment_ids": (2, 11),
        "padding_mask": (2, 11),
    }


@pytest.mark.parametrize("texts", [[], ["", ""]], ids=["no rows", "empty rows"])
def test_batches_without_pieces_hold_special_tokens_only(tiny_tokenizer, texts):
    features = pack(tiny_tokenizer, texts, texts, max_sequence_length=6)
    assert features["token_ids"].numpy().tolist() == [[2, 3, 3]] * len(texts)
    assert features["token_ids"].shape == (len(texts), 3)


@pytest.mark.parametrize(
    ("second", "lengths", "message"),
    [
        (None, {"max_sequence_length": 2}, "max_sequence_length is 2; expected 3 or more"),
        ([[7]], {"max_sequence_length": 4}, "max_sequence_length is 4; expected 5 or more"),
        (None, {"max_sequence_length": 7, "pad_to_length": 6}, "pad_to_length is 6, below max_sequence_length 7"),
    ],
)
def test_lengths_without_room_are_refused(second, lengths, message):
    with pytest.raises(InputError, match=message):
        pack_tokens(ragged([[7, 8]]), None if second is None else ragged(second), **IDS, **lengths)


def test_one_second_text_is_never_spread_over_a_batch():
    with pytest.raises(tf.errors.InvalidArgumentError):
        pack_tokens(ragged([[7], [8], [7]]), ragged([[8]]), **IDS, max_sequence_length=9)
