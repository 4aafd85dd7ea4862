"""Records to `tf.data` batches for pretraining: their order, their features, and masks drawn while they are read.

The order is new in each epoch, reproducible from the seed, and can start anywhere.
"""

import dataclasses
import itertools
import os
from collections.abc import Sequence

import tensorflow as tf

from bert_keras.checks import check_integer
from bert_keras.errors import InputError
from bert_keras.pipelines.batches.epochs import (
    WHOLE_BATCH,
    BatchShare,
    Epochs,
    check_seed,
    draw_order,
    make_example_seeds,
)
from bert_keras.pipelines.batches.masking import (
    BERT_REPLACE_RATES,
    MaskingTokens,
    check_masking,
    get_default_max_predictions,
    mask_tokens,
)
from bert_keras.pipelines.records.manifest import list_shard_paths, read_manifest
from bert_keras.pipelines.records.record import parse_records
from bert_keras.pipelines.text.graph.text_batches import without_autograph
from bert_keras.pipelines.text.tokenizer import BertTokenizer

_MASKINGS = ("dynamic", "static")
_NUM_INTERLEAVED = 8  # shards read in turn, one record of each
_SHUFFLE_WINDOW = 65_536  # records shuffled together: 15-30 MB of 128 tokens each; three windows are in memory
_SHARD_ORDER, _RECORD_ORDER = 5, 6  # draws of an example; masking has 0 to 4


@without_autograph
def make_pretraining_batches(
    folder: str | os.PathLike,
    tokenizer: BertTokenizer,
    *,
    batch_size: int,
    split: str = "train",
    seed: int = 0,
    epochs: int | None = 1,
    first_batch: int = 0,
    masking: str = "dynamic",
    mask_unit: str = "token",
    mask_rate: float = 0.15,
    replace_rates: tuple[float, float] = BERT_REPLACE_RATES,
    max_predictions: int | None = None,
    max_sequence_length: int | None = None,
    shuffle: bool = True,
    drop_remainder: bool = True,
    share: BatchShare = WHOLE_BATCH,
    check_shards: bool = True,
) -> tf.data.Dataset:
    """Make batches for masked language modelling and, if the records have sentence labels, sentence prediction.

    Batches are a pure function of the records and the arguments: the number of cores and the global random seed have
    no effect. The masks of a record depend on its number in the folder, the seed and the epoch, but not on the order.
    Shards are shuffled and read eight at a time; their records are shuffled in windows of 65,536.

    Args:
        folder: the records folder.
        tokenizer: the `BertTokenizer` that made the records.
        batch_size: B.
        split: "train" or "held_out".
        seed: determines order and masks, from 0 to 2**31 - 1.
        epochs: number of passes over the records; None: endless.
        first_batch: index of the first batch to read, counted from 0 over all epochs; earlier batches are skipped.
        masking: "dynamic": new masks in every epoch (RoBERTa); "static": the same masks in every epoch, as in BERT,
            which is meant for records of `make-records --duplicates 10`.
        mask_unit, mask_rate, replace_rates: see `mask_tokens`.
        max_predictions: M, the number of masked positions per sequence. Default: 20 for 128 tokens, 77 for 512
            (`mask_rate`, rounded up).
        max_sequence_length: the expected length of the records, for a check. S is always the length of the records.
        shuffle: whether to shuffle; otherwise records keep their order.
        drop_remainder: whether to drop the records that do not fill a batch at the end of an epoch.
        share: the part of each batch to read when several workers or replicas train together; each element is then
            the part of one replica. Requires `drop_remainder`.
        check_shards: whether to compare the shards with their SHA-256 first.

    Returns:
        `(features, labels)`, with static shapes if `drop_remainder`. Features: `token_ids`, `segment_ids`,
        `padding_mask` `(B, S)` (1 = real token, 0 = padding), `mask_positions` `(B, M)`. Labels: `mask_ids` and
        `mask_weights` `(B, M)`; with sentence labels `next_sentence_labels` `(B,)`. Packed records add the features
        `pack_ids` `(B, S)` and, with sentence labels, `pack_starts` `(B, K)` and the labels `next_sentence_weights`
        `(B, K)`; their `next_sentence_labels` are `(B, K)`.

    Raises:
        InputError: the records are damaged, of another tokenizer or of another length, too few for one batch, or a
            setting is out of range.

    Example:
        >>> tokenizer = bk.BertTokenizer.from_checkpoint("demo/records")
        >>> batches = make_pretraining_batches("demo/records", tokenizer, batch_size=32, epochs=None)
        >>> features, labels = next(iter(batches))  # or model.fit(batches, steps_per_epoch=1000)
        >>> tuple(features["token_ids"].shape), tuple(labels["mask_ids"].shape)
        ((32, 64), (32, 10))
    """
    check_integer("batch_size", batch_size)
    check_seed(seed)
    if masking not in _MASKINGS:
        raise InputError(f"masking is {masking!r}; expected one of {', '.join(_MASKINGS)}")
    check_masking(1 if max_predictions is None else max_predictions, mask_rate, mask_unit, replace_rates)
    manifest = read_manifest(folder, tokenizer=tokenizer, checked_splits=[split] if check_shards else ())
    length = manifest["max_sequence_length"]
    if max_sequence_length not in (None, length):
        raise InputError(
            f"{folder} has records of {length} tokens; expected {max_sequence_length}: make records of that length "
            f"with make-records --max-sequence-length {max_sequence_length}, or set max_sequence_length to {length}"
        )
    if share != WHOLE_BATCH and not drop_remainder:
        raise InputError("share is a part of each batch, which requires full batches: set drop_remainder=True")
    per_element = share.sequences_per_replica(batch_size) if drop_remainder else None  # the last one may be smaller
    records = _open_shards(folder, manifest, split, seed)  # raises if there is no such split
    num_batches = _count_batches(folder, manifest, split, batch_size, drop_remainder)
    batch_order = Epochs(num_batches, epochs, first_batch)

    def read_epoch(epoch: tf.Tensor, num_skipped: tf.Tensor) -> tf.data.Dataset:
        skip = num_skipped * batch_size
        if shuffle:
            batches = records.shuffled(epoch, skip).rebatch(batch_size, drop_remainder)
        else:
            batches = records.in_order(skip).batch(batch_size, drop_remainder)
        if share != WHOLE_BATCH:
            own = share.worker_slice(batch_size)
            batches = batches.map(lambda *columns: tuple(column[own] for column in columns)).rebatch(per_element)
        return batches.map(lambda numbers, serialized: (epoch, numbers, serialized))

    mask_settings = {
        "max_predictions": max_predictions or get_default_max_predictions(length, mask_rate),
        "mask_rate": mask_rate,
        "unit": mask_unit,
        "replace_rates": replace_rates,
    }
    tokens, has_new_masks = MaskingTokens.from_tokenizer(tokenizer), masking == "dynamic"
    prepare = _Preparation(manifest, tokens, tokenizer.pad_id, per_element, seed, has_new_masks, mask_settings)
    dataset = batch_order.read(read_epoch).map(prepare, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    num_elements = batch_order.num_batches * (1 if epochs is None else share.num_replicas)
    return dataset.apply(tf.data.experimental.assert_cardinality(num_elements)).prefetch(tf.data.AUTOTUNE)


@dataclasses.dataclass(frozen=True, eq=False)
class _Preparation:
    """Function from a batch of serialized records to features and labels.

    `batch_size` is None if the last batch may be smaller; `has_new_masks`: masks are new in every epoch.
    """

    manifest: dict
    tokens: MaskingTokens
    pad_id: int
    batch_size: int | None
    seed: int
    has_new_masks: bool
    mask_settings: dict

    def __call__(self, epoch: tf.Tensor, numbers: tf.Tensor, serialized: tf.Tensor) -> tuple[dict, dict]:
        records = parse_records(tf.ensure_shape(serialized, [self.batch_size]))
        is_packed, has_sentence_labels = self.manifest["packed"], self.manifest["sentence_objective"] != "none"
        max_examples = self.manifest["max_examples_per_sequence"] if is_packed else 1
        length = self.manifest["max_sequence_length"]
        features = pad_records(records, max_sequence_length=length, max_examples=max_examples, pad_id=self.pad_id)
        seeds = make_example_seeds(self.seed, epoch if self.has_new_masks else 0, numbers)
        features, labels = mask_tokens(features, self.tokens, seeds=seeds, **self.mask_settings)
        if has_sentence_labels:
            labels |= pad_sentence_labels(records, max_examples=max_examples)
            if not is_packed:  # one example, so the labels become `(B,)`
                labels["next_sentence_labels"] = labels["next_sentence_labels"][:, 0]
                del labels["next_sentence_weights"]
        if not is_packed:
            del features["pack_ids"]
        if not (is_packed and has_sentence_labels):
            del features["pack_starts"]
        return tf.nest.map_structure(
            lambda tensor: tf.ensure_shape(tensor, [self.batch_size, *tensor.shape[1:]]), (features, labels)
        )


def _open_shards(folder: str | os.PathLike, manifest: dict, split: str, seed: int) -> "ShardedRecords":
    counts = [shard["num_records"] for shard in manifest["shards"]]
    numbered = zip(itertools.accumulate(counts, initial=0), manifest["shards"], strict=False)
    first_numbers = [number for number, shard in numbered if shard["split"] == split]
    counts = [shard["num_records"] for shard in manifest["shards"] if shard["split"] == split]
    return ShardedRecords(list_shard_paths(folder, manifest, split), first_numbers, counts, seed)


def _count_batches(folder: str | os.PathLike, manifest: dict, split: str, batch_size: int, drop_remainder: bool) -> int:
    """Return the number of batches per epoch."""
    num_records = sum(shard["num_records"] for shard in manifest["shards"] if shard["split"] == split)
    if not num_records:
        raise InputError(
            f"{folder} has no {split} records; expected at least one: make records of more text, or with a larger "
            "share (make-records --held-out-rate)"
        )
    if drop_remainder and num_records < batch_size:
        raise InputError(
            f"{folder} has {num_records} {split} records, fewer than one batch of {batch_size}: lower the batch size, "
            "or make records of more text"
        )
    return num_records // batch_size if drop_remainder else -(-num_records // batch_size)


class ShardedRecords:
    """The records of a split, numbered through all shards of the folder.

    Args:
        paths: the shards of the split.
        first_numbers: the number of each shard's first record.
        counts: the number of records in each shard.
        seed: determines the order of every epoch.
    """

    def __init__(self, paths: Sequence[str], first_numbers: Sequence[int], counts: Sequence[int], seed: int):
        self._paths = tf.constant(list(paths), tf.string)
        self._first_numbers = tf.constant(list(first_numbers), tf.int64)
        self._counts = tf.constant(list(counts), tf.int64)
        self._seed = seed

    def in_order(self, skip: tf.Tensor) -> tf.data.Dataset:
        """Return `(number, serialized record)` of all records after the first `skip`, shard by shard."""
        return self._read(tf.range(tf.size(self._counts)), 1, skip)

    def shuffled(self, epoch: tf.Tensor, skip: tf.Tensor) -> tf.data.Dataset:
        """Return batches of any size of `(number, serialized record)`: the order of `epoch` without the first `skip`.

        Shards are read in a random order, several at a time; their records are then shuffled window by window.
        `Dataset.shuffle` is not used: a global random seed would change its order, and it cannot start in the middle.
        """
        shards = tf.range(tf.size(self._counts, tf.int64))
        order = draw_order(self._seed, epoch, shards, _SHARD_ORDER)
        first_of_window = skip // _SHUFFLE_WINDOW * _SHUFFLE_WINDOW
        windows = self._read(order, _NUM_INTERLEAVED, first_of_window).batch(_SHUFFLE_WINDOW)

        def reorder(window: tf.Tensor, records: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
            numbers, serialized = records
            order = draw_order(self._seed, epoch, numbers, _RECORD_ORDER)
            order = order[tf.where(window == 0, skip % _SHUFFLE_WINDOW, 0) :]
            return tf.gather(numbers, order), tf.gather(serialized, order)

        return windows.enumerate().map(reorder).prefetch(1)

    def _read(self, order: tf.Tensor, num_interleaved: int, skip: tf.Tensor) -> tf.data.Dataset:
        """Return the records of the shards in `order`, `num_interleaved` shards at a time, without the first `skip`.

        Groups of shards that lie entirely in the skipped part are not opened, so at most one group is read in vain.
        """
        paths, first_numbers, counts = (tf.gather(x, order) for x in (self._paths, self._first_numbers, self._counts))
        group_ends = tf.cumsum(counts)[num_interleaved - 1 :: num_interleaved]
        num_skipped_groups = tf.reduce_sum(tf.cast(group_ends <= skip, tf.int64))
        num_skipped_records = tf.reduce_max(tf.where(group_ends <= skip, group_ends, 0), axis=0)
        shards = tf.data.Dataset.from_tensor_slices((paths, first_numbers)).skip(num_skipped_groups * num_interleaved)

        def read_shard(path: tf.Tensor, first_number: tf.Tensor) -> tf.data.Dataset:
            return tf.data.TFRecordDataset(path).enumerate(first_number)

        def read_group(paths: tf.Tensor, first_numbers: tf.Tensor) -> tf.data.Dataset:
            group = tf.data.Dataset.from_tensor_slices((paths, first_numbers))
            return group.interleave(read_shard, cycle_length=num_interleaved, block_length=1)

        # the maximum over no group at all is the smallest int64
        return shards.batch(num_interleaved).flat_map(read_group).skip(skip - tf.maximum(num_skipped_records, 0))


def pad_records(
    records: dict[str, tf.RaggedTensor], *, max_sequence_length: int, max_examples: int, pad_id: int
) -> dict[str, tf.Tensor]:
    """Pad records to sequences, and mark which segment and packed example each position belongs to.

    Args:
        records: B records from `parse_records`.
        max_sequence_length: S, at least the length of the longest record.
        max_examples: K, at least the number of examples of any record.
        pad_id: id of [PAD].

    Returns:
        `token_ids`, `segment_ids`, `padding_mask` (1 = real token, 0 = padding) and `pack_ids` (0 = padding),
        `(B, S)` int32; `pack_starts` `(B, K)` int32.
    """
    token_ids = records["token_ids"].to_tensor(pad_id, shape=(None, max_sequence_length))
    num_records = tf.shape(token_ids)[0]
    # part 2k is [CLS] A [SEP] of example k, and part 2k + 1 its B [SEP]
    lengths = tf.reshape(records["lengths"].to_tensor(shape=(None, max_examples, 2)), (-1, 2 * max_examples))
    ends = tf.cumsum(lengths, axis=1)
    positions = tf.broadcast_to(tf.range(max_sequence_length), (num_records, max_sequence_length))
    # side="right" skips empty parts, which end where they start; positions after the last part get 2K, the padding
    parts = tf.searchsorted(ends, positions, side="right")
    padding_mask = tf.cast(parts < 2 * max_examples, tf.int32)
    starts = tf.where(lengths > 0, ends - lengths, 0)[:, ::2]
    return {
        "token_ids": token_ids,
        "segment_ids": parts % 2,
        "padding_mask": padding_mask,
        "pack_ids": (parts // 2 + 1) * padding_mask,
        "pack_starts": starts,
    }


def pad_sentence_labels(records: dict[str, tf.RaggedTensor], *, max_examples: int) -> dict[str, tf.Tensor]:
    """Return `next_sentence_labels` `(B, K)` int32 and `next_sentence_weights` `(B, K)` float32 of packed examples."""
    labels = records["sentence_labels"]
    return {
        "next_sentence_labels": labels.to_tensor(shape=(None, max_examples)),
        "next_sentence_weights": tf.sequence_mask(labels.row_lengths(), max_examples, tf.float32),
    }
