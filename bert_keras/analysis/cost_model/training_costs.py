"""What the training of a model costs: memory in each way to train it, seconds a step, and a whole recipe."""

import dataclasses
import functools
from collections.abc import Sequence

import keras

from bert_keras.analysis.cost_model.step_time import MachineSpeed, StepTime
from bert_keras.analysis.cost_model.tracing.sized_graph import Sizes
from bert_keras.analysis.cost_model.training_memory import Memory, TrainingMemory, memories_of
from bert_keras.analysis.cost_model.workloads import slots_of
from bert_keras.training.config.recipes import PhasePlan, Pretraining


@dataclasses.dataclass(frozen=True)
class PhaseCost:
    """One phase of a training, on this machine.

    Attributes:
        length, batch_size, num_slots: S, B and M; the batch is that of a step, all its parts together.
        num_steps: optimizer steps.
        tokens: tokens read in all steps, padding included.
        step_seconds: a step's.
        seconds: of the phase.
        process: bytes, see `Memory`, in the run's own types, with its parts and its checkpointing.
        largest_batch: rows of a part that fit, see `Memory`.
    """

    length: int
    batch_size: int
    num_slots: int
    num_steps: int
    tokens: int
    step_seconds: float
    seconds: float
    process: int
    largest_batch: int


class TrainingCosts:
    """The training of one model on this machine.

    Args:
        model: one that `Workload.learns`; it is left as it is.
        jit_compile: whether XLA compiles the step.
        limit: bytes that a process may hold.
    """

    def __init__(self, model: keras.Model, *, jit_compile: bool, limit: float):
        self._limit = limit
        self._memories = memories_of(model, jit_compile=jit_compile)
        self._machine = MachineSpeed()

    def memories(self, sizes: Sizes) -> list[Memory]:
        """Returns the memory of a step in float32 and bfloat16, each without and with checkpointing."""
        return [memory.at(sizes, self._limit) for memory in self._memories.values()]

    def by_shape(self, lengths: Sequence[int], batch_sizes: Sequence[int]) -> list[Memory]:
        """Returns the memory in float32 without checkpointing, for every length with every batch size.

        15 % of the tokens are masked.
        """
        return [self._plain.at(Sizes(rows, length, slots_of(length))) for length in lengths for rows in batch_sizes]

    def step_seconds(self, sizes: Sizes) -> float:
        """Returns an estimate of what a step takes in float32 without checkpointing, see `StepTime`."""
        return self._step_time.seconds(sizes)

    def phase(self, plan: PhasePlan, run: Pretraining) -> PhaseCost:
        """Returns what a phase of a run costs; its time is that of float32 without checkpointing."""
        parts = run.batches.accumulation_steps
        whole = Sizes(plan.batch_size, plan.max_sequence_length, plan.max_predictions)
        part = dataclasses.replace(whole, batch_size=whole.batch_size // parts)
        step_seconds = self._step_time.seconds(part, parts)
        num_steps = plan.num_steps if plan.num_steps is not None else round(plan.seconds / step_seconds)
        policy = "float32" if run.model.dtype_policy == "float32" else "mixed_bfloat16"  # float16 takes as much
        memory = self._memories[policy, run.speed.gradient_checkpointing]
        return PhaseCost(
            length=whole.length,
            batch_size=whole.batch_size,
            num_slots=whole.num_slots,
            num_steps=num_steps,
            tokens=num_steps * whole.batch_size * whole.length,
            step_seconds=step_seconds,
            seconds=num_steps * step_seconds,
            process=memory.process_bytes(part, parts),
            largest_batch=memory.largest_batch(whole, self._limit, parts),
        )

    @property
    def _plain(self) -> TrainingMemory:
        return self._memories["float32", False]

    @functools.cached_property
    def _step_time(self) -> StepTime:
        return StepTime(self._plain, self._machine)
