"""Batches of labelled texts for `model.fit`: padded to their own longest, text and label together."""

import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.batches import classification_batches

WORDS = ["the", "unaffable", "playing", "a", "b", "c", "d"]
TEXTS = ["a", "the unaffable playing a", "b c", "", "d d d d d d d d d d"]


def test_class_batches_keep_all_texts_and_pad_to_their_own_longest(tiny_tokenizer):
    dataset = classification_batches(TEXTS, [3, 0, 1, 2, 1], tiny_tokenizer, batch_size=2, max_sequence_length=8)
    features, labels = zip(*dataset.as_numpy_iterator(), strict=True)
    assert [batch["token_ids"].shape for batch in features] == [(2, 8), (2, 4), (1, 8)]
    assert features[1]["token_ids"].tolist() == [[2, 12, 13, 3], [2, 3, 0, 0]]
    assert features[1]["padding_mask"].tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]
    assert features[2]["token_ids"].tolist() == [[2, *[14] * 6, 3]]
    assert [batch.tolist() for batch in labels] == [[3, 0], [1, 2], [1]]
    assert {batch.dtype for batch in labels} == {np.dtype(np.int32)}


def test_without_labels_batches_are_features_alone(tiny_tokenizer):
    dataset = classification_batches(TEXTS, None, tiny_tokenizer, batch_size=3, max_sequence_length=8)
    assert set(dataset.element_spec) == {"token_ids", "segment_ids", "padding_mask"}


def test_shuffled_class_batches_keep_text_and_label_together(tiny_tokenizer):
    texts = [word for word in WORDS for _ in range(9)]
    labels = np.repeat(np.arange(len(WORDS)), 9)
    settings = {"batch_size": 4, "max_sequence_length": 8, "shuffle": True}

    def read(seed):
        dataset = classification_batches(texts, labels, tiny_tokenizer, seed=seed, **settings)
        return [
            (ids.tolist()[1], label)
            for f, ls in dataset.as_numpy_iterator()
            for ids, label in zip(f["token_ids"], ls, strict=True)
        ]

    pairs = read(1)
    assert sorted(label for _, label in pairs) == labels.tolist()
    assert [label for _, label in pairs] != labels.tolist()
    assert len(set(pairs)) == len(WORDS)
    assert read(1) == pairs
    assert read(2) != pairs


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": [0, 1]}, "there are 5 texts and 2 labels"),
        ({"labels": [0, 1, "a", 1, 1]}, "label 2 is 'a', a str; expected a class number from 0: number the classes"),
        ({"labels": [0, 1.0, 1, 1, 1]}, r"label 1 is 1\.0, a float"),
        ({"labels": [0, 1, 1, True, 1]}, "label 3 is True, a bool"),
        ({"labels": [0, 1, 1, 1, -100]}, "label 4 is -100; expected a class number from 0"),
        ({"texts": [], "labels": []}, "there are no texts"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"max_sequence_length": 2}, "max_sequence_length is 2; expected 3 or more"),
        ({"texts": [*TEXTS[:4], 7]}, "text 4 is 7, a int"),
    ],
)
def test_texts_and_labels_that_cannot_be_used_are_refused_at_once(tiny_tokenizer, changes, message):
    settings = {"texts": TEXTS, "labels": [0, 1, 2, 3, 4], "batch_size": 2, "max_sequence_length": 8, **changes}
    with pytest.raises(InputError, match=message):
        classification_batches(tokenizer=tiny_tokenizer, **settings)
