"""The current step: what layers and losses know of the batch that they compute a part of. No backend here.

A step computes one global batch. It may be split into micro-batches, spread over replicas and workers, or computed
twice (gradient checkpointing); random numbers and means must be the same as if one device had computed it at once.
Layers and losses ask `get_current_step`, so they need no state for it.
"""

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator, Mapping


@dataclasses.dataclass(frozen=True)
class Step:
    """A micro-batch of a training or evaluation step.

    Attributes:
        number: number of optimizer steps before this one, an integer tensor.
        first_sequence: index of its first sequence in the global batch, an integer or a tensor.
        num_sequences: number of its sequences, an integer or a tensor.
        total_weights: sum of the label weights of the global batch, keyed by output, divided by the number of
            micro-batches per replica, because the results of the micro-batches are averaged.
        salt: distinguishes two uses of one layer within a step.
        compiled: whether a compiler (XLA) fuses the operations of the step.
    """

    number: object
    first_sequence: object
    num_sequences: object
    total_weights: Mapping[str, object] = dataclasses.field(default_factory=dict)
    salt: int = 0
    compiled: bool = False


_current: contextvars.ContextVar[Step | None] = contextvars.ContextVar("step", default=None)


def get_current_step() -> Step | None:
    """Return the step that this thread computes; None outside of `fit` and `evaluate`."""
    return _current.get()


@contextlib.contextmanager
def within_step(step: Step | None) -> Iterator[None]:
    """Make `step` the current step."""
    token = _current.set(step)
    try:
        yield
    finally:
        _current.reset(token)


def salted_step(salt: int) -> contextlib.AbstractContextManager:
    """Return a context in which layers that are used twice in a step draw other random numbers."""
    step = get_current_step()
    return within_step(None if step is None else dataclasses.replace(step, salt=salt))
