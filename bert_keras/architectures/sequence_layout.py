"""`SequenceLayout`: which rows of a flat tensor belong to which sequence, and which tokens attend to each other.

Between the blocks every tensor is flat, `(B*S, D)`: the product of two matrices is the backend's fastest kernel, and
only attention needs to know the sequences (Google's BERT does the same). With unpadding the padding rows are left out
as well, `(T, D)` for T real tokens.
"""

import keras
from keras import ops

from bert_keras.errors import InputError
from bert_keras.features import Tensor

if keras.backend.backend() == "tensorflow":
    from bert_keras.architectures.tensorflow_kernels import gather_rows, scatter_rows

# Added to the scores of keys that must not be attended to. exp(-10,000) is exactly 0 in float32, so real tokens get
# what -inf would give them, a sequence without any key stays finite, and the value fits into float16.
MASKED_SCORE = -10_000.0


class SequenceLayout:
    """Layout of a batch whose padding is computed like real tokens; XLA and TPUs need such fixed shapes.

    Attributes:
        attention_bias: float32, added to the attention scores: `(B, 1, 1, S)`, or `(B, 1, S, S)` where queries differ
            in the keys they may attend to (packed sequences).
    """

    def __init__(self, attention_bias: Tensor):
        self.attention_bias = attention_bias

    def unpad(self, x: Tensor):
        """Return the rows of `x` `(B*S, ...)` that are computed: all of them here."""
        return x

    def unpad_ids(self, *ids):
        """Return ids of shape `(B, S)` or `(S,)` as the embeddings take them."""
        return ids

    def pad(self, x: Tensor):
        """Return computed rows as `(B*S, ...)`, with zeros for padding that was left out."""
        return x

    def padded_shape(self, x: Tensor):
        """Return the shape that `pad(x)` has."""
        return ops.shape(x)

    def row_indices(self, positions: Tensor):
        """Return the row of each position: `(B, R)` positions within their sequences -> `(B*R,)` int32."""
        return compute_flat_indices(positions, ops.shape(self.attention_bias)[-1])

    def at_positions(self, positions: Tensor) -> "SequenceLayout":
        """Return the layout of queries at `positions` `(B, R)` only, which attend to the same keys."""
        bias = self.attention_bias
        if bias.shape[2] != 1:  # one row per query
            bias = ops.take_along_axis(bias, ops.cast(positions, "int32")[:, None, :, None], axis=2)
        return SequenceLayout(bias)


class UnpaddedLayout(SequenceLayout):
    """Layout without padding: only the T real tokens of a batch are computed. TensorFlow only, and not under XLA.

    The first token of each sequence counts as real even in an empty sequence, because heads read it.

    Args:
        attention_bias: as in `SequenceLayout`.
        padding_mask: `(B, S)`, 1 = real token, 0 = padding.
    """

    def __init__(self, attention_bias: Tensor, padding_mask: Tensor):
        super().__init__(attention_bias)
        self._batch_shape = ops.shape(padding_mask)
        is_first = ops.equal(ops.arange(self._batch_shape[1]), 0)
        self._is_real = ops.reshape(ops.logical_or(ops.cast(padding_mask, "bool"), is_first), (-1,))
        self._indices = ops.cast(ops.nonzero(self._is_real)[0], "int32")  # (T,)

    def unpad(self, x: Tensor):
        """Return the rows `(T, ...)` of real tokens of `x` `(B*S, ...)`."""
        return gather_rows(x, self._indices)

    def unpad_ids(self, *ids):
        """Return ids of shape `(B, S)` or `(S,)` for the real tokens only, `(T,)` each."""
        return tuple(self.unpad(ops.reshape(ops.broadcast_to(one, self._batch_shape), (-1,))) for one in ids)

    def pad(self, x: Tensor):
        """Return `(B*S, ...)` with the rows of `x` `(T, ...)` in their places and zeros for padding."""
        return scatter_rows(x, self._indices, self.padded_shape(x))

    def padded_shape(self, x: Tensor):
        """Return the shape that `pad(x)` has."""
        return (ops.shape(self._is_real)[0], *x.shape[1:])

    def row_indices(self, positions: Tensor):
        """Return the row of each position among the T rows: `(B, R)` -> `(B*R,)` int32."""
        row_of_index = ops.cumsum(ops.cast(self._is_real, "int32")) - 1
        return ops.take(row_of_index, super().row_indices(positions))


def make_padding_bias(padding_mask: Tensor):
    """Return the `(B, 1, 1, S)` attention bias that masks padding keys.

    Args:
        padding_mask: `(B, S)`, 1 = real token, 0 = padding.
    """
    batch, length = ops.shape(padding_mask)
    is_padding = 1.0 - ops.cast(padding_mask, "float32")
    return ops.reshape(is_padding * MASKED_SCORE, (batch, 1, 1, length))


def compute_packed_positions_and_bias(pack_ids: Tensor, padding_mask: Tensor):
    """Return the positions and the attention bias of packed sequences.

    Args:
        pack_ids: `(B, S)`, the packed example that each token belongs to, from 1; 0 = padding.
        padding_mask: `(B, S)`, 1 = real token, 0 = padding.

    Returns:
        Positions `(B, S)` that restart at 0 in each packed example, and the block-diagonal bias `(B, 1, S, S)`: a token
        attends to the real tokens of its own example.
    """
    batch, length = ops.shape(pack_ids)
    same = ops.equal(ops.reshape(pack_ids, (batch, length, 1)), ops.reshape(pack_ids, (batch, 1, length)))
    before = ops.arange(length)[:, None] > ops.arange(length)[None, :]
    positions = ops.sum(ops.cast(ops.logical_and(same, before), "int32"), axis=-1)
    real = ops.cast(ops.reshape(padding_mask, (batch, 1, length)), "bool")
    is_masked = 1.0 - ops.cast(ops.logical_and(same, real), "float32")
    return positions, ops.reshape(is_masked * MASKED_SCORE, (batch, 1, length, length))


def compute_flat_indices(positions: Tensor, length: int | None):
    """Return the rows of a `(B*S, D)` tensor at `positions` `(B, R)` of its sequences: `(B*R,)` int32."""
    starts = ops.arange(ops.shape(positions)[0], dtype="int32") * length
    return ops.reshape(ops.cast(positions, "int32") + starts[:, None], (-1,))


def check_length(length: int | None, limit: int) -> None:
    """Raise `InputError` for a batch that is longer than the model's positions; an unknown length (None) passes."""
    if isinstance(length, int) and length > limit:
        raise InputError(
            f"the batch has sequences of {length} tokens; the model accepts at most {limit} (max_sequence_length): "
            "truncate the texts or split them into windows in the pipeline"
        )
