"""`plan`: what a model is made of and what it costs, counted from the built model."""

import dataclasses
import math
import os

import keras

from bert_keras.analysis.cost_model.costs import Flops, flops_by_part
from bert_keras.analysis.cost_model.file_sizes import artifact_bytes
from bert_keras.analysis.cost_model.forward import Step, forward_steps
from bert_keras.analysis.cost_model.parameters import Component, parameters_of
from bert_keras.analysis.cost_model.subject_names import recipe_of
from bert_keras.analysis.cost_model.subjects import model_of
from bert_keras.analysis.cost_model.tracing.recording import Operation
from bert_keras.analysis.cost_model.tracing.sized_graph import Sizes
from bert_keras.analysis.cost_model.training_costs import PhaseCost, TrainingCosts
from bert_keras.analysis.cost_model.training_memory import Memory, machine_memory
from bert_keras.analysis.cost_model.workloads import Workload, usual_lengths
from bert_keras.checks import check_integer
from bert_keras.config import BertConfig
from bert_keras.extras import check_tensorflow_backend
from bert_keras.modeling import ElectraPretrainer
from bert_keras.modeling.masked_lm import MaskedLMModel
from bert_keras.training.config.phases import PhasePlan
from bert_keras.training.config.recipes import Pretraining

_LENGTH, _BATCH_SIZE = 128, 1
_BATCH_SIZES = (1, 8, 32, 128)  # of the table of memory by length and batch
_BYTES_A_SCORE = 4  # float32, whatever the compute type


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a model is made of and what it costs on batches of one shape.

    Attributes:
        model: the class of the model.
        config: the shape of its encoder.
        batch_size, length: B and S.
        num_parameters: of all components together.
        parameters: where they sit.
        block_flops: of the first block, in inference.
        forward_flops: of a forward pass in inference.
        training_flops: of a training step without the optimizer; None of what has no loss of its own: an encoder alone,
            an embedder, ELECTRA's discriminator alone.
        score_bytes: of the attention scores of each block in inference, softmaxed, float32.
        memory: of a training step, in float32 and bfloat16, each without and with checkpointing.
        memory_by_shape: the same in float32 without checkpointing, for several lengths and batch sizes.
        memory_limit: bytes that a process may hold, for `Memory.largest_batch`.
        step_seconds: of a training step on this machine, an estimate.
        phases: of a recipe.
        artifacts: bytes of the weights in each kind of file.
        steps: the forward pass, in order.

    `memory`, `memory_by_shape` and `phases` are empty, and `step_seconds` is None, where there is no training or the
    plan was to be quick.
    """

    model: str
    config: BertConfig
    batch_size: int
    length: int
    num_parameters: int
    parameters: list[Component]
    block_flops: list[Flops]
    forward_flops: list[Flops]
    training_flops: list[Flops] | None
    score_bytes: list[int]
    memory: list[Memory]
    memory_by_shape: list[Memory]
    memory_limit: int
    step_seconds: float | None
    phases: list[PhaseCost]
    artifacts: dict[str, int]
    steps: list[Step]

    def to_dict(self) -> dict:
        """Returns everything as plain values."""
        return dataclasses.asdict(self)


def plan(
    subject: str | os.PathLike | BertConfig | keras.Model,
    *,
    head: str | None = None,
    num_classes: int = 2,
    length: int | None = None,
    batch_size: int | None = None,
    num_slots: int | None = None,
    memory_limit: int | None = None,
    quick: bool = False,
) -> Plan:
    """Counts the parameters and operations of a model, and tells the memory and the time of its training.

    Parameters, operations, tensors and steps are counted from the model as it is built and traced. What a process holds
    and how long a step takes are estimates for this machine, whose speed is measured; docs/guide/planning.md has their error.

    Args:
        subject: the name of a preset or of a recipe for pretraining, a TOML file of pretraining, a config, a folder
            that `bert_keras.load` reads, or a model.
        head: what goes on top of the encoder: "classification", "tagging", "answers", "masked_lm" or "pretraining";
            None: what a folder, a model or a recipe has, and nothing but the pooler on a preset or a config.
        num_classes: C, of heads that have classes.
        length: S, tokens in a row; None: 128, or as many as the model reads, and of a recipe that of its first phase.
        batch_size: B, rows in a batch; None: 1, and of a recipe that of its first phase, cut into its parts.
        num_slots: M, masked slots in a row; None: 15 % of the tokens, and of a recipe as many as it masks.
        memory_limit: bytes that the training may take; None: the memory of this machine.
        quick: leave out the memory and the time of training: nothing is measured then.

    Raises:
        InputError: there is no such preset, recipe, folder or head; rows are longer than the model reads; a number is
            below 1; or a recipe's budget is in epochs, whose steps depend on the records.

    Example:
        >>> plan("base").num_parameters
        109482240
    """
    check_tensorflow_backend("bk.plan")
    _check_numbers(
        num_classes=num_classes, length=length, batch_size=batch_size, num_slots=num_slots, memory_limit=memory_limit
    )
    run = recipe_of(subject)
    phases = [] if run is None else run.plan()
    model = model_of(subject, run, head, num_classes)
    work = _workload(model, run, phases, length, batch_size, num_slots)
    parameters = parameters_of(model)
    memory_limit = memory_limit or machine_memory()
    return Plan(
        model=type(model).__name__,
        config=work.encoder.config,
        batch_size=work.batch_size,
        length=work.length,
        num_parameters=sum(component.parameters for component in parameters),
        parameters=parameters,
        block_flops=flops_by_part(work.forward, block=0),
        forward_flops=flops_by_part(work.forward),
        training_flops=flops_by_part(work.training) if work.learns else None,
        score_bytes=[_score_bytes(one) for one in work.forward if _is_attention(one)],
        memory_limit=memory_limit,
        artifacts=artifact_bytes(model),
        steps=forward_steps(work.forward),
        **_training(work, run, phases, memory_limit, quick=quick or not work.learns),
    )


def _check_numbers(**numbers: int | None) -> None:
    for name, number in numbers.items():
        if number is not None:
            check_integer(name, number)


def _workload(
    model: keras.Model,
    run: Pretraining | None,
    phases: list[PhasePlan],
    length: int | None,
    batch_size: int | None,
    num_slots: int | None,
) -> Workload:
    """Returns the model at work on batches as asked for, as the first phase of a run has them, or the usual."""
    if run is None:
        longest = getattr(model, "encoder", model).config.max_sequence_length
        return Workload(model, batch_size or _BATCH_SIZE, length or min(_LENGTH, longest), num_slots)
    first = phases[0]
    if length in (None, first.max_sequence_length):
        length, num_slots = first.max_sequence_length, num_slots or first.max_predictions
    return Workload(model, batch_size or first.batch_size // run.batches.accumulation_steps, length, num_slots)


def _training(
    work: Workload, run: Pretraining | None, phases: list[PhasePlan], memory_limit: int, *, quick: bool
) -> dict[str, object]:
    """Returns what a plan says of memory and time."""
    if quick:
        return {"memory": [], "memory_by_shape": [], "step_seconds": None, "phases": []}
    is_compiled = isinstance(work.model, MaskedLMModel | ElectraPretrainer)  # as `pretrain` and `finetune` do
    if run is not None and run.speed.jit_compile != "auto":
        is_compiled = bool(run.speed.jit_compile)
    costs = TrainingCosts(work.model, jit_compile=is_compiled, limit=memory_limit)
    sizes = Sizes(work.batch_size, work.length, work.slots)
    longest = work.encoder.config.max_sequence_length
    return {
        "memory": costs.memories(sizes),
        "memory_by_shape": costs.by_shape(usual_lengths(longest), _BATCH_SIZES),
        "step_seconds": costs.step_seconds(sizes),
        "phases": [costs.phase(phase, run) for phase in phases],
    }


def _is_attention(operation: Operation) -> bool:
    return operation.kind == "Softmax" and "attention" in operation.layers


def _score_bytes(operation: Operation) -> int:
    return _BYTES_A_SCORE * math.prod(operation.outputs[0])
