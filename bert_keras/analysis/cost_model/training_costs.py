"""The cost of training a model on this machine: memory and time of a step, and of each phase of a recipe."""

import dataclasses

from bert_keras.analysis.cost_model.step_memory import TrainingMemory, trace_training_memory
from bert_keras.analysis.cost_model.step_time import MachineSpeed, StepTime
from bert_keras.analysis.cost_model.tracing.sized_graph import BatchShape
from bert_keras.analysis.cost_model.workloads import Workload, choose_default_lengths
from bert_keras.modeling import ElectraPretrainer
from bert_keras.modeling.masked_lm import MaskedLMModel
from bert_keras.training.config.recipes import PhasePlan, Pretraining
from bert_keras.training.strategies import should_compile

_BATCH_SIZES = (1, 8, 32, 128)  # in the table of memory by length and batch size


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


def estimate_training(
    workload: Workload, run: Pretraining | None, phases: list[PhasePlan], limit: int
) -> dict[str, object]:
    """Estimate the memory and time of training, as the attributes of `Plan`.

    Args:
        workload: a workload that `is_trainable`; its model is not changed.
        run: the run of a recipe.
        phases: its phases.
        limit: bytes that the process may use.
    """
    jit_compile = isinstance(workload.model, MaskedLMModel | ElectraPretrainer)  # the defaults of pretrain and finetune
    if run is not None:
        jit_compile = should_compile(run.speed.jit_compile, run.model.dtype_policy)
    dropout = run is None or run.model.pretraining_dropout
    memories = trace_training_memory(workload.model, jit_compile=jit_compile, dropout=dropout)
    default = memories["float32", False]
    step_time = StepTime(default, MachineSpeed())
    lengths = choose_default_lengths(workload.encoder.config.max_sequence_length)
    shapes = [BatchShape(size, length) for length in lengths for size in _BATCH_SIZES]
    return {
        "memory": [memory.estimate(workload.shape, limit) for memory in memories.values()],
        "memory_by_shape": [default.estimate(shape) for shape in shapes],
        "step_seconds": step_time.estimate(workload.shape),
        "phases": [_estimate_phase(phase, run, memories, step_time, limit) for phase in phases],
    }


def _estimate_phase(
    phase: PhasePlan,
    run: Pretraining,
    memories: dict[tuple[str, bool], TrainingMemory],
    step_time: StepTime,
    limit: int,
) -> PhaseCost:
    num_micro_batches = run.batches.accumulation_steps
    shape = BatchShape(phase.batch_size // num_micro_batches, phase.max_sequence_length, phase.max_predictions)
    step_seconds = step_time.estimate(shape, num_micro_batches)
    num_steps = phase.num_steps if phase.num_steps is not None else round(phase.seconds / step_seconds)
    policy = "float32" if run.model.dtype_policy == "float32" else "mixed_bfloat16"  # float16 needs as much memory
    memory = memories[policy, run.speed.gradient_checkpointing]
    return PhaseCost(
        length=shape.length,
        batch_size=phase.batch_size,
        num_masked=shape.num_masked,
        num_steps=num_steps,
        tokens=num_steps * phase.batch_size * shape.length,
        step_seconds=step_seconds,
        seconds=num_steps * step_seconds,
        process=memory.estimate_process(shape, num_micro_batches),
        largest_batch=memory.largest_batch(shape, limit, num_micro_batches),
    )
