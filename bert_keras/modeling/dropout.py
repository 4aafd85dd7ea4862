"""`Dropout` whose random numbers depend on the step and the position in the batch, not on how the step is divided."""

import math

import keras
from keras import ops

from bert_keras.distribution import get_current_step
from bert_keras.features import Tensor
from bert_keras.modeling.sequence_layout import SequenceLayout

if keras.backend.backend() == "tensorflow":
    from bert_keras.modeling.tensorflow_kernels import philox_bits
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
