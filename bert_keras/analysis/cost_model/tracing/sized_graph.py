"""`SizedGraph`: a function that is traced once and known for batches of every shape.

It is traced on a batch whose rows, tokens and masked slots are three primes. Each size in it then tells by itself how
it grows: 12 * B * S * S has those factors and no others. Models also read the slots together with [CLS], M + 1
positions a row, which is made to be twice a fourth prime. Nothing is computed, and no weights are kept.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import tensorflow as tf

from bert_keras.analysis.cost_model.tracing.recording import graph_of, needed_operations
from bert_keras.errors import InputError

_NO_ARRAY = (tf.resource, tf.variant, tf.string)
# B * M * vocabulary and B * heads * S * S are to stay below 2^31, since places in them are counted in 32 bits
_MOST_ROWS, _MOST_TOKENS, _MOST_SLOTS = 101, 512, 103
_TURNS = {"MatMul": ("transpose_a", "transpose_b"), "BatchMatMulV2": ("adj_x", "adj_y")}


@dataclasses.dataclass(frozen=True)
class Sizes:
    """What shapes a batch: rows (B), tokens in a row (S), masked slots in a row (M)."""

    batch_size: int
    length: int
    num_slots: int


@dataclasses.dataclass(frozen=True, eq=False)
class SizedTensor:
    """A tensor of a traced function; two with the same numbers are still two.

    Attributes:
        shape: on the batch that was traced; () where it has none.
        dtype: "float32".
        num_bytes: on that batch; 0 of what is no array.
    """

    shape: tuple[int, ...]
    dtype: str
    num_bytes: int


@dataclasses.dataclass(frozen=True, eq=False)
class SizedOperation:
    """An operation of a traced function.

    Attributes:
        kind: TensorFlow's name for it, such as "MatMul".
        name: its own, with the scopes around it.
        inputs, outputs: what it reads and makes.
        turned: of a product, whether each factor is transposed first.
    """

    kind: str
    name: str
    inputs: tuple[SizedTensor, ...]
    outputs: tuple[SizedTensor, ...]
    turned: tuple[bool, ...]


class SizedGraph:
    """The operations of a traced function, in the order of the program, and the sizes of their tensors.

    Args:
        function: any that TensorFlow can trace.
        specs_of: gives the specs of its arguments for `Sizes`.
        longest: the most tokens that a row may have; at most 512 are traced.
        constants: sizes that a tensor may have whatever the batch, such as the dimensions of weights.

    Attributes:
        traced_on: the three primes.
        operations: those that TensorFlow runs.
        outputs: what the function returns.

    Raises:
        InputError: rows are so short that no prime is left for them.

    Example:
        >>> graph = SizedGraph(lambda x: x + 1, lambda sizes: [tf.TensorSpec((sizes.batch_size, 3))], 512, {3})
        >>> graph.bytes_of(graph.outputs)(Sizes(batch_size=10, length=1, num_slots=1)).tolist()
        [120]
    """

    def __init__(
        self, function: Callable, specs_of: Callable[[Sizes], Sequence], longest: int, constants: Iterable[int]
    ):
        self.traced_on = _sizes_to_trace(longest, set(constants))
        graph = graph_of(function, *specs_of(self.traced_on))
        tensors = {}

        def sized(tensor: tf.Tensor) -> SizedTensor:
            return tensors.setdefault(tensor.ref(), _sized(tensor))

        self.operations = [
            SizedOperation(
                one.type, one.name, tuple(map(sized, one.inputs)), tuple(map(sized, one.outputs)), _turned(one)
            )
            for one in needed_operations(graph, with_effects=True)
        ]
        self.outputs = [sized(tensor) for tensor in graph.outputs]

    def bytes_of(self, tensors: Sequence[SizedTensor]) -> Callable[[Sizes], np.ndarray]:
        """Returns a function that tells the bytes of each tensor, int64, on batches of given sizes."""
        factors = np.array([self._factors(tensor.num_bytes) for tensor in tensors], np.int64).reshape(-1, 5)
        return lambda sizes: factors[:, 0] * np.prod(np.array(_growing(sizes)) ** factors[:, 1:], axis=1)

    def shape_of(self, tensor: SizedTensor, sizes: Sizes) -> tuple[int, ...]:
        """Returns the shape of a tensor on batches of given sizes."""
        return tuple(self._scaled(size, sizes) for size in tensor.shape)

    def _scaled(self, number: int, sizes: Sizes) -> int:
        constant, *powers = self._factors(number)
        grown = (size**power for size, power in zip(_growing(sizes), powers, strict=True))
        return constant * math.prod(grown)

    def _factors(self, number: int) -> tuple[int, ...]:
        """Returns what of a number does not grow, and how often B, S, M and M + 1 are in it."""
        powers = []
        for size in _growing(self.traced_on):
            powers.append(0)
            while number and number % size == 0:
                number, powers[-1] = number // size, powers[-1] + 1
        return number, *powers


def _growing(sizes: Sizes) -> tuple[int, int, int, int]:
    return sizes.batch_size, sizes.length, sizes.num_slots, sizes.num_slots + 1


def _sized(tensor: tf.Tensor) -> SizedTensor:
    is_list_of_axes = tensor.shape.rank == 1 and tensor.dtype.is_integer and tensor.shape[0] is None  # Keras 3.12
    if tensor.shape.rank is None or tensor.dtype in _NO_ARRAY or is_list_of_axes:
        return SizedTensor((), tensor.dtype.name, 0)
    shape = tuple(tensor.shape)
    return SizedTensor(shape, tensor.dtype.name, math.prod(shape) * tensor.dtype.size)


def _turned(operation: tf.Operation) -> tuple[bool, ...]:
    return tuple(operation.get_attr(name) for name in _TURNS.get(operation.type, ()))


def _sizes_to_trace(longest: int, constants: set[int]) -> Sizes:
    """Returns the largest sizes whose primes divide no constant: B, S, M, and half of M + 1."""

    def is_free(number: int) -> bool:
        is_prime = all(number % divisor for divisor in range(2, math.isqrt(number) + 1))
        return is_prime and all(constant % number for constant in constants)

    def of_slots(number: int) -> bool:
        primes = {number, (number + 1) // 2}
        return number % 2 == 1 and all(map(is_free, primes)) and not primes & {rows, length}

    rows = next(filter(is_free, range(_MOST_ROWS, 1, -1)), None)
    length = next((one for one in range(min(longest, _MOST_TOKENS), 1, -1) if is_free(one) and one != rows), None)
    slots = next(filter(of_slots, range(_MOST_SLOTS, 4, -1)), None)
    if rows is None or length is None or slots is None:
        raise InputError(
            f"rows of at most {longest} tokens are too short to tell what grows with them; expected a model that reads "
            "more: ask for its parameters and operations alone"
        )
    return Sizes(rows, length, slots)
