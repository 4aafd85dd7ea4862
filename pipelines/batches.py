"""Labelled texts to `tf.data` batches, ready for `model.fit`."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.pipelines.batch_share import WHOLE_BATCH, BatchShare
from bert_keras.pipelines.epochs import Epochs, check_counts
from bert_keras.pipelines.packing import check_lengths, pack
from bert_keras.pipelines.seeds import check_seed, example_seeds, random_bits
from bert_keras.pipelines.tokenizer import BertTokenizer, text_array

_TEXT_ORDER = 7  # a draw of an example; masking and rows of records have 0 to 6


def classification_batches(
    texts: Sequence[str],
    labels: Sequence[int] | None,
    tokenizer: BertTokenizer,
    *,
    batch_size: int,
    max_sequence_length: int,
    seed: int = 0,
    shuffle: bool = False,
    epochs: int | None = 1,
    first_batch: int = 0,
    fill_batches: bool = False,
    share: BatchShare = WHOLE_BATCH,
) -> tf.data.Dataset:
    """Returns batches of texts and their class numbers, each padded to its own longest text.

    They are a pure function of the arguments: the order of an epoch depends on the seed and the epoch alone.

    Args:
        texts: all texts, kept in memory.
        labels: a class number for each text, or `None`: the dataset then gives features only.
        tokenizer: a `BertTokenizer`.
        batch_size: B; the last batch of an epoch can be smaller.
        max_sequence_length: longer texts are cut to this many pieces, special tokens counted.
        seed: decides the order, when shuffled.
        shuffle: draw a new order for each epoch.
        epochs: how often the texts are read; `None`: without end.
        first_batch: begin with this batch, counted from 0 over all epochs, as if those before had been read.
        fill_batches: fill the last batch of an epoch with rows of weight 0, so that all have B rows.
        share: which rows of each batch to read, where several workers or replicas train together; each element is
            then one replica's part of a batch. It needs `fill_batches`.

    Returns:
        `(features, labels)`: `token_ids`, `segment_ids`, `padding_mask` `(B, S)` and class numbers `(B,)` int32; with
        `fill_batches` also weights `(B,)` float32, 1 = a text, 0 = a row that only fills the batch.

    Raises:
        InputError: there are no texts, a label is not an integer, the numbers of texts and labels
            differ, or a setting is out of range.
    """
    check_counts(batch_size=batch_size)
    check_seed(seed)
    check_lengths(max_sequence_length)
    texts = text_array(texts)
    if not len(texts):
        raise InputError("there are no texts to make batches of; expected one or more")
    if share != WHOLE_BATCH and not fill_batches:
        raise InputError("a share of each batch was asked for, and batches that are not full: set fill_batches")
    share.rows_a_replica(batch_size)  # raises where the batch cannot be divided
    columns = [tf.constant(texts)] + ([] if labels is None else [tf.constant(_class_numbers(labels, len(texts)))])
    source = _TextBatches(columns, tokenizer, batch_size, max_sequence_length, seed, shuffle, fill_batches, share)
    plan = Epochs(-(-len(texts) // batch_size), epochs, first_batch)
    dataset = plan.read(lambda epoch, passed_over: source.numbers_of(epoch, passed_over * batch_size))
    dataset = dataset.map(source.batch_of, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    if share != WHOLE_BATCH:
        dataset = dataset.flat_map(source.parts_of)
    return dataset.prefetch(tf.data.AUTOTUNE)


@dataclasses.dataclass(frozen=True, eq=False)
class _TextBatches:
    """Texts, and labels if there are any, in `columns`; which of them make a batch, and what a batch of them is."""

    columns: list[tf.Tensor]
    tokenizer: BertTokenizer
    batch_size: int
    max_sequence_length: int
    seed: int
    shuffle: bool
    fill_batches: bool
    share: BatchShare

    def numbers_of(self, epoch: tf.Tensor, num_skipped: tf.Tensor) -> tf.data.Dataset:
        """Returns the numbers of the texts of each batch of an epoch (B,); -1 fills the last one."""
        num_texts = len(self.columns[0])
        numbers = tf.range(num_texts, dtype=tf.int64)
        if self.shuffle:
            bits = random_bits(example_seeds(self.seed, epoch, numbers), _TEXT_ORDER, 1)
            numbers = tf.cast(tf.argsort(bits[:, 0]), tf.int64)
        numbers = numbers[num_skipped:]
        if self.fill_batches:
            numbers = tf.pad(numbers, [[0, -num_texts % self.batch_size]], constant_values=-1)
        return tf.data.Dataset.from_tensor_slices(numbers).batch(self.batch_size, drop_remainder=self.fill_batches)

    def batch_of(self, numbers: tf.Tensor):
        """Returns the features of these texts, with their labels and weights if there are any."""
        is_text = numbers >= 0
        texts, *labels = (tf.gather(column, tf.maximum(numbers, 0)) for column in self.columns)
        features = pack(self.tokenizer, tf.where(is_text, texts, ""), max_sequence_length=self.max_sequence_length)
        if not labels:
            return features
        return (features, *labels, tf.cast(is_text, tf.float32)) if self.fill_batches else (features, *labels)

    def parts_of(self, *batch) -> tf.data.Dataset:
        """Cuts a whole batch, so that all replicas pad to the same length and draw what one device would."""
        own, replicas = self.share.rows_of_worker(self.batch_size), self.share.num_replicas
        rows = self.share.rows_a_replica(self.batch_size)
        cut = tf.nest.map_structure(
            lambda values: tf.reshape(values[own], [replicas, rows, *tf.unstack(tf.shape(values)[1:])]), batch
        )
        return tf.data.Dataset.from_tensor_slices(cut if len(cut) > 1 else cut[0])


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
