"""`plan`: the parameters, FLOPs, memory and training time of a model."""

import dataclasses
import math
import os

import keras

from bert_keras.analysis.cost_model import components, step_memory
from bert_keras.analysis.cost_model.machine_memory import get_machine_memory
from bert_keras.analysis.cost_model.subjects import build_subject, read_recipe
from bert_keras.analysis.cost_model.workloads import BatchShape, Workload, choose_default_lengths
from bert_keras.checkpoints.building import get_encoder
from bert_keras.checks import check_integer
from bert_keras.config import BertConfig
from bert_keras.extras import check_tensorflow_backend
from bert_keras.heads.known_heads import find_head_of_class
from bert_keras.training.config.recipes import PhasePlan, Pretraining
from bert_keras.training.strategies import should_compile

_LENGTH, _BATCH_SIZE = 128, 1
_BYTES_PER_SCORE = 4  # attention probabilities are float32 under every dtype policy
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


@dataclasses.dataclass(frozen=True)
class Plan:
    """The components of a model and its cost on batches of one shape.

    Attributes:
        model: class name of the model.
        config: configuration of its encoder.
        batch_size, length: B and S.
        num_parameters: total number of parameters.
        parameters: number of parameters by component.
        block_flops: FLOPs of the first block in inference, by part.
        forward_flops: FLOPs of a forward pass in inference, by part.
        training_flops: FLOPs of a training step without the optimizer, by part; None for models without their own
            loss: encoders, embedders, ELECTRA's discriminator alone.
        score_bytes: bytes of the float32 attention probabilities of each block in inference.
        memory_limit: bytes that the training may use, for `Memory.largest_batch`.
        artifacts: bytes of the weights in each file format.
        steps: the steps of the forward pass, in order.
        memory: memory of a training step, in float32 and bfloat16, each without and with gradient checkpointing.
        memory_by_shape: memory of a training step in float32 without checkpointing, for several lengths and batch
            sizes.
        step_seconds: estimated seconds of a training step on this machine.
        phases: cost of each phase of a recipe.

    Without training, and with `quick=True`, `memory`, `memory_by_shape` and `phases` are empty and `step_seconds` is
    None.
    """

    model: str
    config: BertConfig
    batch_size: int
    length: int
    num_parameters: int
    parameters: list[components.Component]
    block_flops: list[components.Flops]
    forward_flops: list[components.Flops]
    training_flops: list[components.Flops] | None
    score_bytes: list[int]
    memory_limit: int
    artifacts: dict[str, int]
    steps: list[components.Step]
    memory: list[step_memory.Memory] = dataclasses.field(default_factory=list)
    memory_by_shape: list[step_memory.Memory] = dataclasses.field(default_factory=list)
    step_seconds: float | None = None
    phases: list[PhaseCost] = dataclasses.field(default_factory=list)

    def to_dict(self) -> dict:
        """Return the plan as nested dicts and lists of plain Python values.

        Returns:
            The attributes of the plan, keyed by name.

        Example:
            >>> bk.plan("tiny", quick=True).to_dict()["num_parameters"]
            4385920
        """
        return dataclasses.asdict(self)


def plan(
    subject: str | os.PathLike | BertConfig | keras.Model,
    *,
    head: str | None = None,
    num_classes: int = 2,
    length: int | None = None,
    batch_size: int | None = None,
    num_masked: int | None = None,
    memory_limit: int | None = None,
    quick: bool = False,
) -> Plan:
    """Compute the parameters, FLOPs, memory and training time of a model.

    Parameters, FLOPs, tensor sizes and steps are counted on the model as it is built and traced. The memory of the
    process and the time of a step are estimates for this machine, whose speed is measured; docs/guide/planning.md
    compares them with measurements.

    Args:
        subject: a preset (`"base"`), a pretraining recipe (`"bert"`) or its TOML file, a `BertConfig`, a folder that
            `bert_keras.load` opens, or a model.
        head: head on top of the encoder: `"classification"`, `"tagging"`, `"answers"`, `"masked_lm"` or
            `"pretraining"`. Default: the head of the folder, model or recipe; for a preset or config the pooler only.
        num_classes: C, number of classes of a new classification or tagging head.
        length: S, tokens per sequence. Default: 128, or the maximum of the model if that is smaller; for a recipe the
            length of its first phase.
        batch_size: B, sequences per batch. Default: 1; for a recipe the micro-batch of its first phase.
        num_masked: M, masked positions per sequence. Default: 15 % of the tokens; for a recipe its own number.
        memory_limit: bytes that the training may use. Default: the memory of this machine.
        quick: leave out the memory and time of training, so that nothing is measured.

    Returns:
        A `Plan`; `Plan.to_dict` converts it for JSON.

    Raises:
        InputError: there is no such preset, recipe, folder or head; `length` is longer than the model accepts; a
            number is below 1; or the budget of a recipe is in epochs, whose number of steps depends on the records.

    Example:
        >>> planned = bk.plan("tiny", length=64, quick=True)
        >>> planned.num_parameters, sum(part.forward for part in planned.forward_flops)
        (4385920, 55567680)
    """
    check_tensorflow_backend("bk.plan")
    sizes = {"num_classes": num_classes, "length": length, "batch_size": batch_size, "num_masked": num_masked}
    for name, number in (*sizes.items(), ("memory_limit", memory_limit)):
        if number is not None:
            check_integer(name, number)
    run = read_recipe(subject)
    phases = [] if run is None else run.plan()
    model = build_subject(subject, run, head, num_classes)
    if run is None:
        length = length or min(_LENGTH, get_encoder(model).config.max_sequence_length)
        batch_size = batch_size or _BATCH_SIZE
    else:  # as in its first phase
        if length in (None, phases[0].max_sequence_length):
            length, num_masked = phases[0].max_sequence_length, num_masked or phases[0].max_predictions
        batch_size = batch_size or phases[0].batch_size // run.batches.accumulation_steps
    workload = Workload(model, BatchShape(batch_size, length, num_masked))
    parameters = components.count_parameters(model)
    memory_limit = memory_limit or get_machine_memory()
    softmaxes = [operation for operation in workload.forward if operation.is_attention_softmax]
    return Plan(
        model=type(model).__name__,
        config=workload.encoder.config,
        batch_size=workload.shape.batch_size,
        length=workload.shape.length,
        num_parameters=sum(component.parameters for component in parameters),
        parameters=parameters,
        block_flops=components.count_flops_by_part(workload.forward, block=0),
        forward_flops=components.count_flops_by_part(workload.forward),
        training_flops=components.count_flops_by_part(workload.training) if workload.is_trainable else None,
        score_bytes=[_BYTES_PER_SCORE * math.prod(softmax.outputs[0].shape) for softmax in softmaxes],
        memory_limit=memory_limit,
        artifacts=components.estimate_file_sizes(model),
        steps=components.list_forward_steps(workload.forward),
        **(estimate_training(workload, run, phases, memory_limit) if workload.is_trainable and not quick else {}),
    )


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
    if run is None:  # pretrain compiles the step by default, finetune does not
        jit_compile = not find_head_of_class(type(workload.model)).is_finetuned
    else:
        jit_compile = should_compile(run.speed.jit_compile, run.model.dtype_policy)
    dropout = run is None or run.model.pretraining_dropout
    memories = step_memory.trace_training_memory(workload.model, jit_compile=jit_compile, dropout=dropout)
    default = memories["float32", False]
    step_time = step_memory.StepTime(default, step_memory.MachineSpeed())
    lengths = choose_default_lengths(workload.encoder.config.max_sequence_length)
    shapes = [BatchShape(size, length) for length in lengths for size in _BATCH_SIZES]

    def estimate_phase(phase: PhasePlan) -> PhaseCost:
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

    return {
        "memory": [memory.estimate(workload.shape, limit) for memory in memories.values()],
        "memory_by_shape": [default.estimate(shape) for shape in shapes],
        "step_seconds": step_time.estimate(workload.shape),
        "phases": [estimate_phase(phase) for phase in phases],
    }
