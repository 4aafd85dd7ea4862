"""Records and labelled texts to `tf.data` batches, ready for `model.fit`."""

import os
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.pipelines.masking import check_masking, mask_tokens
from bert_keras.pipelines.packing import check_lengths, pack, pack_tokens
from bert_keras.pipelines.records import parse_records, read_manifest, shard_paths
from bert_keras.pipelines.seeds import check_seed, example_seeds
from bert_keras.pipelines.tokenizer import BertTokenizer, text_array

_SHUFFLE_WINDOW = 65_536  # examples shuffled among themselves: 15-30 MB of records at length 128


def pretraining_batches(
    folder: str | os.PathLike,
    tokenizer: BertTokenizer,
    *,
    batch_size: int,
    seed: int = 0,
    epochs: int | None = 1,
    max_predictions: int = 20,
    mask_rate: float = 0.15,
    shuffle: bool = True,
) -> tf.data.Dataset:
    """Returns batches for masked words and next sentences, with new masks and a new order in every epoch.

    The batches are a pure function of the records and the arguments: the number of shards, of cores, or
    a global random seed change nothing. An epoch is `num_examples // batch_size` batches; what does not fill
    a batch is left out. Beyond 65,536 examples the order is shuffled in windows of so many.

    Args:
        folder: what `records.write_records` published.
        tokenizer: the tokenizer the records were made with.
        batch_size: B.
        seed: decides order and masks.
        epochs: how often the records are read; `None`: without end.
        max_predictions: M, the masked slots of an example.
        mask_rate: the share of ordinary pieces to mask.
        shuffle: whether to change the order of the examples.

    Returns:
        `(features, labels)` with static shapes: `token_ids`, `segment_ids`, `padding_mask` `(B, S)` and
        `mask_positions` `(B, M)`; `mask_ids`, `mask_weights` `(B, M)` and `next_sentence_labels` `(B,)`.

    Raises:
        InputError: the records are damaged or of another tokenizer, or too few for one batch, or a
            setting is out of range.
    """
    _check_counts(batch_size=batch_size, epochs=1 if epochs is None else epochs)
    check_masking(max_predictions, mask_rate)
    check_seed(seed)
    manifest = read_manifest(folder, tokenizer=tokenizer)
    num_batches = manifest["num_examples"] // batch_size
    if num_batches == 0:
        raise InputError(
            f"{folder} holds {manifest['num_examples']} examples, fewer than one batch of {batch_size}: "
            "lower the batch size, or write records of more text"
        )
    records = _numbered_records(shard_paths(folder, manifest))
    length = manifest["max_sequence_length"]

    def epoch_batches(epoch: tf.Tensor) -> tf.data.Dataset:
        ordered = _shuffled(records, seed, epoch) if shuffle else records
        batches = ordered.batch(batch_size, drop_remainder=True)
        return batches.map(lambda indices, serialized: (example_seeds(seed, epoch, indices), serialized))

    def prepare(seeds: tf.Tensor, serialized: tf.Tensor) -> tuple[dict, dict]:
        first, second, is_random = parse_records(serialized)
        special = {"cls_id": tokenizer.cls_id, "sep_id": tokenizer.sep_id, "pad_id": tokenizer.pad_id}
        features = pack_tokens(first, second, **special, max_sequence_length=length, pad_to_length=length)
        features, labels = mask_tokens(
            features,
            seeds=seeds,
            max_predictions=max_predictions,
            mask_rate=mask_rate,
            mask_id=tokenizer.mask_id,
            vocabulary_size=tokenizer.vocabulary_size,
            special_ids=tokenizer.special_ids,
        )
        return features, {**labels, "next_sentence_labels": is_random}

    all_epochs = tf.data.Dataset.counter() if epochs is None else tf.data.Dataset.range(epochs)
    total = tf.data.INFINITE_CARDINALITY if epochs is None else num_batches * epochs
    dataset = all_epochs.flat_map(epoch_batches).map(prepare, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return dataset.apply(tf.data.experimental.assert_cardinality(total)).prefetch(tf.data.AUTOTUNE)


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


def _numbered_records(paths: list[str]) -> tf.data.Dataset:
    """Yields (index, serialized example) in the order of writing: a record of each shard in turn."""
    files = tf.data.Dataset.from_tensor_slices(paths)
    records = files.interleave(tf.data.TFRecordDataset, cycle_length=len(paths), block_length=1)
    return records.enumerate()


def _shuffled(records: tf.data.Dataset, seed: int, epoch: tf.Tensor) -> tf.data.Dataset:
    """Shuffles window by window. `Dataset.shuffle` would let a global random seed change the order."""

    def reorder(indices: tf.Tensor, serialized: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        keys = tf.random.stateless_uniform(tf.shape(indices), example_seeds(seed, epoch, indices[:1])[0])
        order = tf.argsort(keys)
        return tf.gather(indices, order), tf.gather(serialized, order)

    return records.batch(_SHUFFLE_WINDOW).map(reorder).unbatch()


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
