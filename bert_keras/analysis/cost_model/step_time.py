"""How long a training step takes: its products of matrices at the speed that this machine shows, and all else."""

import collections
import dataclasses
import statistics
import time
from collections.abc import Callable, Iterable

import tensorflow as tf

from bert_keras.analysis.cost_model.tracing.flops import PRODUCTS
from bert_keras.analysis.cost_model.tracing.lifetimes import ALIASES, NOT_MADE
from bert_keras.analysis.cost_model.tracing.sized_graph import SizedOperation, Sizes
from bert_keras.analysis.cost_model.training_memory import TrainingMemory

_ARGUMENTS = {"MatMul": ("a", "b", "transpose_a", "transpose_b"), "BatchMatMulV2": ("x", "y", "adj_x", "adj_y")}
_MEASURED_TOKENS = 4096  # in a batch; of a larger one this much is measured, and counted as often as it is in there
_ROUNDS, _SECONDS, _LEAST_RUNS = 3, 0.02, 3  # for each product
# Fitted to real steps of tiny, mini, small and base on two cores (benchmarks/planning.py): what starting an operation
# takes, and the share of the bytes that still move where XLA writes a chain of operations as one
_SECONDS_AN_OPERATION, _MOVED_COMPILED = 8e-6, 0.5
# What AdamW comes to beside plain gradient descent, by its graph: operations a weight, and bytes a parameter
_ADAMW_OPERATIONS, _ADAMW_BYTES = 22, 104


@dataclasses.dataclass(frozen=True)
class Product:
    """A product of two matrices, or of two stacks of them.

    Attributes:
        kind: TensorFlow's name.
        shapes: of the two.
        turned: whether each is transposed first.
        dtype: of both.
    """

    kind: str
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    turned: tuple[bool, ...]
    dtype: str


class MachineSpeed:
    """What this machine does in a second: measured when it is first asked."""

    def __init__(self):
        self._seconds: dict[Product, float] = {}
        self._moved: float | None = None

    def seconds_of(self, products: Iterable[Product]) -> list[float]:
        """Returns the seconds that each product takes here, on random numbers.

        All are timed in turn, three times over, and the least counts: what disturbs the machine for a moment spoils one
        of three.
        """
        products = list(products)
        new = [product for product in products if product not in self._seconds]
        for _ in range(_ROUNDS):
            for product in new:
                seconds = _median_seconds(_runner(product))
                self._seconds[product] = min(seconds, self._seconds.get(product, seconds))
        return [self._seconds[product] for product in products]

    @property
    def moved_bytes_a_second(self) -> float:
        """What a sum of two arrays of 32 MB reads and writes in a second."""
        if self._moved is None:
            values = tf.ones((8_000_000,))
            self._moved = 3 * 32e6 / _median_seconds(lambda: tf.add(values, values))
        return self._moved


class StepTime:
    """The time of a model's training steps on this machine.

    Args:
        training: the step as it is traced.
        machine: how fast this one is.
    """

    def __init__(self, training: TrainingMemory, machine: MachineSpeed):
        self._graph, self._machine, self._jit_compile = training.graph, machine, training.jit_compile
        self._products = [operation for operation in self._graph.operations if operation.kind in PRODUCTS]
        others = [one for one in self._graph.operations if one.kind not in (*PRODUCTS, *ALIASES, *NOT_MADE)]
        self._moved = self._graph.bytes_of([tensor for one in others for tensor in (*one.inputs, *one.outputs)])
        self._num_others, self._num_of_adamw = len(others), _ADAMW_OPERATIONS * training.num_trained
        self._moved_by_adamw = _ADAMW_BYTES * training.num_trained_parameters

    def seconds(self, sizes: Sizes, parts: int = 1) -> float:
        """Returns an estimate of the seconds that a step takes.

        Every product is timed on this machine, on random numbers, and all other operations are taken to last as long as
        reading and writing what they read and write.

        Args:
            sizes: of a batch, or of each part where a step is cut into `parts`. The optimizer moves weights once.
        """
        others = self._moving_seconds(float(self._moved(sizes).sum()), self._num_others)
        update = self._moving_seconds(self._moved_by_adamw, self._num_of_adamw)
        return parts * (self.product_seconds(sizes) + others) + update

    def product_seconds(self, sizes: Sizes) -> float:
        """Returns what the products of matrices take, one after the other."""
        measured = max(1, min(sizes.batch_size, _MEASURED_TOKENS // sizes.length))
        products = collections.Counter(
            self._product(one, dataclasses.replace(sizes, batch_size=measured)) for one in self._products
        )
        seconds = zip(products.values(), self._machine.seconds_of(products), strict=True)
        return sum(number * of_one for number, of_one in seconds) * sizes.batch_size / measured

    def _moving_seconds(self, num_bytes: float, num_operations: int) -> float:
        moving = num_bytes / self._machine.moved_bytes_a_second
        return _MOVED_COMPILED * moving if self._jit_compile else moving + _SECONDS_AN_OPERATION * num_operations

    def _product(self, operation: SizedOperation, sizes: Sizes) -> Product:
        first, second = (self._graph.shape_of(tensor, sizes) for tensor in operation.inputs)
        return Product(operation.kind, (first, second), operation.turned, operation.inputs[0].dtype)


def _runner(product: Product) -> Callable:
    """Returns a function that computes a product of random numbers."""
    numbers = (tf.random.stateless_normal(shape, (0, 1)) for shape in product.shapes)
    values = (*(tf.cast(one, product.dtype) for one in numbers), *product.turned)
    arguments = dict(zip(_ARGUMENTS[product.kind], values, strict=True))
    return lambda: getattr(tf.raw_ops, product.kind)(**arguments)


def _median_seconds(compute: Callable) -> float:
    compute()  # what is made once
    seconds: list[float] = []
    began = time.perf_counter()
    while len(seconds) < _LEAST_RUNS or time.perf_counter() - began < _SECONDS:
        start = time.perf_counter()
        compute()
        tf.test.experimental.sync_devices()  # a GPU returns before it is done
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)
