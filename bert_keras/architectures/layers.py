"""The layers of a BERT encoder in reading order: dropout, initializers, activations, embeddings, attention, block.

Shape letters as in `bert_keras/features.py`. Between the blocks every tensor is flat, `(B*S, D)`, or `(T, D)` where
padding is left out; `SequenceLayout` knows which row belongs to which sequence.
"""

import contextlib
import contextvars
import math
from collections.abc import Iterator

import keras
import numpy as np
from keras import ops

from bert_keras.architectures.known_architectures import get_architecture
from bert_keras.architectures.sequence_layout import SequenceLayout
from bert_keras.config import BertConfig
from bert_keras.distribution import get_current_step
from bert_keras.features import Tensor

_zeros_by_shape = contextvars.ContextVar("zeros_by_shape", default=None)


if keras.backend.backend() == "tensorflow":
    from bert_keras.architectures.tensorflow_kernels import philox_bits
else:
    philox_bits = None

# lowbias32 (Ellis 2018, github.com/skeeto/hash-prospector): the least biased 32-bit mixer of its length
_SHIFTS = (16, 15, 16)
_MULTIPLIERS = (0x7FEB352D, 0x846CA68B)
_WEYL = 0x9E3779B9  # odd, so that successive draws of one generator get keys far apart


@keras.saving.register_keras_serializable(package="bert_keras")
class Dropout(keras.layers.Layer):
    """Dropout (Srivastava et al. 2014): zeros a fraction `rate` of the values and scales the rest by 1 / (1 - rate).

    The mask is a hash of (seed, step, index of the value in the global batch). A compiler fuses it into the pass that
    reads the values, on every core; XLA's own generator runs on one core: 14 ns per value on a CPU, a fifth of a tiny
    model's training step. Micro-batches, replicas and recomputation (gradient checkpointing) get the same masks.

    Args:
        rate: fraction that is set to 0, from 0 to below 1.
        seed: seed of the masks; default: from Keras's global seed.
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed) if rate > 0 else None
        self.supports_masking = True
        self.built = True

    def call(self, inputs: Tensor, training: bool | None = None, layout: SequenceLayout | None = None):
        """Apply dropout. With a `layout` that leaves out padding, the mask is that of the padded batch."""
        if not training or self.seed_generator is None:
            return inputs
        bits = draw_bits(self.seed_generator, ops.shape(inputs) if layout is None else layout.padded_shape(inputs))
        keep = ops.greater_equal(bits, _uint32(int(self.rate * 2**32)))
        keep = keep if layout is None else layout.unpad(keep)
        return ops.where(keep, inputs * (1.0 / (1.0 - self.rate)), ops.zeros((), inputs.dtype))

    def compute_output_shape(self, input_shape: tuple):
        """Return the shape of the output."""
        return input_shape

    def get_config(self):
        """Return the constructor arguments as plain values."""
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}


def draw_bits(generator: keras.random.SeedGenerator, shape: tuple):
    """Draw a uint32 tensor of `shape`, 32 random bits per value; axis 0 is the batch, or a multiple of it.

    Within a training step the bits depend on the generator's seed, the step number and the index in the global batch;
    elsewhere, as in any Keras layer, on the number of draws so far. Steps that are not compiled use TensorFlow's Philox
    kernel, which is faster there and draws other bits.
    """
    step = get_current_step()
    if step is None:
        return random_bits(generator.next(), shape)
    seed = ops.cast(ops.convert_to_tensor(generator.state), "uint32")[0] + _uint32(step.salt)
    seeds = ops.stack([seed, ops.cast(step.number, "uint32")])
    first_index = 0  # of a micro-batch: the index of its first value in the global batch
    if not isinstance(step.first_sequence, int) or step.first_sequence:
        values_per_sequence = ops.cast(math.prod(shape) // step.num_sequences, "uint32")
        first_index = ops.cast(step.first_sequence, "uint32") * values_per_sequence
    draw = random_bits if step.compiled or philox_bits is None else philox_bits
    return draw(seeds, shape, first_index)


def random_bits(seed: Tensor, shape: tuple, first_index: int | Tensor = 0):
    """Hash `seed` `(2,)` uint32 and the index of each value, from `first_index`, to a uint32 tensor of `shape`."""
    seed = ops.cast(seed, "uint32")
    key = _mix(seed[1] * _uint32(_WEYL) + seed[0])
    indices = ops.cast(ops.arange(math.prod(shape), dtype="int32"), "uint32") + ops.cast(first_index, "uint32")
    return _mix(ops.reshape(indices, shape), key)


def _mix(bits: Tensor, key: Tensor | None = None):
    """Mix bits so that each result bit depends on all; `key` is added half-way, so that keys do not shift indices."""
    bits = ops.bitwise_xor(bits, ops.right_shift(bits, _uint32(_SHIFTS[0])))
    bits = bits * _uint32(_MULTIPLIERS[0])
    if key is not None:
        bits = bits + key
    bits = ops.bitwise_xor(bits, ops.right_shift(bits, _uint32(_SHIFTS[1])))
    bits = bits * _uint32(_MULTIPLIERS[1])
    return ops.bitwise_xor(bits, ops.right_shift(bits, _uint32(_SHIFTS[2])))


def _uint32(value: int):
    return ops.convert_to_tensor(value, dtype="uint32")


@contextlib.contextmanager
def zero_initialization() -> Iterator[None]:
    """Build layers with zeros instead of random weights, for models whose weights are loaded from a checkpoint.

    Drawing the 110 million weights of BERT base takes 4 s. Weights of the same shape share their zeros until they are
    assigned, which halves the memory of base. Seeds are still consumed, so layers built later draw the same values.
    """
    token = _zeros_by_shape.set({})
    try:
        yield
    finally:
        _zeros_by_shape.reset(token)


class _ZerosWhileLoading:
    """Mixin of initializers: within `zero_initialization` return zeros, one tensor for all weights of a shape."""

    def __call__(self, shape: tuple, dtype: str | None = None):
        zeros = _zeros_by_shape.get()
        if zeros is None:
            return super().__call__(shape, dtype)
        key = tuple(shape), dtype
        if key not in zeros:
            zeros[key] = ops.zeros(shape, dtype)
        return zeros[key]


@keras.saving.register_keras_serializable(package="bert_keras")
class TruncatedNormal(_ZerosWhileLoading, keras.initializers.TruncatedNormal):
    """Keras's truncated normal; zeros within `zero_initialization`."""


@keras.saving.register_keras_serializable(package="bert_keras")
class RandomNormal(_ZerosWhileLoading, keras.initializers.RandomNormal):
    """Keras's normal; zeros within `zero_initialization`."""


def make_initializer(config: BertConfig) -> keras.initializers.Initializer:
    """Return a new truncated normal. Each weight needs its own: an initializer returns the same values every time."""
    return TruncatedNormal(stddev=config.initializer_range)


def gelu(x: Tensor):
    """Gaussian error linear unit, x * Phi(x) (Hendrycks & Gimpel 2016).

    Written with erf because tf2onnx cannot convert the erfc that `keras.ops.gelu` uses on TensorFlow. On JAX it is
    Keras's own: TensorFlow cannot read the erf that JAX writes into a SavedModel.
    """
    if keras.backend.backend() == "jax":
        return ops.gelu(x, approximate=False)
    return 0.5 * x * (1.0 + ops.erf(x * math.sqrt(0.5)))


def gelu_tanh(x: Tensor):
    """Tanh approximation of GELU, as in Google's BERT code."""
    return 0.5 * x * (1.0 + ops.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)))


ACTIVATIONS = {"gelu": gelu, "gelu_tanh": gelu_tanh, "relu": ops.relu}


class ConfiguredLayer(keras.layers.Layer):
    """Base of layers whose shapes follow from a `BertConfig`, so that they are built without seeing a tensor."""

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config

    def dense(self, units: int, name: str) -> keras.layers.Dense:
        """Return a dense layer with BERT's initializer and this layer's dtype policy."""
        return make_dense(self.config, units, name, dtype=self.dtype_policy)

    def norm(self, name: str) -> keras.layers.LayerNormalization:
        """Return a layer norm; Keras computes it in float32 or wider under every dtype policy."""
        return keras.layers.LayerNormalization(
            epsilon=self.config.layer_norm_epsilon, name=name, dtype=self.dtype_policy
        )

    def get_config(self):
        """Return the constructor arguments as plain values."""
        return {**super().get_config(), "config": self.config.to_dict()}

    @classmethod
    def from_config(cls, config: dict):
        """Create an instance from `get_config`."""
        return cls(**{**config, "config": BertConfig.from_dict(config["config"])})


def make_dense(config: BertConfig, units: int, name: str, dtype: keras.DTypePolicy) -> keras.layers.Dense:
    """Return a dense layer with BERT's initializer."""
    return keras.layers.Dense(units, kernel_initializer=make_initializer(config), name=name, dtype=dtype)


def compute_sinusoidal_positions(length: int, width: int) -> np.ndarray:
    """Compute the `(length, width)` float32 position table of Vaswani et al. (2017), 3.5: even sine, odd cosine."""
    positions = np.arange(length)[:, None]
    wavelengths = 10_000.0 ** (np.arange(0, width, 2) / width)
    table = np.zeros((length, width), "float32")
    table[:, 0::2] = np.sin(positions / wavelengths)
    table[:, 1::2] = np.cos(positions / wavelengths)[:, : width // 2]
    return table


@keras.saving.register_keras_serializable(package="bert_keras")
class BertEmbeddings(ConfiguredLayer):
    """Token + segment + position embeddings, then layer norm and dropout: ids `(B, S)` -> `(B*S, E)`."""

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.token = self._table(config.vocabulary_size, "token")
        has_segments = get_architecture(config.model_type).has_segments
        self.segment = self._table(config.type_vocabulary_size, "segment") if has_segments else None
        is_learned = config.position_type == "learned"
        self.position = self._table(config.max_sequence_length, "position") if is_learned else None
        self.layer_norm = self.norm("layer_norm")
        self.dropout = Dropout(config.hidden_dropout_rate, dtype=self.dtype_policy)

    def _table(self, size: int, name: str) -> keras.layers.Embedding:
        return keras.layers.Embedding(
            size,
            self.config.embedding_dim,
            embeddings_initializer=make_initializer(self.config),
            name=name,
            dtype=self.dtype_policy,
        )

    def build(self, input_shape: tuple | None = None):
        """Create the weights."""
        for table in (self.token, self.segment, self.position):
            if table is not None:
                table.build((None, None))
        self.layer_norm.build((None, self.config.embedding_dim))

    def compute_output_shape(self, input_shape: tuple):
        """Return the shape of the output."""
        return None, self.config.embedding_dim

    def call(
        self,
        token_ids: Tensor,
        segment_ids: Tensor,
        positions: Tensor,
        layout: SequenceLayout,
        training: bool | None = None,
    ):
        """Embed the ids that `layout.unpad_ids` returned; positions `(S,)` are the same for all sequences."""
        x = self.token(token_ids)
        if self.segment is not None:
            x = x + self.segment(segment_ids)
        x = x + self.embed_positions(positions)
        x = ops.reshape(x, (-1, self.config.embedding_dim))
        return self.dropout(self.layer_norm(x), training=training, layout=layout)

    def embed_positions(self, positions: Tensor):
        """Return the embedding of each position, learned or sinusoidal."""
        if self.position is not None:
            return self.position(positions)
        table = compute_sinusoidal_positions(self.config.max_sequence_length, self.config.embedding_dim)
        return ops.cast(ops.take(ops.convert_to_tensor(table), positions, axis=0), self.compute_dtype)


@keras.saving.register_keras_serializable(package="bert_keras")
class SelfAttention(ConfiguredLayer):
    """Multi-head scaled dot-product attention (Vaswani et al. 2017, 3.2) on flat tensors: `(B*S, D)` -> `(B*S, D)`."""

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.query = self.dense(config.hidden_dim, "query")
        self.key = self.dense(config.hidden_dim, "key")
        self.value = self.dense(config.hidden_dim, "value")
        self.projection = self.dense(config.hidden_dim, "projection")
        self.dropout = Dropout(config.attention_dropout_rate, dtype=self.dtype_policy)

    def build(self, input_shape: tuple | None = None):
        """Create the weights."""
        for layer in (self.query, self.key, self.value, self.projection):
            layer.build((None, self.config.hidden_dim))

    def compute_output_shape(self, input_shape: tuple):
        """Return the shape of the output."""
        return input_shape, (None, self.config.num_heads, None, None)

    def call(
        self,
        queries: Tensor,
        x: Tensor,
        query_layout: SequenceLayout,
        layout: SequenceLayout,
        training: bool | None = None,
    ):
        """Let each query attend to the tokens `x` of its sequence.

        Args:
            queries: the vectors that attend, flat in `query_layout`; usually `x` itself.
            x: the vectors that are attended to, flat in `layout`.

        Returns:
            The context of each query, projected, flat in `query_layout`; and the attention probabilities, float32
            `(B, N, R, S)` for R queries per sequence: axis -2 is the query, axis -1 the key.
        """
        query = self._split_heads(self.query(queries) * self.config.head_dim**-0.5, query_layout)  # (B, N, R, H)
        key = self._split_heads(self.key(x), layout)  # (B, N, S, H)
        value = self._split_heads(self.value(x), layout)

        scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))  # (B, N, R, S)
        probabilities = ops.softmax(ops.cast(scores, "float32") + query_layout.attention_bias, axis=-1)
        weights = ops.cast(self.dropout(probabilities, training=training), self.compute_dtype)
        context = ops.transpose(ops.matmul(weights, value), (0, 2, 1, 3))  # (B, N, R, H) -> (B, R, N, H)
        context = query_layout.unpad(ops.reshape(context, (-1, self.config.hidden_dim)))
        return self.projection(context), probabilities

    def _split_heads(self, x: Tensor, layout: SequenceLayout):
        batch = ops.shape(layout.attention_bias)[0]
        x = ops.reshape(layout.pad(x), (batch, -1, self.config.num_heads, self.config.head_dim))
        return ops.transpose(x, (0, 2, 1, 3))  # (B, S, N, H) -> (B, N, S, H)


@keras.saving.register_keras_serializable(package="bert_keras")
class TransformerBlock(ConfiguredLayer):
    """Post-norm block of BERT: attention, add, norm; feed-forward, add, norm: `(B*S, D)` -> `(B*S, D)`."""

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.attention = SelfAttention(config, name="attention", dtype=self.dtype_policy)
        self.attention_norm = self.norm("attention_norm")
        self.intermediate = self.dense(config.intermediate_dim, "intermediate")
        self.feed_forward = self.dense(config.hidden_dim, "feed_forward")
        self.feed_forward_norm = self.norm("feed_forward_norm")
        self.attention_dropout = Dropout(config.hidden_dropout_rate, dtype=self.dtype_policy)
        self.feed_forward_dropout = Dropout(config.hidden_dropout_rate, dtype=self.dtype_policy)

    def build(self, input_shape: tuple | None = None):
        """Create the weights."""
        flat_shape = (None, self.config.hidden_dim)
        self.attention.build(flat_shape)
        self.attention_norm.build(flat_shape)
        self.intermediate.build(flat_shape)
        self.feed_forward.build((None, self.config.intermediate_dim))
        self.feed_forward_norm.build(flat_shape)

    def compute_output_shape(self, input_shape: tuple):
        """Return the shape of the output."""
        return input_shape, (None, self.config.num_heads, None, None)

    def call(
        self, x: Tensor, layout: SequenceLayout, query_positions: Tensor | None = None, training: bool | None = None
    ):
        """Compute the block for all tokens, or for the queries at `query_positions` `(B, R)` alone.

        A query attends to all tokens of its sequence either way, so its vector is the same.

        Returns:
            The new vectors, flat: as `x`, or `(B*R, D)`; and the attention probabilities, see `SelfAttention`.
        """
        queries, query_layout = x, layout
        if query_positions is not None:
            queries = ops.take(x, layout.row_indices(query_positions), axis=0)
            query_layout = layout.at_positions(query_positions)
        attended, probabilities = self.attention(
            queries, x, query_layout=query_layout, layout=layout, training=training
        )
        x = self.attention_norm(queries + self.attention_dropout(attended, training=training, layout=query_layout))
        hidden = self.feed_forward(ACTIVATIONS[self.config.hidden_act](self.intermediate(x)))
        hidden = self.feed_forward_dropout(hidden, training=training, layout=query_layout)
        return self.feed_forward_norm(x + hidden), probabilities
