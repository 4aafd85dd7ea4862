"""What layers and losses may know of the step that they compute a part of. No backend here.

A step reads one batch. It may be cut into parts (to save memory), spread over replicas and workers, or be computed
twice (gradient checkpointing); random numbers and means must come out as if one device had read the whole batch at
once. So they ask `current_step` where they are, and need no state of their own.
"""

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator, Mapping


@dataclasses.dataclass(frozen=True)
class Step:
    """A part of a training or evaluation step.

    Attributes:
        number: optimizer steps before this one, an integer tensor; None where nothing is drawn.
        first_row: the place in the whole batch of the first row of this part, an integer or a tensor.
        num_rows: rows of this part.
        total_weights: what all labels of the whole batch weigh together, by output, divided by the number of
            parts; a sum over this part divided by it is this part's share of the mean, times the parts.
        salt: tells two uses of the same layer in one step apart.
        compiled: whether a compiler folds the step's operations together.
    """

    number: object
    first_row: object
    num_rows: object
    total_weights: Mapping[str, object] = dataclasses.field(default_factory=dict)
    salt: int = 0
    compiled: bool = False


_current: contextvars.ContextVar[Step | None] = contextvars.ContextVar("step", default=None)


def current_step() -> Step | None:
    """Returns the step that is being computed in this thread; None outside of `fit` and `evaluate`."""
    return _current.get()


@contextlib.contextmanager
def within_step(step: Step | None) -> Iterator[None]:
    """Makes `step` the current one."""
    token = _current.set(step)
    try:
        yield
    finally:
        _current.reset(token)


def salted_step(salt: int):
    """Returns a context in which layers that are used elsewhere in the same step draw other random numbers."""
    step = current_step()
    return within_step(None if step is None else dataclasses.replace(step, salt=salt))
