"""What a training step holds in memory: weights, gradients, the optimizer, activations, and what comes with them."""

import dataclasses
import gc
import math
import os
import pathlib
import warnings
from collections.abc import Iterable

import keras
import tensorflow as tf

from bert_keras.analysis.cost_model.tracing.lifetimes import Lifetimes
from bert_keras.analysis.cost_model.tracing.sized_graph import SizedGraph, SizedOperation, SizedTensor, Sizes
from bert_keras.analysis.cost_model.workloads import Workload, dimensions_of
from bert_keras.training.dtype_policy import dtype_policy_scope

# What a process needs beside its tensors, fitted to real steps of tiny, mini, small and base (docs/guide/planning.md):
# the libraries as `bert-keras` loads them; TensorFlow's and its graph's own
_LIBRARIES = 0.9e9
_BYTES, _BYTES_AN_OPERATION, _BYTES_A_PARAMETER = 183e6, 44e3, 6.5
_BYTES_COMPILED, _BYTES_AN_OPERATION_COMPILED = 310e6, 105e3  # XLA's own, its machine code among them
_KEPT_BY_XLA = 0.3  # on a CPU, of what checkpointing would drop

DTYPE_POLICIES = ("float32", "mixed_bfloat16")


@dataclasses.dataclass(frozen=True)
class Memory:
    """What a training step on batches of one shape holds, in bytes.

    Attributes:
        dtype_policy: Keras's name for the types: "float32", "mixed_bfloat16".
        gradient_checkpointing: whether the inside of blocks is computed twice and not kept.
        batch_size, length: B and S.
        weights: of the model, and its other state.
        gradients: of the weights that are trained.
        optimizer: AdamW's two moments of each of them.
        activations: what the forward pass keeps for the gradients.
        attention_scores: of these, what has the shape (B, N, S, S), in all blocks: who looks at whom, and its dropout.
        tensors: the most that gradients, activations and what is computed from them take at one moment.
        process: what the process will hold: weights, optimizer and tensors, the libraries, and what TensorFlow needs
            for itself. An estimate for a CPU, see docs/guide/planning.md.
        largest_batch: the most rows with which `process` fits into the memory that was asked for; 0: not even one;
            None: none was asked for.
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
    """The memory of a model's training steps with AdamW, for batches of every shape.

    The real step of `fit` is traced once, nothing is computed, and the model is not kept.

    Args:
        model: one that `Workload.learns`; it is compiled anew.
        gradient_checkpointing: see `BertEncoder`.
        jit_compile: whether XLA compiles the step.
        kept: the same without checkpointing, of which XLA keeps a part; None: it is that.
        in_float32: the same in float32, in which XLA computes on a CPU; None: it is that.

    Attributes:
        graph: the step as it is traced, with an optimizer that remembers nothing: AdamW's part would be most of it.
        jit_compile: as given.
        num_trained, num_trained_parameters: how many weights are trained, and of how many numbers they are.
    """

    def __init__(
        self,
        model: keras.Model,
        *,
        gradient_checkpointing: bool = False,
        jit_compile: bool = False,
        kept: "TrainingMemory | None" = None,
        in_float32: "TrainingMemory | None" = None,
    ):
        self._dtype_policy, self._num_parameters = model.dtype_policy.name, model.count_params()
        self._gradient_checkpointing, self.jit_compile = gradient_checkpointing, jit_compile
        self.num_trained = len(model.trainable_weights)
        self.num_trained_parameters = sum(math.prod(weight.shape) for weight in model.trainable_weights)
        self._kept, self._in_float32 = kept, in_float32
        self._weights, self._gradients = bytes_of_weights(model.weights), bytes_of_weights(model.trainable_weights)
        model.compile("sgd", gradient_checkpointing=gradient_checkpointing, jit_compile=jit_compile)

        def specs_of(sizes: Sizes) -> tuple:
            return (Workload(model, **dataclasses.asdict(sizes)).examples(),)

        longest = model.encoder.config.max_sequence_length
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Gradients do not exist")  # of a pooler that the head does not read
            model.build_step(*specs_of(Sizes(2, 2, 2)))
            self.graph = SizedGraph(model.train_step, specs_of, longest, dimensions_of(model))
        self._lifetimes = Lifetimes(self.graph)

    @property
    def _optimizer(self) -> int:
        return 2 * self._gradients  # AdamW's two moments

    def at(self, sizes: Sizes, limit: float | None = None) -> Memory:
        """Returns the memory of steps on batches of these sizes.

        Args:
            limit: bytes that a process may hold, for `Memory.largest_batch`.
        """
        activations, scores = self._activations(sizes)
        return Memory(
            dtype_policy=self._dtype_policy,
            gradient_checkpointing=self._gradient_checkpointing,
            batch_size=sizes.batch_size,
            length=sizes.length,
            weights=self._weights,
            gradients=self._gradients,
            optimizer=self._optimizer,
            activations=activations,
            attention_scores=scores,
            tensors=self._lifetimes.peak_bytes(sizes),
            process=self.process_bytes(sizes),
            largest_batch=None if limit is None else self.largest_batch(sizes, limit),
        )

    def process_bytes(self, sizes: Sizes, parts: int = 1) -> int:
        """Returns an estimate of what the process holds, see `Memory.process`.

        Args:
            sizes: of a batch, or of a part where a step is cut into `parts`, whose gradients are summed up.
        """
        if self.jit_compile and self._in_float32 is not None:
            return self._in_float32.process_bytes(sizes, parts)
        held = _LIBRARIES + self._weights + self._optimizer + self._lifetimes.peak_bytes(sizes)
        held += self._gradients if parts > 1 else 0
        num_operations = len(self.graph.operations)
        if not self.jit_compile:
            own = _BYTES + _BYTES_AN_OPERATION * num_operations + _BYTES_A_PARAMETER * self._num_parameters
        else:
            own = _BYTES_COMPILED + _BYTES_AN_OPERATION_COMPILED * num_operations
        if self.jit_compile and self._kept is not None:
            own += _KEPT_BY_XLA * (self._kept._activations(sizes)[0] - self._activations(sizes)[0])
        return int(held + own)

    def largest_batch(self, sizes: Sizes, limit: float, parts: int = 1) -> int:
        """Returns the most rows, of these tokens and slots, with which the process holds no more than `limit` bytes.

        Args:
            parts: into how many a step is cut; the rows are those of a part.
        """

        def fits(rows: int) -> bool:
            return self.process_bytes(dataclasses.replace(sizes, batch_size=rows), parts) <= limit

        if not fits(1):
            return 0
        fitting, too_many = 1, 2
        while fits(too_many):
            fitting, too_many = too_many, 2 * too_many
        while too_many - fitting > 1:
            middle = (fitting + too_many) // 2
            fitting, too_many = (middle, too_many) if fits(middle) else (fitting, middle)
        return fitting

    def _activations(self, sizes: Sizes) -> tuple[int, int]:
        """Returns the bytes of what is kept for the gradients, and of what of it has the shape of scores."""
        kept = self._lifetimes.kept_bytes
        return kept(sizes), kept(sizes, of=self._has_shape_of_scores)

    def _has_shape_of_scores(self, tensor: SizedTensor, maker: SizedOperation) -> bool:
        of_keys = len(tensor.shape) == 4 and tensor.shape[-1] == self.graph.traced_on.length
        return of_keys and maker.kind != "Transpose"  # the turned keys, (B, N, H, S)


def memories_of(model: keras.Model, *, jit_compile: bool) -> dict[tuple[str, bool], TrainingMemory]:
    """Returns the memory in float32 and bfloat16, each without and with checkpointing, by policy and checkpointing.

    Args:
        model: one that `Workload.learns`; it is left as it is.
        jit_compile: whether XLA compiles the step.
    """
    memories = {}
    for policy in DTYPE_POLICIES:  # float32 first: there is no other to point to then
        twin = _twin(model, policy)
        for checkpointing in (False, True):
            memories[policy, checkpointing] = TrainingMemory(
                twin,
                gradient_checkpointing=checkpointing,
                jit_compile=jit_compile,
                kept=memories.get((policy, False)),
                in_float32=memories.get(("float32", checkpointing)),
            )
        del twin
        gc.collect()  # TensorFlow's functions and their weights hold each other
    return memories


def _twin(model: keras.Model, policy: str) -> keras.Model:
    """Returns a new model of the same shape in another dtype policy."""
    with dtype_policy_scope(policy):
        return type(model).from_config(_without_dtypes(model.get_config()))


def _without_dtypes(config):
    """Returns a config of nested models that says no type, so that the default one counts."""
    if isinstance(config, dict):
        return {name: _without_dtypes(part) for name, part in config.items() if name != "dtype"}
    return config


def machine_memory() -> int:
    """Returns the bytes of memory of this machine, or of the container that this runs in (cgroup v2)."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = pathlib.Path("/sys/fs/cgroup/memory.max")
    written = limit.read_text().strip() if limit.exists() else "max"
    return total if written == "max" else min(total, int(written))


def bytes_of_weights(variables: Iterable) -> int:
    """Returns what variables take."""
    return sum(math.prod(variable.shape) * tf.as_dtype(variable.dtype).size for variable in variables)
