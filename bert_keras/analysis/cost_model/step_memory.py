"""The memory and time of a training step, for batches of every shape.

The time follows from the measured speed of this machine.
"""

import bisect
import collections
import dataclasses
import functools
import gc
import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterable
from typing import NamedTuple

import keras
import tensorflow as tf

from bert_keras.analysis.cost_model import sized_graph
from bert_keras.analysis.cost_model.workloads import MATRIX_PRODUCTS, BatchShape, Workload, list_dimensions
from bert_keras.training.strategies import dtype_policy_scope

# Memory of a process in addition to its tensors: the libraries that `bert-keras` loads, and the runtime with its graph.
# Fitted to steps of tiny, mini, small and base (docs/guide/planning.md)
_LIBRARY_BYTES = 0.9e9
_RUNTIME_BYTES, _BYTES_PER_OPERATION, _BYTES_PER_PARAMETER = 183e6, 44e3, 6.5
_XLA_RUNTIME_BYTES, _XLA_BYTES_PER_OPERATION = 310e6, 105e3  # includes the machine code
_SHARE_RETAINED_BY_XLA = 0.3  # on a CPU, of the activations that gradient checkpointing should drop

DTYPE_POLICIES = ("float32", "mixed_bfloat16")
_MAX_BATCH_SIZE = 2**24  # the largest that `largest_batch` tries

_ARGUMENTS = {"MatMul": ("a", "b", "transpose_a", "transpose_b"), "BatchMatMulV2": ("x", "y", "adj_x", "adj_y")}
_MAX_MEASURED_TOKENS = 4096  # per batch; the time of larger batches is extrapolated from a batch of this size
_NUM_ROUNDS, _MIN_SECONDS, _MIN_RUNS = 3, 0.02, 3  # for each product
# Fitted to steps of tiny, mini, small and base on two cores (benchmarks/planning.py): the time to start an operation,
# and the share of memory traffic that remains where XLA fuses operations
_SECONDS_PER_OPERATION, _XLA_TRAFFIC = 8e-6, 0.5
# What AdamW adds to plain gradient descent, from its graph
_ADAMW_OPERATIONS_PER_WEIGHT, _ADAMW_BYTES_PER_PARAMETER = 22, 104


@dataclasses.dataclass(frozen=True)
class Memory:
    """Memory of a training step on batches of one shape, in bytes.

    Attributes:
        dtype_policy: Keras dtype policy: "float32" or "mixed_bfloat16".
        gradient_checkpointing: whether the backward pass recomputes the activations inside the blocks.
        batch_size, length: B and S.
        weights: weights and other state of the model.
        gradients: gradients of the trainable weights.
        optimizer: AdamW's two moments.
        activations: tensors that the forward pass stores for the backward pass.
        attention_scores: the part of `activations` of shape (B, N, S, S), in all blocks: attention probabilities and
            their dropout.
        tensors: peak of all tensors except weights and optimizer: gradients, activations and temporary results.
        process: memory of the process: weights, optimizer, tensors, libraries, and TensorFlow's runtime. An estimate
            for a CPU, see docs/guide/planning.md.
        largest_batch: largest batch size for which `process` is within the memory limit; 0 if no batch fits, None
            without a limit.
    """

    dtype_policy: str
    gradient_checkpointing: bool
    batch_size: int
    length: int
    weights: int
    gradients: int
    optimizer: int
    activations: int
    attention_scores: int
    tensors: int
    process: int
    largest_batch: int | None


class TrainingMemory:
    """Memory of the training steps of a model with AdamW, for batches of every shape.

    Traces the step of `fit` once without computing it. The model is not stored.

    Args:
        model: a model for which `Workload.is_trainable`; it is compiled with another optimizer.
        gradient_checkpointing: see `BertEncoder`.
        jit_compile: whether XLA compiles the step.
        dropout: whether the step applies dropout.
        without_checkpointing: the same step without checkpointing, because XLA retains a share of its activations;
            None if this is that step.
        in_float32: the same step in float32, because XLA computes in float32 on a CPU; None if this is that step.

    Attributes:
        graph: the traced step, with a stateless optimizer: AdamW's operations would be most of the graph.
        jit_compile: as given.
        num_trainable: number of trainable weights.
        num_trainable_parameters: total size of the trainable weights.
    """

    def __init__(
        self,
        model: keras.Model,
        *,
        gradient_checkpointing: bool = False,
        jit_compile: bool = False,
        dropout: bool = True,
        without_checkpointing: "TrainingMemory | None" = None,
        in_float32: "TrainingMemory | None" = None,
    ) -> None:
        self._dtype_policy, self._num_parameters = model.dtype_policy.name, model.count_params()
        self._gradient_checkpointing, self.jit_compile = gradient_checkpointing, jit_compile
        self.num_trainable = len(model.trainable_weights)
        self.num_trainable_parameters = sum(math.prod(weight.shape) for weight in model.trainable_weights)
        self._without_checkpointing, self._in_float32 = without_checkpointing, in_float32
        self._weights, self._gradients = count_bytes(model.weights), count_bytes(model.trainable_weights)
        self._optimizer = 2 * self._gradients  # AdamW's two moments
        model.compile("sgd", gradient_checkpointing=gradient_checkpointing, jit_compile=jit_compile, dropout=dropout)

        def make_specs(shape: BatchShape) -> tuple:
            return (Workload(model, shape).example_specs(),)

        max_length = model.encoder.config.max_sequence_length
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Gradients do not exist")  # for a pooler that the head does not use
            model.build_step(*make_specs(BatchShape(2, 2, 2)))
            self.graph = sized_graph.SizedGraph(model.train_step, make_specs, max_length, list_dimensions(model))
        self._lifetimes = sized_graph.Lifetimes(self.graph)

    def estimate(self, shape: BatchShape, limit: float | None = None) -> Memory:
        """Estimate the memory of steps on batches of this shape.

        Args:
            shape: shape of the batch.
            limit: bytes that the process may use, for `Memory.largest_batch`.
        """
        length = self.graph.traced_shape.length
        attention_scores = self._lifetimes.activation_bytes(
            shape,  # transposed keys are (B, N, H, S)
            lambda tensor, one: len(tensor.shape) == 4 and tensor.shape[-1] == length and one.kind != "Transpose",
        )
        return Memory(
            dtype_policy=self._dtype_policy,
            gradient_checkpointing=self._gradient_checkpointing,
            batch_size=shape.batch_size,
            length=shape.length,
            weights=self._weights,
            gradients=self._gradients,
            optimizer=self._optimizer,
            activations=self._lifetimes.activation_bytes(shape),
            attention_scores=attention_scores,
            tensors=self._lifetimes.peak_bytes(shape),
            process=self.estimate_process(shape),
            largest_batch=None if limit is None else self.largest_batch(shape, limit),
        )

    def estimate_process(self, shape: BatchShape, num_micro_batches: int = 1) -> int:
        """Estimate the bytes of the process, see `Memory.process`.

        Args:
            shape: shape of a micro-batch.
            num_micro_batches: micro-batches per step; with more than one, their gradients are accumulated.
        """
        if self.jit_compile and self._in_float32 is not None:
            return self._in_float32.estimate_process(shape, num_micro_batches)
        num_bytes = _LIBRARY_BYTES + self._weights + self._optimizer + self._lifetimes.peak_bytes(shape)
        num_bytes += self._gradients if num_micro_batches > 1 else 0
        num_operations = len(self.graph.operations)
        if not self.jit_compile:
            num_bytes += _RUNTIME_BYTES + _BYTES_PER_OPERATION * num_operations
            return int(num_bytes + _BYTES_PER_PARAMETER * self._num_parameters)
        num_bytes += _XLA_RUNTIME_BYTES + _XLA_BYTES_PER_OPERATION * num_operations
        if self._without_checkpointing is not None:
            all_activations = self._without_checkpointing._lifetimes.activation_bytes(shape)
            num_bytes += _SHARE_RETAINED_BY_XLA * (all_activations - self._lifetimes.activation_bytes(shape))
        return int(num_bytes)

    def largest_batch(self, shape: BatchShape, limit: float, num_micro_batches: int = 1) -> int:
        """Return the largest size of a (micro-)batch for which the process needs at most `limit` bytes.

        Args:
            shape: shape of a batch; only its length and its masked positions count.
            limit: bytes that the process may use.
            num_micro_batches: micro-batches per step.
        """

        def estimate(batch_size: int) -> int:
            return self.estimate_process(dataclasses.replace(shape, batch_size=batch_size), num_micro_batches)

        return bisect.bisect_right(range(1, _MAX_BATCH_SIZE + 1), limit, key=estimate)


def trace_training_memory(
    model: keras.Model, *, jit_compile: bool, dropout: bool = True
) -> dict[tuple[str, bool], TrainingMemory]:
    """Trace the training step in float32 and bfloat16, each without and with gradient checkpointing.

    Args:
        model: a model for which `Workload.is_trainable`; it is not changed.
        jit_compile: whether XLA compiles the step.
        dropout: whether the step applies dropout.

    Returns:
        The memory, keyed by dtype policy and checkpointing.
    """
    memories = {}
    for policy in DTYPE_POLICIES:  # float32 first, because the others refer to it
        copy = _copy_with_policy(model, policy)
        for checkpointing in (False, True):
            memories[policy, checkpointing] = TrainingMemory(
                copy,
                gradient_checkpointing=checkpointing,
                jit_compile=jit_compile,
                dropout=dropout,
                without_checkpointing=memories.get((policy, False)),
                in_float32=memories.get(("float32", checkpointing)),
            )
        del copy
        gc.collect()  # TensorFlow's functions and their weights reference each other
    return memories


def _copy_with_policy(model: keras.Model, policy: str) -> keras.Model:
    """Return a new model of the same architecture with another dtype policy."""

    def remove_dtypes(config: object) -> object:  # of nested models, so that the default applies
        if not isinstance(config, dict):
            return config
        return {name: remove_dtypes(value) for name, value in config.items() if name != "dtype"}

    with dtype_policy_scope(policy):
        return type(model).from_config(remove_dtypes(model.get_config()))


def count_bytes(variables: Iterable) -> int:
    """Return the size of variables in bytes."""
    return sum(math.prod(variable.shape) * tf.as_dtype(variable.dtype).size for variable in variables)


class Product(NamedTuple):
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

    def time_products(self, products: Iterable[Product]) -> list[float]:
        """Return the seconds of each product on random numbers.

        Measures all products in three rounds and takes the minimum, because a short disturbance of the machine affects
        only one of the three.
        """
        products = list(products)
        new = [product for product in products if product not in self._seconds]
        for _ in range(_NUM_ROUNDS):
            for product in new:
                factors = [
                    tf.cast(tf.random.stateless_normal(shape, (0, 1)), product.dtype) for shape in product.shapes
                ]
                arguments = dict(zip(_ARGUMENTS[product.kind], (*factors, *product.transposes), strict=True))
                seconds = _time_median(functools.partial(getattr(tf.raw_ops, product.kind), **arguments))
                self._seconds[product] = min(seconds, self._seconds.get(product, seconds))
        return [self._seconds[product] for product in products]

    @functools.cached_property
    def bytes_per_second(self) -> float:
        """The bytes per second that an addition of two arrays of 32 MB reads and writes."""
        values = tf.ones((8_000_000,))
        return 3 * 32e6 / _time_median(lambda: tf.add(values, values))


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
        excluded = (*MATRIX_PRODUCTS, *sized_graph.ALIASES, *sized_graph.NOT_ALLOCATED)
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
        products: collections.Counter[Product] = collections.Counter()
        for one in self._products:
            shapes = tuple(self._graph.scale_shape(tensor, measured) for tensor in one.inputs)
            products[Product(one.kind, shapes, one.transposes, one.inputs[0].dtype)] += 1
        seconds = self._machine.time_products(products)
        total = sum(number * each for number, each in zip(products.values(), seconds, strict=True))
        return total * shape.batch_size / batch_size

    def _estimate_traffic(self, num_bytes: float, num_operations: int) -> float:
        seconds = num_bytes / self._machine.bytes_per_second
        return _XLA_TRAFFIC * seconds if self._jit_compile else seconds + _SECONDS_PER_OPERATION * num_operations


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
