"""The layers of a BERT encoder, in reading order: activations, embeddings, self-attention, block.

Shape letters as in `bert_keras/features.py`. Between the blocks every tensor is kept flat,
(B*S, D): a matrix product of two matrices runs the backend's fastest kernel, and only the
attention itself needs to know which rows belong to one example (Google's BERT does the same).
"""

import contextlib
import contextvars
import math
from collections.abc import Iterator

import keras
import numpy as np
from keras import ops

from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.modeling.all_rows import ALL_ROWS
from bert_keras.modeling.dropout import Dropout

# Added to the scores of keys that may not be seen. exp(-10,000) is exactly 0 in float32, so real tokens
# get what -inf would give them, while a row with nothing to see stays finite; it also fits float16.
HIDDEN_KEY_BIAS = -10_000.0


def gelu(x):
    """x * Phi(x), the Gaussian error linear unit of Hendrycks & Gimpel (2016).

    Written with erf, where Keras writes erfc, because the ONNX converter knows no erfc. On JAX it is Keras's, because
    TensorFlow cannot read the erf that today's JAX writes into a SavedModel.
    """
    if keras.backend.backend() == "jax":
        return ops.gelu(x, approximate=False)
    return 0.5 * x * (1.0 + ops.erf(x * math.sqrt(0.5)))


def gelu_tanh(x):
    """The tanh approximation of GELU that Google's BERT code computes."""
    return 0.5 * x * (1.0 + ops.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)))


ACTIVATIONS = {"gelu": gelu, "gelu_tanh": gelu_tanh, "relu": ops.relu}


class ConfiguredLayer(keras.layers.Layer):
    """A layer whose whole shape is in a `BertConfig`, so that it can be built before it sees a tensor."""

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config

    def dense(self, units: int, name: str) -> keras.layers.Dense:
        """A dense layer with BERT's initializer and this layer's precision."""
        return dense(self.config, units, name, dtype=self.dtype_policy)

    def norm(self, name: str) -> keras.layers.LayerNormalization:
        """A layer norm; Keras computes it in float32 at least, whatever the compute type."""
        return keras.layers.LayerNormalization(
            epsilon=self.config.layer_norm_epsilon, name=name, dtype=self.dtype_policy
        )

    def get_config(self):
        return {**super().get_config(), "config": self.config.to_dict()}

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "config": BertConfig.from_dict(config["config"])})


_zeros_by_shape = contextvars.ContextVar("zeros_by_shape", default=None)


@contextlib.contextmanager
def without_initial_values() -> Iterator[None]:
    """Builds layers whose kernels and tables are all 0, because a checkpoint is read into them.

    Drawing the 110 million weights of BERT base takes 4 s. Those of one shape share their zeros until they are written
    to, which halves the memory of base. Initializers are made as ever, so the seeds of those that draw later stay the
    same.
    """
    token = _zeros_by_shape.set({})
    try:
        yield
    finally:
        _zeros_by_shape.reset(token)


def _shared_zeros(shape, dtype):
    """Returns the zeros of a shape within `without_initial_values`, else None."""
    zeros = _zeros_by_shape.get()
    if zeros is None:
        return None
    key = tuple(shape), dtype
    if key not in zeros:
        zeros[key] = ops.zeros(shape, dtype)
    return zeros[key]


@keras.saving.register_keras_serializable(package="bert_keras")
class TruncatedNormal(keras.initializers.TruncatedNormal):
    """Keras's initializer, but for `without_initial_values`."""

    def __call__(self, shape, dtype=None):
        zeros = _shared_zeros(shape, dtype)
        return super().__call__(shape, dtype) if zeros is None else zeros


@keras.saving.register_keras_serializable(package="bert_keras")
class RandomNormal(keras.initializers.RandomNormal):
    """Keras's initializer, but for `without_initial_values`."""

    def __call__(self, shape, dtype=None):
        zeros = _shared_zeros(shape, dtype)
        return super().__call__(shape, dtype) if zeros is None else zeros


def initializer(config: BertConfig) -> keras.initializers.Initializer:
    """A fresh truncated normal; one instance a variable, since a Keras initializer repeats its values."""
    return TruncatedNormal(stddev=config.initializer_range)


def dense(config: BertConfig, units: int, name: str, dtype=None) -> keras.layers.Dense:
    """A dense layer with BERT's initializer."""
    return keras.layers.Dense(units, kernel_initializer=initializer(config), name=name, dtype=dtype)


def sinusoidal_positions(length: int, width: int) -> np.ndarray:
    """Returns the (length, width) float32 table of Vaswani et al. (2017), 3.5: sine even, cosine odd columns."""
    positions = np.arange(length)[:, None]
    wavelengths = 10_000.0 ** (np.arange(0, width, 2) / width)
    table = np.zeros((length, width), "float32")
    table[:, 0::2] = np.sin(positions / wavelengths)
    table[:, 1::2] = np.cos(positions / wavelengths)[:, : width // 2]
    return table


@keras.saving.register_keras_serializable(package="bert_keras")
class BertEmbeddings(ConfiguredLayer):
    """Token + position + segment embeddings, summed, then layer norm and dropout: (B, S) ids -> (B*S, E)."""

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.token = self._table(config.vocabulary_size, "token")
        self.segment = self._table(config.type_vocabulary_size, "segment")
        learned = config.position_type == "learned"
        self.position = self._table(config.max_sequence_length, "position") if learned else None
        self.layer_norm = self.norm("layer_norm")
        self.dropout = Dropout(config.hidden_dropout_rate, dtype=self.dtype_policy)

    def _table(self, rows: int, name: str) -> keras.layers.Embedding:
        return keras.layers.Embedding(
            rows,
            self.config.embedding_dim,
            embeddings_initializer=initializer(self.config),
            name=name,
            dtype=self.dtype_policy,
        )

    def build(self, input_shape=None):
        for table in (self.token, self.segment, self.position):
            if table is not None:
                table.build((None, None))
        self.layer_norm.build((None, self.config.embedding_dim))

    def compute_output_shape(self, input_shape):
        return None, self.config.embedding_dim

    def call(self, token_ids, segment_ids, positions, training=None, rows=ALL_ROWS):
        """`positions` is (S,) when all rows count from 0, or (B, S) when packed examples restart.

        Ids and positions may be those of `rows` alone: (T,) -> (T, E).
        """
        x = self.token(token_ids) + self.segment(segment_ids) + self.position_vectors(positions)
        x = ops.reshape(x, (-1, self.config.embedding_dim))
        return self.dropout(self.layer_norm(x), training=training, rows=rows)

    def position_vectors(self, positions):
        """Returns the position embedding of each index in `positions`, learned or computed."""
        if self.position is not None:
            return self.position(positions)
        table = sinusoidal_positions(self.config.max_sequence_length, self.config.embedding_dim)
        return ops.cast(ops.take(ops.convert_to_tensor(table), positions, axis=0), self.compute_dtype)


@keras.saving.register_keras_serializable(package="bert_keras")
class SelfAttention(ConfiguredLayer):
    """Multi-head scaled dot-product attention (Vaswani et al. 2017, 3.2) over flat rows: (B*S, D) -> (B*S, D)."""

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.query = self.dense(config.hidden_dim, "query")
        self.key = self.dense(config.hidden_dim, "key")
        self.value = self.dense(config.hidden_dim, "value")
        self.projection = self.dense(config.hidden_dim, "projection")
        self.dropout = Dropout(config.attention_dropout_rate, dtype=self.dtype_policy)

    def build(self, input_shape=None):
        for layer in (self.query, self.key, self.value, self.projection):
            layer.build((None, self.config.hidden_dim))

    def compute_output_shape(self, input_shape):
        return input_shape, (None, self.config.num_heads, None, None)

    def call(self, x, attention_bias, training=None, readers=None, rows=ALL_ROWS):
        """Returns the projected context and the softmaxed scores (B, N, S, S) in float32.

        `attention_bias` is added to the scores: (B, 1, 1, S), or (B, 1, S, S) for packed rows.
        `readers` (B*R, D) are the rows that look, R of each example; all rows, `x`, unless given.
        `rows`: `x` has these alone, (T, D), and so has the context, unless `readers` are given.
        """
        batch = ops.shape(attention_bias)[0]
        query = self.query(x if readers is None else readers) * self.config.head_dim**-0.5
        query = self._split_heads(rows.spread(query) if readers is None else query, batch)
        key = self._split_heads(rows.spread(self.key(x)), batch)
        value = self._split_heads(rows.spread(self.value(x)), batch)

        scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))  # (B, N, S, S)
        scores = ops.softmax(ops.cast(scores, "float32") + ops.cast(attention_bias, "float32"), axis=-1)
        weights = ops.cast(self.dropout(scores, training=training), self.compute_dtype)
        context = ops.transpose(ops.matmul(weights, value), (0, 2, 1, 3))  # (B, N, S, H) -> (B, S, N, H)
        context = ops.reshape(context, (-1, self.config.hidden_dim))
        return self.projection(rows.only(context) if readers is None else context), scores

    def _split_heads(self, x, batch):
        x = ops.reshape(x, (batch, -1, self.config.num_heads, self.config.head_dim))
        return ops.transpose(x, (0, 2, 1, 3))  # (B, S, N, H) -> (B, N, S, H)


@keras.saving.register_keras_serializable(package="bert_keras")
class TransformerBlock(ConfiguredLayer):
    """One post-norm block of BERT: attention, add, norm; feed-forward, add, norm: (B*S, D) -> (B*S, D)."""

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.attention = SelfAttention(config, name="attention", dtype=self.dtype_policy)
        self.attention_norm = self.norm("attention_norm")
        self.intermediate = self.dense(config.intermediate_dim, "intermediate")
        self.feed_forward = self.dense(config.hidden_dim, "feed_forward")
        self.feed_forward_norm = self.norm("feed_forward_norm")
        self.attention_dropout = Dropout(config.hidden_dropout_rate, dtype=self.dtype_policy)
        self.feed_forward_dropout = Dropout(config.hidden_dropout_rate, dtype=self.dtype_policy)

    def build(self, input_shape=None):
        rows = (None, self.config.hidden_dim)
        self.attention.build(rows)
        self.attention_norm.build(rows)
        self.intermediate.build(rows)
        self.feed_forward.build((None, self.config.intermediate_dim))
        self.feed_forward_norm.build(rows)

    def compute_output_shape(self, input_shape):
        return input_shape, (None, self.config.num_heads, None, None)

    def call(self, x, attention_bias, training=None, read_rows=None, rows=ALL_ROWS):
        """Returns the new rows (B*S, D) and the attention scores (B, N, S, S).

        `read_rows` (B*R,) numbers the rows that somebody will read: only they are computed then, (B*R, D), and
        `attention_bias` must be theirs. They look at all rows of `x`, so each is what it would be among all.
        `rows`: `x` has these alone, (T, D), and so has what is returned, unless `read_rows` are given.
        """
        readers = None if read_rows is None else ops.take(x, rows.numbers_of(read_rows), axis=0)
        context, scores = self.attention(x, attention_bias, training=training, readers=readers, rows=rows)
        if readers is not None:
            x, rows = readers, ALL_ROWS
        x = self.attention_norm(x + self.attention_dropout(context, training=training, rows=rows))
        hidden = ACTIVATIONS[self.config.hidden_act](self.intermediate(x))
        hidden = self.feed_forward_dropout(self.feed_forward(hidden), training=training, rows=rows)
        return self.feed_forward_norm(x + hidden), scores


def padding_bias(padding_mask):
    """Returns the (B, 1, 1, S) bias that hides padding keys; `padding_mask` (B, S): 1 = real token, 0 = padding."""
    batch, length = ops.shape(padding_mask)
    hidden = 1.0 - ops.cast(padding_mask, "float32")
    return ops.reshape(hidden * HIDDEN_KEY_BIAS, (batch, 1, 1, length))


def packed_layout(pack_ids, padding_mask):
    """Returns positions (B, S) that restart in each pack, and the block-diagonal bias (B, 1, S, S).

    A token sees the real tokens of its own pack. Its position is the number of tokens of its pack before it.
    """
    batch, length = ops.shape(pack_ids)
    same = ops.equal(ops.reshape(pack_ids, (batch, length, 1)), ops.reshape(pack_ids, (batch, 1, length)))
    before = ops.arange(length)[:, None] > ops.arange(length)[None, :]
    positions = ops.sum(ops.cast(ops.logical_and(same, before), "int32"), axis=-1)
    real = ops.cast(ops.reshape(padding_mask, (batch, 1, length)), "bool")
    hidden = 1.0 - ops.cast(ops.logical_and(same, real), "float32")
    return positions, ops.reshape(hidden * HIDDEN_KEY_BIAS, (batch, 1, length, length))


def flat_rows(positions, length):
    """Returns the rows of (B*S, D) that stand at `positions` (B, R) of their examples, flat: (B*R,) int32."""
    starts = ops.arange(ops.shape(positions)[0], dtype="int32") * length
    return ops.reshape(ops.cast(positions, "int32") + starts[:, None], (-1,))


def bias_of_readers(attention_bias, positions):
    """Returns the bias (B, 1, R, S) of the rows at `positions` (B, R); a bias alike for all rows stays as it is."""
    if attention_bias.shape[2] == 1:
        return attention_bias
    return ops.take_along_axis(attention_bias, ops.cast(positions, "int32")[:, None, :, None], axis=2)


def check_length(length, limit: int) -> None:
    """Raises `InputError` when a batch is longer than the model's positions, as far as the length is known."""
    if isinstance(length, int) and length > limit:
        raise InputError(
            f"the batch is {length} tokens long, the model reads at most {limit} (max_sequence_length): "
            "truncate or window the text in the pipeline"
        )
