"""Encoded sequences to `tf.data` batches for `model.fit`, optionally with sequences of similar length together."""

import dataclasses
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from bert_keras.checks import check_integer
from bert_keras.errors import InputError
from bert_keras.features import IGNORED_LABEL
from bert_keras.pipelines.batches.encoding import EncodedSequences
from bert_keras.pipelines.batches.epochs import WHOLE_BATCH, BatchShare, Epochs, check_seed, draw_order
from bert_keras.pipelines.text.graph.text_batches import without_autograph

# Maximum number of batches whose sequences are sorted by length together; also at most a quarter of an epoch, as in
# transformers' group_by_length: with an epoch of 32 batches sorted as a whole, 40 % of the pairs of sequences in a
# batch met again in the next epoch.
_BATCHES_PER_SORT = 50
_SEQUENCE_ORDER, _BATCH_ORDER = 7, 8  # draws of an example; masking and the order of records have 0 to 6


@without_autograph
def make_task_batches(
    sequences: EncodedSequences,
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
    """Make batches of sequences, each padded to the longest sequence of the batch.

    Batches are a pure function of the arguments; the order of an epoch depends on the seed and the epoch only. If
    `shuffle`, an epoch is shuffled, sorted by length within runs of 50 batches or a quarter of the epoch, whichever is
    shorter, and cut into batches, whose order is shuffled in turn.

    Args:
        sequences: N sequences from `encode`.
        labels: `(N, ...)`, or a dict of such arrays.
        token_labels: `(P,)` integers, one label per token; -100 marks tokens that do not count.
        weights: `(N,)`, the weight of each sequence in the loss.
        batch_size: B. One batch of an epoch can be smaller: the last one, unless shuffled.
        group_size: number of consecutive sequences that stay together and in order, such as the two texts of a pair.
        seed: determines the order if `shuffle`.
        shuffle: whether to draw a new order for each epoch.
        sort_by_length: whether to put sequences of similar length together if `shuffle`, which saves padding in
            models that compute it.
        epochs: number of passes over the sequences; None: endless.
        first_batch: index of the first batch to read, counted from 0 over all epochs; earlier batches are skipped.
        fill_batches: whether to fill the smaller batch with sequences of weight 0, so that all batches have B
            sequences. Without labels nothing marks them.
        share: the part of each batch to read when several workers or replicas train together; each element is then
            the part of one replica. Requires `fill_batches`.

    Returns:
        `features`: `token_ids`, `segment_ids`, `padding_mask` (1 = real token, 0 = padding), and `pooling_mask` if
        prompts are not pooled, `(B, S)` int32. With labels `(features, labels)`; with `weights` or `fill_batches` too
        `(features, labels, weights)`, weights `(B,)` float32. Token labels are `(B, S)`, -100 in the padding.

    Raises:
        InputError: there are no sequences, sizes do not match, or a setting is out of range.
    """
    check_seed(seed)
    _check_sizes(len(sequences), batch_size, group_size, fill_batches, share)
    group_lengths = tf.constant(sequences.lengths.reshape(-1, group_size).max(axis=1), tf.int64)
    num_groups = batch_size // group_size
    order = _Order(group_lengths, group_size, num_groups, seed if shuffle else None, sort_by_length, fill_batches)
    table = _SequenceTable(sequences, labels, token_labels, weights, fill_batches)
    dataset = Epochs(order.num_batches, epochs, first_batch).read(order.read_epoch)
    dataset = dataset.map(table.gather_batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    if share != WHOLE_BATCH:
        dataset = dataset.flat_map(lambda *batch: _split_batch(share, batch_size, batch))
    return dataset.prefetch(tf.data.AUTOTUNE)


def _check_sizes(num_sequences: int, batch_size: int, group_size: int, fill_batches: bool, share: BatchShare) -> None:
    check_integer("batch_size", batch_size)
    check_integer("group_size", group_size)
    if not num_sequences:
        raise InputError("there are no sequences to make batches of; expected at least one")
    if batch_size % group_size or num_sequences % group_size:
        raise InputError(
            f"{num_sequences} sequences in batches of {batch_size} cannot be divided into groups of {group_size}: make "
            "both numbers multiples of it"
        )
    if share != WHOLE_BATCH and not fill_batches:
        raise InputError("share is a part of each batch, which requires full batches: set fill_batches=True")
    per_replica = share.sequences_per_replica(batch_size)
    if per_replica % group_size:
        raise InputError(f"a replica gets {per_replica} sequences of a batch; expected groups of {group_size}")


@dataclasses.dataclass(frozen=True, eq=False)
class _Order:
    """The sequences of each batch of each epoch; `seed` is None if they are not shuffled."""

    group_lengths: tf.Tensor
    group_size: int
    groups_per_batch: int
    seed: int | None
    sort_by_length: bool
    fill_batches: bool

    @property
    def num_batches(self) -> int:
        """Number of batches of an epoch."""
        return -(-len(self.group_lengths) // self.groups_per_batch)

    def read_epoch(self, epoch: tf.Tensor, num_skipped: tf.Tensor) -> tf.data.Dataset:
        """Return the indices of the sequences of each batch, `(B,)`; -1 fills the smaller batch."""
        num_groups = len(self.group_lengths)
        groups = self._shuffle_groups(epoch) if self.seed is not None else tf.range(num_groups, dtype=tf.int64)
        num_missing = self.num_batches * self.groups_per_batch - num_groups
        batches = tf.reshape(tf.pad(groups, [[0, num_missing]], constant_values=-1), [self.num_batches, -1])
        if self.seed is not None:
            batches = tf.gather(batches, draw_order(self.seed, epoch, tf.range(self.num_batches), _BATCH_ORDER))
        return tf.data.Dataset.from_tensor_slices(batches[num_skipped:]).map(self._expand_groups)

    def _shuffle_groups(self, epoch: tf.Tensor) -> tf.Tensor:
        order = draw_order(self.seed, epoch, tf.range(len(self.group_lengths)), _SEQUENCE_ORDER)
        groups = tf.cast(order, tf.int64)
        if not self.sort_by_length:
            return groups
        groups_per_sort = max(1, min(_BATCHES_PER_SORT, self.num_batches // 4)) * self.groups_per_batch
        runs = tf.range(len(self.group_lengths), dtype=tf.int64) // groups_per_sort
        keys = runs * (tf.reduce_max(self.group_lengths) + 1) + tf.gather(self.group_lengths, groups)
        return tf.gather(groups, tf.argsort(keys, stable=True))

    def _expand_groups(self, groups: tf.Tensor) -> tf.Tensor:
        if not self.fill_batches:
            groups = tf.boolean_mask(groups, groups >= 0)
        indices = groups[:, tf.newaxis] * self.group_size + tf.range(self.group_size, dtype=tf.int64)
        return tf.reshape(tf.maximum(indices, -1), [-1])  # all indices of group -1 are negative


class _SequenceTable:
    """All sequences with their labels and weights, as tensors. The arguments are those of `make_task_batches`."""

    def __init__(
        self,
        sequences: EncodedSequences,
        labels: np.ndarray | Mapping[str, np.ndarray] | None,
        token_labels: np.ndarray | None,
        weights: np.ndarray | None,
        fill_batches: bool,
    ):
        _check_labels(sequences, labels, token_labels, weights)
        if fill_batches and weights is None:
            weights = np.ones(len(sequences), np.float32)
        splits, prompt_lengths = tf.constant(sequences.row_splits, tf.int64), sequences.prompt_lengths
        self._tokens = {
            name: tf.RaggedTensor.from_row_splits(tf.constant(flat, tf.int32), splits, validate=False)
            for name, flat in (("token_ids", sequences.token_ids), ("labels", token_labels))
            if flat is not None
        }
        self._second_starts = tf.constant(sequences.second_starts, tf.int32)
        if isinstance(labels, Mapping):
            self._labels = {name: tf.constant(values) for name, values in labels.items()}
        else:  # an array, or a list of numbers
            self._labels = None if labels is None else tf.constant(labels)
        self._weights = None if weights is None else tf.constant(weights, tf.float32)
        self._pad_id = sequences.pad_id
        self._prompt_lengths = None if prompt_lengths is None else tf.constant(prompt_lengths, tf.int32)

    def gather_batch(self, indices: tf.Tensor) -> dict | tuple:
        """Return the features of sequences, with labels and weights if there are any.

        Args:
            indices: `(B,)` integers; -1 is a sequence of weight 0 that fills the batch.
        """
        is_real = indices >= 0
        indices = tf.where(is_real, indices, indices[0])
        features, token_labels = self._gather_tokens(indices)
        if self._labels is None and token_labels is None:
            return features
        labels = token_labels
        if labels is None:
            labels = tf.nest.map_structure(lambda values: tf.gather(values, indices), self._labels)
        if self._weights is None:
            return features, labels
        return features, labels, tf.where(is_real, tf.gather(self._weights, indices), 0.0)

    def _gather_tokens(self, indices: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor | None]:
        """Return the padded features and the padded token labels, `(B, S)` each."""
        tokens = {name: tf.gather(values, indices) for name, values in self._tokens.items()}
        lengths = tf.cast(tokens["token_ids"].row_lengths(), tf.int32)[:, tf.newaxis]
        positions = tf.range(tf.reduce_max(lengths))[tf.newaxis]
        is_second = (positions >= tf.gather(self._second_starts, indices)[:, tf.newaxis]) & (positions < lengths)
        features = {
            "token_ids": tokens["token_ids"].to_tensor(self._pad_id),
            "segment_ids": tf.cast(is_second, tf.int32),
            "padding_mask": tf.cast(positions < lengths, tf.int32),
        }
        if self._prompt_lengths is not None:
            is_text = positions >= tf.gather(self._prompt_lengths, indices)[:, tf.newaxis]
            features["pooling_mask"] = features["padding_mask"] * tf.cast(is_text, tf.int32)
        shape = [indices.shape[0], None]  # B is static if batches are full
        features = {name: tf.ensure_shape(values, shape) for name, values in features.items()}
        if "labels" not in tokens:
            return features, None
        return features, tf.ensure_shape(tokens["labels"].to_tensor(IGNORED_LABEL), shape)


def _check_labels(
    sequences: EncodedSequences,
    labels: np.ndarray | Mapping[str, np.ndarray] | None,
    token_labels: np.ndarray | None,
    weights: np.ndarray | None,
) -> None:
    if labels is not None and token_labels is not None:
        raise InputError("labels and token_labels are given together; expected one of them")
    if labels is None and token_labels is None and weights is not None:
        raise InputError("weights are given without labels; expected both, since weights belong to a loss")
    if isinstance(labels, Mapping):
        named = {f"labels {name}": values for name, values in labels.items()}
    else:
        named = {"labels": labels}
    named |= {"weights": weights}
    per_sequence = [(name, values, len(sequences), "sequences") for name, values in named.items()]
    per_token = [("token_labels", token_labels, len(sequences.token_ids), "tokens")]
    for name, values, expected, unit in (*per_sequence, *per_token):
        if values is not None and len(values) != expected:
            raise InputError(f"there are {len(values)} {name} for {expected} {unit}; expected one for each")


def _split_batch(share: BatchShare, batch_size: int, batch: tuple) -> tf.data.Dataset:
    """Split this worker's part of a batch among its replicas.

    The batch is made whole first, so that all replicas pad to one length and draw the numbers of a single device.
    """
    own, per_replica = share.worker_slice(batch_size), share.sequences_per_replica(batch_size)

    def split(values: tf.Tensor) -> tf.Tensor:
        return tf.reshape(values[own], [share.num_replicas, per_replica, *tf.unstack(tf.shape(values)[1:])])

    parts = tf.nest.map_structure(split, batch)
    return tf.data.Dataset.from_tensor_slices(parts if len(parts) > 1 else parts[0])
