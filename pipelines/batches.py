"""Labelled texts to `tf.data` batches, ready for `model.fit`."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.pipelines.packing import check_lengths, pack
from bert_keras.pipelines.seeds import check_seed
from bert_keras.pipelines.tokenizer import BertTokenizer, text_array


def classification_batches(
    texts: Sequence[str],
    labels: Sequence[int] | None,
    tokenizer: BertTokenizer,
    *,
    batch_size: int,
    max_sequence_length: int,
    seed: int = 0,
    shuffle: bool = False,
) -> tf.data.Dataset:
    """Returns batches of texts and their class numbers, each padded to its own longest text.

    Args:
        texts: all texts, kept in memory.
        labels: a class number for each text, or `None`: the dataset then gives features only.
        tokenizer: a `BertTokenizer`.
        batch_size: B; the last batch can be smaller.
        max_sequence_length: longer texts are cut to this many pieces, special tokens counted.
        seed: decides the order, when shuffled.
        shuffle: draw a new order each time the dataset is read.

    Returns:
        `(features, labels)`: `token_ids`, `segment_ids`, `padding_mask` `(B, S)` and class numbers `(B,)` int32.

    Raises:
        InputError: there are no texts, a label is not an integer, the numbers of texts and labels
            differ, or a setting is out of range.
    """
    _check_counts(batch_size=batch_size)
    check_seed(seed)
    check_lengths(max_sequence_length)
    texts = text_array(texts)
    if not len(texts):
        raise InputError("there are no texts to make batches of; expected one or more")
    columns = (texts,) if labels is None else (texts, _class_numbers(labels, len(texts)))
    dataset = tf.data.Dataset.from_tensor_slices(columns)
    if shuffle:
        dataset = dataset.shuffle(len(texts), seed=seed, reshuffle_each_iteration=True)

    def prepare(texts: tf.Tensor, *labels: tf.Tensor):
        features = pack(tokenizer, texts, max_sequence_length=max_sequence_length)
        return (features, *labels) if labels else features

    dataset = dataset.batch(batch_size).map(prepare, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return dataset.prefetch(tf.data.AUTOTUNE)


def _class_numbers(labels: Sequence[int], num_texts: int) -> np.ndarray:
    if len(labels) != num_texts:
        raise InputError(f"there are {num_texts} texts and {len(labels)} labels; expected one label for each text")
    for index, label in enumerate(labels):
        if not isinstance(label, int | np.integer) or isinstance(label, bool):
            raise InputError(
                f"label {index} is {label!r}, a {type(label).__name__}; expected a class number from 0: "
                "number the classes, for example by their place in the sorted list of names"
            )
        if not 0 <= label < 2**31:
            raise InputError(f"label {index} is {label}; expected a class number from 0")
    return np.asarray(labels, np.int32)


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise InputError(f"{name} is {count}; expected 1 or more")
