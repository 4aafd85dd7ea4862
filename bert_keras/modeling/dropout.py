"""`Dropout` whose random numbers are computed where they are used."""

import keras
from keras import ops

from bert_keras.distribution import current_step, philox_bits
from bert_keras.modeling.all_rows import ALL_ROWS

# lowbias32 (Ellis 2018, github.com/skeeto/hash-prospector): the least biased 32-bit mixer of its length
_SHIFTS = (16, 15, 16)
_MULTIPLIERS = (0x7FEB352D, 0x846CA68B)
_WEYL = 0x9E3779B9  # odd, so that draws of one generator get keys far apart


@keras.saving.register_keras_serializable(package="bert_keras")
class Dropout(keras.layers.Layer):
    """Dropout (Srivastava et al. 2014): sets a share `rate` of the values to 0 and scales the others by 1 / (1 - rate).

    Its mask is a hash of (seed, step, place of the value in the whole batch), so a compiler folds it into the pass that
    reads the values, on every core. XLA's own generator runs on one: 14 ns a value on a CPU, a fifth of a tiny
    model's training step. However a step is divided, its masks are the same, also when they are computed twice.

    Args:
        rate: the share that is set to 0, from 0 to below 1.
        seed: draws the masks; default: from Keras's global seed.
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed) if rate > 0 else None
        self.supports_masking = True
        self.built = True

    def call(self, inputs, training=None, rows=ALL_ROWS):
        """`rows`: the inputs are these alone of a padded batch; the mask is what it would be among all."""
        if not training or self.seed_generator is None:
            return inputs
        bits = drawn_bits(self.seed_generator, rows.shape_of_all(inputs))
        kept = rows.only(ops.greater_equal(bits, _uint32(int(self.rate * 2**32))))
        return ops.where(kept, inputs * (1.0 / (1.0 - self.rate)), ops.zeros((), inputs.dtype))

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}


def drawn_bits(generator: keras.random.SeedGenerator, shape):
    """Returns uint32 tensors of `shape`, 32 random bits a value; the first size counts rows of the batch, or multiples.

    In a step they depend on the generator's seed, the step's number and the row's place in the whole batch; elsewhere,
    as in any Keras layer, on how often the generator was asked. A step that is not compiled takes TensorFlow's own
    kernel, which is faster there; its bits are others.
    """
    step = current_step()
    if step is None:
        return random_bits(generator.next(), shape)
    seed = ops.cast(ops.convert_to_tensor(generator.state), "uint32")[0] + _uint32(step.salt)
    seeds = ops.stack([seed, ops.cast(step.number, "uint32")])
    first_place = 0  # of a part of the batch, the place of its first value in the whole
    if not isinstance(step.first_row, int) or step.first_row:
        first_place = ops.cast(step.first_row, "uint32") * ops.cast(_product(shape) // step.num_rows, "uint32")
    draw = random_bits if step.compiled or philox_bits is None else philox_bits
    return draw(seeds, shape, first_place)


def random_bits(seed, shape, first_place=0):
    """Returns uint32 tensors of `shape`, 32 random bits a value: a hash of `seed` (2,) uint32 and the value's place.

    Places count on from `first_place`.
    """
    seed = ops.cast(seed, "uint32")
    key = _mixed(seed[1] * _uint32(_WEYL) + seed[0])
    places = ops.cast(ops.arange(_product(shape), dtype="int32"), "uint32") + ops.cast(first_place, "uint32")
    return _mixed(ops.reshape(places, shape), key)


def _product(shape):
    """The number of values, a tensor where a size is one."""
    num_values = 1
    for size in shape:
        num_values = num_values * size
    return num_values


def _mixed(bits, key=None):
    """Every bit of the result depends on every bit given; `key` goes in half-way, so keys do not shift the places."""
    bits = ops.bitwise_xor(bits, ops.right_shift(bits, _uint32(_SHIFTS[0])))
    bits = bits * _uint32(_MULTIPLIERS[0])
    if key is not None:
        bits = bits + key
    bits = ops.bitwise_xor(bits, ops.right_shift(bits, _uint32(_SHIFTS[1])))
    bits = bits * _uint32(_MULTIPLIERS[1])
    return ops.bitwise_xor(bits, ops.right_shift(bits, _uint32(_SHIFTS[2])))


def _uint32(value: int):
    return ops.convert_to_tensor(value, dtype="uint32")
