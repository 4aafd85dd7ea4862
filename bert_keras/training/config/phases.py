"""The arithmetic of a run: phases, steps, seconds, stretches of one schedule. No TensorFlow here."""

import dataclasses
import itertools
from collections.abc import Sequence

from bert_keras.errors import InputError
from bert_keras.training.config.tables import (
    BatchesSettings,
    BudgetSettings,
    OptimizerSettings,
    PhaseSettings,
    RecordsSettings,
)

_SECONDS_AN_HOUR = 3600.0


@dataclasses.dataclass(frozen=True)
class PhasePlan:
    """One phase with all its numbers.

    Attributes:
        records: which records folder, from 0.
        max_sequence_length: tokens a row.
        max_predictions: masked slots a row.
        batch_size: rows a step.
        learning_rate: the peak.
        rewarm: whether a new schedule begins with this phase.
        num_steps: optimizer steps, None where the budget is in hours.
        seconds: its time, None where the budget is not in hours.
    """

    records: int
    max_sequence_length: int
    max_predictions: int
    batch_size: int
    learning_rate: float
    rewarm: bool
    num_steps: int | None
    seconds: float | None


def plan_phases(
    phases: Sequence[PhaseSettings],
    records: RecordsSettings,
    batches: BatchesSettings,
    optimizer: OptimizerSettings,
    budget: BudgetSettings,
    num_records: Sequence[int],
) -> list[PhasePlan]:
    """Returns the plan of each phase; see `Pretraining.plan`."""
    phases = phases or [PhaseSettings()]
    sizes = [phase.batch_size or batches.batch_size for phase in phases]
    plans = []
    for phase, size, num_steps in zip(phases, sizes, _steps(phases, sizes, budget, num_records), strict=True):
        length = records.max_sequence_lengths[phase.records]
        plans.append(
            PhasePlan(
                records=phase.records,
                max_sequence_length=length,
                max_predictions=batches.num_predictions(length),
                batch_size=size,
                learning_rate=phase.learning_rate or optimizer.learning_rate,
                rewarm=phase.rewarm or phase.learning_rate is not None,
                num_steps=num_steps,
                seconds=None if budget.hours is None else budget.hours * _SECONDS_AN_HOUR * phase.share,
            )
        )
    return plans


def join_schedules(plans: Sequence[PhasePlan]) -> list[tuple[float, float]]:
    """Returns (peak learning rate, steps or seconds) of each stretch of phases that share one schedule."""
    stretches: list[tuple[float, float]] = []
    for plan in plans:
        amount = plan.seconds if plan.num_steps is None else plan.num_steps
        if stretches and not plan.rewarm:
            peak, before = stretches.pop()
            stretches.append((peak, before + amount))
        else:
            stretches.append((plan.learning_rate, amount))
    return stretches


def _steps(
    phases: Sequence[PhaseSettings], sizes: Sequence[int], budget: BudgetSettings, num_records: Sequence[int]
) -> list[int | None]:
    if budget.hours is not None:
        return [None] * len(phases)
    if budget.steps is not None:
        ends = [round(budget.steps * share) for share in itertools.accumulate(phase.share for phase in phases)]
        steps = [end - begin for begin, end in itertools.pairwise([0, *ends])]
        told = f"budget.steps {budget.steps}"
    else:
        rows = _rows(phases, budget, num_records)
        steps = [
            int(budget.epochs * phase.share * count / size)
            for phase, size, count in zip(phases, sizes, rows, strict=True)
        ]
        told = f"budget.epochs {budget.epochs:g} of {rows} rows"
    if 0 in steps:
        raise InputError(
            f"{told} gives the phases {steps} steps of {list(sizes)} rows; expected one or more in each: "
            "raise the budget or lower batches.batch_size"
        )
    return steps


def _rows(phases: Sequence[PhaseSettings], budget: BudgetSettings, num_records: Sequence[int]) -> list[int]:
    needed = 1 + max(phase.records for phase in phases)
    if len(num_records) < needed:
        raise InputError(
            f"budget.epochs is {budget.epochs:g}, and the rows of {len(num_records)} records folders are known, "
            f"{needed} expected: give num_records, or a budget in steps or hours"
        )
    return [num_records[phase.records] for phase in phases]
