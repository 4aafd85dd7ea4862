"""Plan the phases of a run: steps, seconds and learning-rate schedules. No TensorFlow here."""

import dataclasses
import itertools
from collections.abc import Sequence

from bert_keras.errors import InputError
from bert_keras.training.config.tables import BudgetSettings, PhaseSettings, RunSettings

_SECONDS_PER_HOUR = 3600.0


@dataclasses.dataclass(frozen=True)
class PhasePlan:
    """One phase with every number resolved.

    Attributes:
        records: index of the records folder, from 0.
        max_sequence_length: tokens per sequence.
        max_predictions: masked positions per sequence.
        batch_size: sequences per step.
        learning_rate: the peak.
        rewarm: whether the phase starts a new schedule.
        num_steps: optimizer steps; None for a budget in hours.
        seconds: duration; None for other budgets.
    """

    records: int
    max_sequence_length: int
    max_predictions: int
    batch_size: int
    learning_rate: float
    rewarm: bool
    num_steps: int | None
    seconds: float | None


def plan_phases(run: RunSettings, num_records: Sequence[int]) -> list[PhasePlan]:
    """Return the plan of each phase, see `Pretraining.plan`."""
    phases, hours = run.phases or [PhaseSettings()], run.budget.hours
    sizes = [phase.batch_size or run.batches.batch_size for phase in phases]
    steps = _compute_steps(phases, sizes, run.budget, num_records)
    plans = []
    for phase, size, num_steps in zip(phases, sizes, steps, strict=True):
        length = run.records.max_sequence_lengths[phase.records]
        plans.append(
            PhasePlan(
                records=phase.records,
                max_sequence_length=length,
                max_predictions=run.batches.num_predictions(length),
                batch_size=size,
                learning_rate=phase.learning_rate or run.optimizer.learning_rate,
                rewarm=phase.rewarm or phase.learning_rate is not None,
                num_steps=num_steps,
                seconds=None if hours is None else hours * _SECONDS_PER_HOUR * phase.share,
            )
        )
    return plans


def join_schedules(plans: Sequence[PhasePlan]) -> list[tuple[float, float]]:
    """Return (peak learning rate, steps or seconds) of each schedule; a phase without `rewarm` extends it."""
    schedules: list[tuple[float, float]] = []
    for plan in plans:
        amount = plan.seconds if plan.num_steps is None else plan.num_steps
        if schedules and not plan.rewarm:
            peak, before = schedules.pop()
            schedules.append((peak, before + amount))
        else:
            schedules.append((plan.learning_rate, amount))
    return schedules


def _compute_steps(
    phases: Sequence[PhaseSettings], batch_sizes: Sequence[int], budget: BudgetSettings, num_records: Sequence[int]
) -> list[int | None]:
    if budget.hours is not None:
        return [None] * len(phases)
    if budget.steps is not None:
        ends = [round(budget.steps * share) for share in itertools.accumulate(phase.share for phase in phases)]
        steps = [end - begin for begin, end in itertools.pairwise([0, *ends])]
        source = f"budget.steps {budget.steps}"
    else:
        counts = _select_counts(phases, budget, num_records)
        steps = [
            int(budget.epochs * phase.share * count / size)
            for phase, size, count in zip(phases, batch_sizes, counts, strict=True)
        ]
        source = f"budget.epochs {budget.epochs:g} of {counts} records"
    if 0 in steps:
        raise InputError(
            f"{source} gives the phases {steps} steps of {list(batch_sizes)} sequences; expected one or more in each: "
            "raise the budget or lower batches.batch_size"
        )
    return steps


def _select_counts(phases: Sequence[PhaseSettings], budget: BudgetSettings, num_records: Sequence[int]) -> list[int]:
    """Return the number of training records of each phase."""
    needed = 1 + max(phase.records for phase in phases)
    if len(num_records) < needed:
        raise InputError(
            f"budget.epochs is {budget.epochs:g}, and num_records has {len(num_records)} items; expected {needed}, one "
            "for each records folder: add them, or set the budget in steps or hours"
        )
    return [num_records[phase.records] for phase in phases]
