"""The cost of training a model on this machine: memory and time of a step, and of each phase of a recipe."""

import dataclasses
from collections.abc import Sequence

import keras

from bert_keras.analysis.cost_model.step_memory import Memory, trace_training_memory
from bert_keras.analysis.cost_model.step_time import MachineSpeed, StepTime
from bert_keras.analysis.cost_model.tracing.sized_graph import BatchShape
from bert_keras.analysis.cost_model.workloads import default_num_masked
from bert_keras.training.config.recipes import PhasePlan, Pretraining


@dataclasses.dataclass(frozen=True)
class PhaseCost:
    """The cost of a training phase on this machine.

    Attributes:
        length, batch_size, num_masked: S, B and M; B counts all micro-batches of a step.
        num_steps: optimizer steps.
        tokens: tokens of all steps, including padding.
        step_seconds: seconds per step, in float32 without gradient checkpointing.
        seconds: seconds of the phase.
        process: bytes of the process, see `Memory`, with the dtype policy, micro-batches and checkpointing of the run.
        largest_batch: largest micro-batch that fits, see `Memory`.
    """

    length: int
    batch_size: int
    num_masked: int
    num_steps: int
    tokens: int
    step_seconds: float
    seconds: float
    process: int
    largest_batch: int


class TrainingCosts:
    """Estimates the cost of training a model on this machine.

    Args:
        model: a model for which `Workload.is_trainable`; it is not changed.
        jit_compile: whether XLA compiles the step.
        limit: bytes that the process may use.
    """

    def __init__(self, model: keras.Model, *, jit_compile: bool, limit: float):
        self._limit = limit
        self._memories = trace_training_memory(model, jit_compile=jit_compile)
        self._default = self._memories["float32", False]
        self._step_time = StepTime(self._default, MachineSpeed())

    def estimate_memory(self, shape: BatchShape) -> list[Memory]:
        """Estimate the memory of a step in float32 and bfloat16, each without and with gradient checkpointing."""
        return [memory.estimate(shape, self._limit) for memory in self._memories.values()]

    def tabulate_memory(self, lengths: Sequence[int], batch_sizes: Sequence[int]) -> list[Memory]:
        """Estimate the memory in float32 without checkpointing, for every length with every batch size.

        15 % of the tokens are masked.
        """
        shapes = [BatchShape(size, length, default_num_masked(length)) for length in lengths for size in batch_sizes]
        return [self._default.estimate(shape) for shape in shapes]

    def estimate_step_seconds(self, shape: BatchShape) -> float:
        """Estimate the seconds of a step in float32 without checkpointing, see `StepTime`."""
        return self._step_time.estimate(shape)

    def estimate_phase(self, phase: PhasePlan, run: Pretraining) -> PhaseCost:
        """Estimate the cost of a phase of a run."""
        num_micro_batches = run.batches.accumulation_steps
        shape = BatchShape(phase.batch_size // num_micro_batches, phase.max_sequence_length, phase.max_predictions)
        step_seconds = self._step_time.estimate(shape, num_micro_batches)
        num_steps = phase.num_steps if phase.num_steps is not None else round(phase.seconds / step_seconds)
        # float16 needs as much memory as bfloat16
        policy = "float32" if run.model.dtype_policy == "float32" else "mixed_bfloat16"
        memory = self._memories[policy, run.speed.gradient_checkpointing]
        return PhaseCost(
            length=shape.length,
            batch_size=phase.batch_size,
            num_masked=shape.num_masked,
            num_steps=num_steps,
            tokens=num_steps * phase.batch_size * shape.length,
            step_seconds=step_seconds,
            seconds=num_steps * step_seconds,
            process=memory.estimate_process(shape, num_micro_batches),
            largest_batch=memory.largest_batch(shape, self._limit, num_micro_batches),
        )
