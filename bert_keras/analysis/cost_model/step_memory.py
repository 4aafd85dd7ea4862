"""The memory of a training step and of a forward pass, for batches of every shape."""

import bisect
import dataclasses
import gc
import math
import typing
import warnings
from collections.abc import Iterable

import keras
import tensorflow as tf

from bert_keras.analysis.cost_model.tracing.lifetimes import Lifetimes
from bert_keras.analysis.cost_model.tracing.sized_graph import BatchShape, SizedGraph, SizedOperation, SizedTensor
from bert_keras.analysis.cost_model.workloads import Workload, choose_default_lengths, list_dimensions
from bert_keras.checkpoints.building import get_encoder
from bert_keras.training.strategies import dtype_policy_scope

# Memory of a process in addition to its tensors: the libraries that `bert-keras` loads, and the runtime with its graph.
# Fitted to steps of tiny, mini, small and base (docs/guide/planning.md)
_LIBRARY_BYTES = 0.9e9
_RUNTIME_BYTES, _BYTES_PER_OPERATION, _BYTES_PER_PARAMETER = 183e6, 44e3, 6.5
_XLA_RUNTIME_BYTES, _XLA_BYTES_PER_OPERATION = 310e6, 105e3  # includes the machine code
_SHARE_RETAINED_BY_XLA = 0.3  # on a CPU, of the activations that gradient checkpointing should drop

DTYPE_POLICIES = ("float32", "mixed_bfloat16")
_MAX_BATCH_SIZE = 2**24  # the largest that `largest_batch` tries


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


@dataclasses.dataclass(frozen=True)
class InferenceMemory:
    """Memory of a forward pass in inference on batches of one shape, in bytes.

    Attributes:
        batch_size, length: B and S.
        weights: weights of the model.
        tensors: peak of all other tensors.
        attention_scores: float32 attention probabilities of all blocks, (B, N, S, S) each. If the head uses only some
            positions, the last block has only the queries at these positions.
    """

    batch_size: int
    length: int
    weights: int
    tensors: int
    attention_scores: int


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
        self._weights, self._gradients = _count_bytes(model.weights), _count_bytes(model.trainable_weights)
        self._optimizer = 2 * self._gradients  # AdamW's two moments
        model.compile("sgd", gradient_checkpointing=gradient_checkpointing, jit_compile=jit_compile, dropout=dropout)

        def make_specs(shape: BatchShape) -> tuple:
            return (Workload(model, shape).example_specs(),)

        max_length = model.encoder.config.max_sequence_length
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Gradients do not exist")  # for a pooler that the head does not use
            model.build_step(*make_specs(BatchShape(2, 2, 2)))
            self.graph = SizedGraph(model.train_step, make_specs, max_length, list_dimensions(model))
        self._lifetimes = Lifetimes(self.graph)

    def estimate(self, shape: BatchShape, limit: float | None = None) -> Memory:
        """Estimate the memory of steps on batches of this shape.

        Args:
            shape: shape of the batch.
            limit: bytes that the process may use, for `Memory.largest_batch`.
        """
        return Memory(
            dtype_policy=self._dtype_policy,
            gradient_checkpointing=self._gradient_checkpointing,
            batch_size=shape.batch_size,
            length=shape.length,
            weights=self._weights,
            gradients=self._gradients,
            optimizer=self._optimizer,
            activations=self._lifetimes.activation_bytes(shape),
            attention_scores=self._lifetimes.activation_bytes(shape, self._has_shape_of_scores),
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

    def _has_shape_of_scores(self, tensor: SizedTensor, operation: SizedOperation) -> bool:
        is_over_keys = len(tensor.shape) == 4 and tensor.shape[-1] == self.graph.traced_shape.length
        return is_over_keys and operation.kind != "Transpose"  # transposed keys are (B, N, H, S)


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


def estimate_inference_memory(model: keras.Model, batch_size: int = 1) -> list[InferenceMemory]:
    """Estimate the memory of a forward pass for sequences of 32, 64, 128, ... tokens, up to the model's maximum.

    Args:
        model: any model; it is traced once, and nothing is computed.
        batch_size: B.
    """
    max_length = get_encoder(model).config.max_sequence_length

    def make_specs(shape: BatchShape) -> tuple:
        return (Workload(model, shape).feature_specs(),)

    graph = SizedGraph(lambda features: model(features, training=False), make_specs, max_length, list_dimensions(model))
    lifetimes, weights = Lifetimes(graph), _count_bytes(model.weights)
    softmaxes = [one for one in graph.operations if one.kind == "Softmax" and "/attention" in one.name]
    count_scores = graph.byte_counter([softmax.outputs[0] for softmax in softmaxes])
    shapes = [BatchShape(batch_size, length) for length in choose_default_lengths(max_length)]
    return [
        InferenceMemory(batch_size, one.length, weights, lifetimes.peak_bytes(one), int(count_scores(one).sum()))
        for one in shapes
    ]


def _copy_with_policy(model: keras.Model, policy: str) -> keras.Model:
    """Return a new model of the same architecture with another dtype policy."""
    with dtype_policy_scope(policy):
        return type(model).from_config(_remove_dtypes(model.get_config()))


def _remove_dtypes(config: typing.Any) -> typing.Any:
    """Remove the data types from the config of nested models, so that the default applies."""
    if isinstance(config, dict):
        return {name: _remove_dtypes(value) for name, value in config.items() if name != "dtype"}
    return config


def _count_bytes(variables: Iterable) -> int:
    return sum(math.prod(variable.shape) * tf.as_dtype(variable.dtype).size for variable in variables)
