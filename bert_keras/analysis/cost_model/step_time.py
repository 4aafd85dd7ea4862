"""`StepTime`: the time of a training step, from the measured speed of this machine."""

import collections
import dataclasses
import statistics
import time
from collections.abc import Callable, Iterable

import tensorflow as tf

from bert_keras.analysis.cost_model.step_memory import TrainingMemory
from bert_keras.analysis.cost_model.tracing.lifetimes import ALIASES, NOT_ALLOCATED
from bert_keras.analysis.cost_model.tracing.operations import MATRIX_PRODUCTS
from bert_keras.analysis.cost_model.tracing.sized_graph import BatchShape, SizedOperation

_ARGUMENTS = {"MatMul": ("a", "b", "transpose_a", "transpose_b"), "BatchMatMulV2": ("x", "y", "adj_x", "adj_y")}
_MAX_MEASURED_TOKENS = 4096  # per batch; the time of larger batches is extrapolated from a batch of this size
_NUM_ROUNDS, _MIN_SECONDS, _MIN_RUNS = 3, 0.02, 3  # for each product
# Fitted to steps of tiny, mini, small and base on two cores (benchmarks/planning.py): the time to start an operation,
# and the share of memory traffic that remains where XLA fuses operations
_SECONDS_PER_OPERATION, _XLA_TRAFFIC = 8e-6, 0.5
# What AdamW adds to plain gradient descent, from its graph
_ADAMW_OPERATIONS_PER_WEIGHT, _ADAMW_BYTES_PER_PARAMETER = 22, 104


@dataclasses.dataclass(frozen=True)
class Product:
    """A product of two matrices, or of two batches of matrices.

    Attributes:
        kind: TensorFlow's operation type.
        shapes: shapes of the two factors.
        transposes: whether each factor is transposed first.
        dtype: data type of both factors.
    """

    kind: str
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    transposes: tuple[bool, ...]
    dtype: str


class MachineSpeed:
    """The speed of this machine, measured when it is first needed."""

    def __init__(self) -> None:
        self._seconds: dict[Product, float] = {}
        self._bytes_per_second: float | None = None

    def time_products(self, products: Iterable[Product]) -> list[float]:
        """Return the seconds of each product on random numbers.

        Measures all products in three rounds and takes the minimum, because a short disturbance of the machine affects
        only one of the three.
        """
        products = list(products)
        new = [product for product in products if product not in self._seconds]
        for _ in range(_NUM_ROUNDS):
            for product in new:
                seconds = _time_median(_make_runner(product))
                self._seconds[product] = min(seconds, self._seconds.get(product, seconds))
        return [self._seconds[product] for product in products]

    @property
    def bytes_per_second(self) -> float:
        """The bytes per second that an addition of two arrays of 32 MB reads and writes."""
        if self._bytes_per_second is None:
            values = tf.ones((8_000_000,))
            self._bytes_per_second = 3 * 32e6 / _time_median(lambda: tf.add(values, values))
        return self._bytes_per_second


class StepTime:
    """The time of the training steps of a model on this machine.

    Measures every matrix product on this machine; all other operations are assumed to take as long as reading their
    inputs and writing their outputs.

    Args:
        training: the traced step.
        machine: the speed of this machine.
    """

    def __init__(self, training: TrainingMemory, machine: MachineSpeed) -> None:
        self._graph, self._machine, self._jit_compile = training.graph, machine, training.jit_compile
        self._products = [operation for operation in self._graph.operations if operation.kind in MATRIX_PRODUCTS]
        excluded = (*MATRIX_PRODUCTS, *ALIASES, *NOT_ALLOCATED)
        others = [operation for operation in self._graph.operations if operation.kind not in excluded]
        tensors = [tensor for one in others for tensor in one.inputs + one.outputs]
        self._count_traffic = self._graph.byte_counter(tensors)
        self._num_others, self._num_adamw = len(others), _ADAMW_OPERATIONS_PER_WEIGHT * training.num_trainable
        self._adamw_bytes = _ADAMW_BYTES_PER_PARAMETER * training.num_trainable_parameters

    def estimate(self, shape: BatchShape, num_micro_batches: int = 1) -> float:
        """Estimate the seconds of a step.

        Args:
            shape: shape of a micro-batch.
            num_micro_batches: micro-batches per step; the optimizer updates the weights once.
        """
        others = self._estimate_traffic(float(self._count_traffic(shape).sum()), self._num_others)
        update = self._estimate_traffic(self._adamw_bytes, self._num_adamw)
        return num_micro_batches * (self.measure_products(shape) + others) + update

    def measure_products(self, shape: BatchShape) -> float:
        """Measure the seconds of all matrix products of a forward and backward pass."""
        batch_size = max(1, min(shape.batch_size, _MAX_MEASURED_TOKENS // shape.length))
        measured = dataclasses.replace(shape, batch_size=batch_size)
        products = collections.Counter(self._make_product(operation, measured) for operation in self._products)
        seconds = self._machine.time_products(products)
        total = sum(number * each for number, each in zip(products.values(), seconds, strict=True))
        return total * shape.batch_size / batch_size

    def _estimate_traffic(self, num_bytes: float, num_operations: int) -> float:
        seconds = num_bytes / self._machine.bytes_per_second
        return _XLA_TRAFFIC * seconds if self._jit_compile else seconds + _SECONDS_PER_OPERATION * num_operations

    def _make_product(self, operation: SizedOperation, shape: BatchShape) -> Product:
        first, second = (self._graph.scale_shape(tensor, shape) for tensor in operation.inputs)
        return Product(operation.kind, (first, second), operation.transposes, operation.inputs[0].dtype)


def _make_runner(product: Product) -> Callable:
    """Return a function that computes a product of random numbers."""
    factors = [tf.cast(tf.random.stateless_normal(shape, (0, 1)), product.dtype) for shape in product.shapes]
    arguments = dict(zip(_ARGUMENTS[product.kind], (*factors, *product.transposes), strict=True))
    return lambda: getattr(tf.raw_ops, product.kind)(**arguments)


def _time_median(compute: Callable) -> float:
    compute()  # the first call includes one-time work
    seconds: list[float] = []
    start = time.perf_counter()
    while len(seconds) < _MIN_RUNS or time.perf_counter() - start < _MIN_SECONDS:
        before = time.perf_counter()
        compute()
        tf.test.experimental.sync_devices()  # GPU calls return before they finish
        seconds.append(time.perf_counter() - before)
    return statistics.median(seconds)
