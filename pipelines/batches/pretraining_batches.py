"""Records to `tf.data` batches for pretraining, with masks drawn as they are read."""

import dataclasses
import itertools
import os

import tensorflow as tf

from bert_keras.checks import check_integer
from bert_keras.errors import InputError
from bert_keras.pipelines.batches.batch_share import WHOLE_BATCH, BatchShare
from bert_keras.pipelines.batches.epochs import Epochs
from bert_keras.pipelines.batches.masking import (
    BERT_REPLACE_RATES,
    MaskingTokens,
    check_masking,
    default_max_predictions,
    mask_tokens,
)
from bert_keras.pipelines.batches.record_features import pad_records, sentence_labels
from bert_keras.pipelines.batches.record_order import ShardedRecords
from bert_keras.pipelines.batches.seeds import check_seed, example_seeds
from bert_keras.pipelines.records import parse_records, read_manifest, shard_paths
from bert_keras.pipelines.text.autograph import without_autograph

MASKINGS = ("dynamic", "static")


@without_autograph
def make_pretraining_batches(
    folder: str | os.PathLike,
    tokenizer,
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
    """Returns batches for masked words and, if the records have labels for it, the order of sentences.

    The batches are a pure function of the records and the arguments: the number of cores or a global random seed
    change nothing. A row's masks depend on its number in the records, the seed and the epoch, not on its place in the
    order. Shards come in a random order, eight are read side by side, and rows are shuffled in windows of 65,536.

    Args:
        folder: what `records.write_records` published.
        tokenizer: the `BertTokenizer` the records were made with.
        batch_size: B.
        split: "train" or "held_out".
        seed: decides order and masks, 0 to 2**31 - 1.
        epochs: how often the rows are read; `None`: without end.
        first_batch: begin with this batch, counted from 0 over all epochs, as if those before had been read.
        masking: "dynamic", new masks in every epoch (RoBERTa); "static", a row has the same masks for ever, as BERT had
            with `make-records --duplicates 10`.
        mask_unit, mask_rate, replace_rates: see `masking.mask_tokens`.
        max_predictions: M, the masked slots of a row. Default: 20 for 128 tokens, 77 for 512 (`mask_rate`, rounded up).
        max_sequence_length: what the model was planned for, to be checked: the records' own is S.
        shuffle: whether to change the order; otherwise rows come as they were written.
        drop_remainder: leave out what does not fill a batch at the end of an epoch.
        share: which rows of each batch to read, where several workers or replicas train together; each element is
            then one replica's part of a batch. It needs `drop_remainder`.
        check_shards: whether to compare the shards with their hashes first.

    Returns:
        `(features, labels)`, with static shapes where `drop_remainder` holds: `token_ids`, `segment_ids`,
        `padding_mask` `(B, S)`, `mask_positions` `(B, M)`; `mask_ids` and `mask_weights` `(B, M)`. With sentence labels
        `next_sentence_labels` `(B,)`. Packed records add `pack_ids` `(B, S)` and, with sentence labels, `pack_starts`
        `(B, K)` and `next_sentence_weights` `(B, K)`, and their `next_sentence_labels` are `(B, K)`.

    Raises:
        InputError: the records are damaged, of another tokenizer or of another length, there are too few for
            one batch, or a setting is out of range.

    Example:
        >>> batches = make_pretraining_batches("records", tokenizer, batch_size=32, epochs=None)
        >>> model.fit(batches, steps_per_epoch=1000)
    """
    check_integer("batch_size", batch_size)
    if epochs is not None:
        check_integer("epochs", epochs)
    if masking not in MASKINGS:
        raise InputError(f"masking is {masking!r}; expected one of {', '.join(MASKINGS)}")
    check_masking(1 if max_predictions is None else max_predictions, mask_rate, mask_unit, replace_rates)
    check_seed(seed)
    manifest = read_manifest(folder, tokenizer=tokenizer, checked_splits=[split] if check_shards else ())
    length = _checked_length(folder, manifest["max_sequence_length"], max_sequence_length)
    rows_an_element = _rows_an_element(share, batch_size, drop_remainder)
    plan = Epochs(_batches_an_epoch(folder, manifest, split, batch_size, drop_remainder), epochs, first_batch)
    rows = _sharded_rows(folder, manifest, split, seed)
    prepare = _Preparation(
        tokens=MaskingTokens.from_tokenizer(tokenizer),
        pad_id=tokenizer.pad_id,
        max_sequence_length=length,
        max_examples=manifest["max_examples_per_sequence"] if manifest["packed"] else None,
        has_sentence_labels=manifest["sentence_objective"] != "none",
        batch_size=rows_an_element,
        seed=seed,
        fixed_epoch=0 if masking == "static" else None,
        mask_settings={
            "max_predictions": max_predictions or default_max_predictions(length, mask_rate),
            "mask_rate": mask_rate,
            "unit": mask_unit,
            "replace_rates": replace_rates,
        },
    )

    def batches_of(epoch: tf.Tensor, passed_over: tf.Tensor) -> tf.data.Dataset:
        skip = passed_over * batch_size
        if shuffle:
            batches = rows.shuffled(epoch, skip).rebatch(batch_size, drop_remainder)
        else:
            batches = rows.in_order(skip).batch(batch_size, drop_remainder)
        if share != WHOLE_BATCH:
            own = share.worker_slice(batch_size)
            batches = batches.map(lambda *columns: tuple(column[own] for column in columns)).rebatch(rows_an_element)
        return batches.map(lambda numbers, serialized: (epoch, numbers, serialized))

    dataset = plan.read(batches_of).map(prepare, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    num_elements = plan.num_batches * (1 if epochs is None else share.num_replicas)
    return dataset.apply(tf.data.experimental.assert_cardinality(num_elements)).prefetch(tf.data.AUTOTUNE)


@dataclasses.dataclass(frozen=True, eq=False)
class _Preparation:
    """Makes serialized rows a batch. `max_examples` is None unless rows are packed."""

    tokens: MaskingTokens
    pad_id: int
    max_sequence_length: int
    max_examples: int | None
    has_sentence_labels: bool
    batch_size: int | None
    seed: int
    fixed_epoch: int | None
    mask_settings: dict

    def __call__(self, epoch: tf.Tensor, numbers: tf.Tensor, serialized: tf.Tensor) -> tuple[dict, dict]:
        rows = parse_records(tf.ensure_shape(serialized, [self.batch_size]))
        max_examples = self.max_examples or 1
        features = pad_records(
            rows, max_sequence_length=self.max_sequence_length, max_examples=max_examples, pad_id=self.pad_id
        )
        seeds = example_seeds(self.seed, epoch if self.fixed_epoch is None else self.fixed_epoch, numbers)
        features, labels = mask_tokens(features, self.tokens, seeds=seeds, **self.mask_settings)
        if self.has_sentence_labels:
            labels |= sentence_labels(rows, max_examples=max_examples)
        if self.max_examples is None:
            features, labels = _of_single_examples(features, labels)
        elif not self.has_sentence_labels:
            del features["pack_starts"]
        return tf.nest.map_structure(self._with_batch_size, (features, labels))

    def _with_batch_size(self, tensor: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(tensor, [self.batch_size, *tensor.shape[1:]])


def _of_single_examples(features: dict, labels: dict) -> tuple[dict, dict]:
    """Leaves out what only packed rows need; the labels of their only examples become `(B,)`."""
    features = {name: value for name, value in features.items() if name not in ("pack_ids", "pack_starts")}
    labels = {name: value for name, value in labels.items() if name != "next_sentence_weights"}
    if "next_sentence_labels" in labels:
        labels["next_sentence_labels"] = labels["next_sentence_labels"][:, 0]
    return features, labels


def _sharded_rows(folder, manifest: dict, split: str, seed: int) -> ShardedRecords:
    counts = [shard["num_records"] for shard in manifest["shards"]]
    first_numbers = [0, *itertools.accumulate(counts)][:-1]
    of_split = [shard["split"] == split for shard in manifest["shards"]]
    return ShardedRecords(
        shard_paths(folder, manifest, split),
        list(itertools.compress(first_numbers, of_split)),
        list(itertools.compress(counts, of_split)),
        seed,
    )


def _checked_length(folder, length: int, expected: int | None) -> int:
    if expected not in (None, length):
        raise InputError(
            f"{folder} holds rows of {length} tokens; expected {expected}: write records of that length with "
            f"make-records --max-sequence-length {expected}, or set max_sequence_length to {length}"
        )
    return length


def _rows_an_element(share: BatchShare, batch_size: int, drop_remainder: bool) -> int | None:
    """Returns the rows of each element of the dataset; None where the last one may have fewer."""
    if share != WHOLE_BATCH and not drop_remainder:
        raise InputError("a share of each batch was asked for, and batches that are not full: set drop_remainder")
    return share.sequences_per_replica(batch_size) if drop_remainder else None


def _batches_an_epoch(folder, manifest: dict, split: str, batch_size: int, drop_remainder: bool) -> int:
    shard_paths(folder, manifest, split)  # raises if there is no such split
    num_records = sum(shard["num_records"] for shard in manifest["shards"] if shard["split"] == split)
    if not num_records:
        raise InputError(
            f"{folder} holds no {split} rows: write records of more text, or with a larger share "
            "(make-records --held-out-rate)"
        )
    if drop_remainder and num_records < batch_size:
        raise InputError(
            f"{folder} holds {num_records} {split} rows, fewer than one batch of {batch_size}: lower the batch size, or "
            "write records of more text"
        )
    return num_records // batch_size if drop_remainder else -(-num_records // batch_size)
