"""Encoded rows to `tf.data` batches, ready for `model.fit`; if wished rows of like length together."""

import dataclasses
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from bert_keras.checks import check_integer
from bert_keras.errors import InputError
from bert_keras.pipelines.batches.batch_share import WHOLE_BATCH, BatchShare
from bert_keras.pipelines.batches.encoding import IGNORED_LABEL, EncodedSequences
from bert_keras.pipelines.batches.epochs import Epochs
from bert_keras.pipelines.batches.seeds import check_seed, example_seeds, random_bits
from bert_keras.pipelines.text.autograph import without_autograph

# Batches whose rows are sorted by length among themselves, at most; as transformers' group_by_length also a quarter of
# an epoch at most: where 32 batches were sorted whole, 40 % of the pairs of a batch met again in the next epoch.
_BATCHES_SORTED = 50
_ROW_ORDER, _BATCH_ORDER = 7, 8  # draws of an example; masking and rows of records have 0 to 6


@without_autograph
def make_task_batches(
    rows: EncodedSequences,
    labels: np.ndarray | Mapping[str, np.ndarray] | None = None,
    *,
    token_labels: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    batch_size: int,
    group_size: int = 1,
    seed: int = 0,
    shuffle: bool = False,
    sort_by_length: bool = True,
    epochs: int | None = 1,
    first_batch: int = 0,
    fill_batches: bool = False,
    share: BatchShare = WHOLE_BATCH,
) -> tf.data.Dataset:
    """Returns batches of rows, each padded to its own longest row.

    They are a pure function of the arguments: the order of an epoch depends on the seed and the epoch alone. A shuffled
    epoch is drawn anew; then, unless `sort_by_length` is off, sorted by length within stretches of 50 batches, or of a
    quarter of the epoch where that is less, and the batches are drawn anew.

    Args:
        rows: N rows, see `encode`.
        labels: `(N, ...)`, or several such arrays by name.
        token_labels: `(P,)` integers, a label for each token; -100: it does not count.
        weights: `(N,)`, what each row counts in the loss.
        batch_size: B, rows of a batch; one batch of an epoch can be smaller, the last one unless shuffled.
        group_size: so many neighbouring rows stay together in this order, as the two texts of a scored pair must.
        seed: decides the order, when shuffled.
        shuffle: draw a new order for each epoch.
        sort_by_length: put rows of like length together when shuffled, so that little is padding: for models that
            compute it.
        epochs: how often the rows are read; `None`: without end.
        first_batch: begin with this batch, counted from 0 over all epochs, as if those before had been read.
        fill_batches: fill that batch with rows of weight 0, so that all have B rows; without labels nothing tells them.
        share: which rows of each batch to read, where several workers or replicas train together; each element is
            then one replica's part of a batch. It needs `fill_batches`.

    Returns:
        `features`: `token_ids`, `segment_ids`, `padding_mask` `(B, S)` int32; `pooling_mask` too, where prompts are not
        pooled. With labels `(features, labels)`, and
        with `weights` or `fill_batches` besides `(features, labels, weights)`, the last `(B,)` float32. Labels of
        tokens are `(B, S)`, -100 in the padding.

    Raises:
        InputError: there are no rows, numbers do not fit together, or a setting is out of range.
    """
    check_integer("batch_size", batch_size)
    check_integer("group_size", group_size)
    check_seed(seed)
    if not len(rows):
        raise InputError("there are no rows to make batches of; expected one or more")
    if batch_size % group_size or len(rows) % group_size:
        raise InputError(
            f"{len(rows)} rows in batches of {batch_size} cannot be kept in groups of {group_size}: make both multiples"
        )
    if share != WHOLE_BATCH and not fill_batches:
        raise InputError("a share of each batch was asked for, and batches that are not full: set fill_batches")
    if share.sequences_per_replica(batch_size) % group_size:  # raises where the batch cannot be divided
        raise InputError(
            f"a replica gets {share.sequences_per_replica(batch_size)} rows; expected groups of {group_size}"
        )
    order = _Order(rows.lengths, batch_size, group_size, seed, shuffle, sort_by_length, fill_batches)
    table = SequenceTable.from_sequences(rows, labels, token_labels, weights, fill_batches)
    dataset = Epochs(order.num_batches, epochs, first_batch).read(order.numbers_of)
    dataset = dataset.map(table.batch_of, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    if share != WHOLE_BATCH:
        dataset = dataset.flat_map(lambda *batch: _parts(share, batch_size, batch))
    return dataset.prefetch(tf.data.AUTOTUNE)


class _Order:
    """Which rows make which batch of which epoch."""

    def __init__(
        self,
        lengths,
        batch_size: int,
        group_size: int,
        seed: int,
        shuffle: bool,
        sort_by_length: bool,
        fill_batches: bool,
    ):
        self._lengths = tf.constant(lengths.reshape(-1, group_size).max(axis=1), tf.int64)  # of each group
        self._groups_a_batch = batch_size // group_size
        self._group_size = group_size
        self._seed = seed
        self._shuffle = shuffle
        self._sort_by_length = sort_by_length
        self._fill_batches = fill_batches
        self.num_batches = -(-len(self._lengths) // self._groups_a_batch)

    def numbers_of(self, epoch: tf.Tensor, num_skipped: tf.Tensor) -> tf.data.Dataset:
        """Returns the numbers of the rows of each batch of an epoch (B,); -1 fills the last one."""
        groups = self._shuffled(epoch) if self._shuffle else tf.range(len(self._lengths), dtype=tf.int64)
        empty = self.num_batches * self._groups_a_batch - len(self._lengths)
        batches = tf.reshape(tf.pad(groups, [[0, empty]], constant_values=-1), [self.num_batches, -1])
        if self._shuffle:
            batches = tf.gather(batches, self._drawn(epoch, tf.range(self.num_batches), _BATCH_ORDER))
        return tf.data.Dataset.from_tensor_slices(batches[num_skipped:]).map(self._rows_of)

    def _shuffled(self, epoch: tf.Tensor) -> tf.Tensor:
        groups = self._drawn(epoch, tf.range(len(self._lengths)), _ROW_ORDER)
        if not self._sort_by_length:
            return groups
        groups_a_stretch = max(1, min(_BATCHES_SORTED, self.num_batches // 4)) * self._groups_a_batch
        stretches = tf.range(len(self._lengths), dtype=tf.int64) // groups_a_stretch
        keys = stretches * (tf.reduce_max(self._lengths) + 1) + tf.gather(self._lengths, groups)
        return tf.gather(groups, tf.argsort(keys, stable=True))

    def _drawn(self, epoch: tf.Tensor, numbers: tf.Tensor, draw: int) -> tf.Tensor:
        bits = random_bits(example_seeds(self._seed, epoch, numbers), draw, 1)
        return tf.cast(tf.argsort(bits[:, 0]), tf.int64)

    def _rows_of(self, groups: tf.Tensor) -> tf.Tensor:
        if not self._fill_batches:
            groups = tf.boolean_mask(groups, groups >= 0)
        rows = groups[:, tf.newaxis] * self._group_size + tf.range(self._group_size, dtype=tf.int64)
        return tf.reshape(tf.maximum(rows, -1), [-1])  # those of group -1 are all negative


@dataclasses.dataclass(frozen=True, eq=False)
class SequenceTable:
    """All rows and what belongs to each, as tensors."""

    tokens: dict[str, tf.RaggedTensor]
    second_starts: tf.Tensor
    labels: object
    weights: tf.Tensor | None
    pad_id: int
    prompt_lengths: tf.Tensor | None = None

    @classmethod
    def from_sequences(
        cls, rows: EncodedSequences, labels=None, token_labels=None, weights=None, fill_batches: bool = False
    ) -> "SequenceTable":
        if labels is not None and token_labels is not None:
            raise InputError("labels of rows and labels of tokens were given together; expected one of them")
        if labels is None and token_labels is None and weights is not None:
            raise InputError("weights were given and no labels; expected both, since weights are of a loss")
        for name, values, num_things, things in (
            *((f"labels {key}".strip(), values, len(rows), "rows") for key, values in _named(labels).items()),
            ("token_labels", token_labels, len(rows.token_ids), "tokens"),
            ("weights", weights, len(rows), "rows"),
        ):
            if values is not None and len(values) != num_things:
                raise InputError(f"there are {len(values)} {name} for {num_things} {things}; expected one for each")
        values = {"token_ids": rows.token_ids} | ({} if token_labels is None else {"labels": token_labels})
        splits = tf.constant(rows.row_splits, tf.int64)
        if fill_batches and weights is None:
            weights = np.ones(len(rows), np.float32)
        return cls(
            tokens={
                name: tf.RaggedTensor.from_row_splits(tf.constant(flat, tf.int32), splits, validate=False)
                for name, flat in values.items()
            },
            second_starts=tf.constant(rows.second_starts, tf.int32),
            labels=_tensors(labels),
            weights=None if weights is None else tf.constant(weights, tf.float32),
            pad_id=rows.pad_id,
            prompt_lengths=None if rows.prompt_lengths is None else tf.constant(rows.prompt_lengths, tf.int32),
        )

    def batch_of(self, numbers: tf.Tensor):
        """Returns the features of these rows, with their labels and weights; -1 is a row that only fills the batch."""
        is_row = numbers >= 0
        numbers = tf.where(is_row, numbers, numbers[0])
        tokens = {name: tf.gather(values, numbers) for name, values in self.tokens.items()}
        lengths = tf.cast(tokens["token_ids"].row_lengths(), tf.int32)[:, tf.newaxis]
        places = tf.range(tf.reduce_max(lengths))[tf.newaxis]
        shape = [numbers.shape[0], None]  # B is known where batches are full
        is_second = (places >= tf.gather(self.second_starts, numbers)[:, tf.newaxis]) & (places < lengths)
        features = {
            "token_ids": tokens["token_ids"].to_tensor(self.pad_id),
            "segment_ids": tf.cast(is_second, tf.int32),
            "padding_mask": tf.cast(places < lengths, tf.int32),
        }
        if self.prompt_lengths is not None:
            is_text = places >= tf.gather(self.prompt_lengths, numbers)[:, tf.newaxis]
            features["pooling_mask"] = features["padding_mask"] * tf.cast(is_text, tf.int32)
        features = {name: tf.ensure_shape(values, shape) for name, values in features.items()}
        if self.labels is None and "labels" not in tokens:
            return features
        if "labels" in tokens:
            labels = tf.ensure_shape(tokens["labels"].to_tensor(IGNORED_LABEL), shape)
        else:
            labels = tf.nest.map_structure(lambda values: tf.gather(values, numbers), self.labels)
        if self.weights is None:
            return features, labels
        return features, labels, tf.where(is_row, tf.gather(self.weights, numbers), 0.0)


def _parts(share: BatchShare, batch_size: int, batch) -> tf.data.Dataset:
    """Cuts a whole batch, so that all replicas pad to the same length and draw what one device would."""
    own, replicas, rows = share.worker_slice(batch_size), share.num_replicas, share.sequences_per_replica(batch_size)
    cut = tf.nest.map_structure(
        lambda values: tf.reshape(values[own], [replicas, rows, *tf.unstack(tf.shape(values)[1:])]), batch
    )
    return tf.data.Dataset.from_tensor_slices(cut if len(cut) > 1 else cut[0])


def _tensors(labels):
    if isinstance(labels, Mapping):
        return {name: tf.constant(values) for name, values in labels.items()}
    return None if labels is None else tf.constant(labels)


def _named(labels) -> dict[str, np.ndarray]:
    if labels is None:
        return {}
    return dict(labels) if isinstance(labels, Mapping) else {"": labels}
