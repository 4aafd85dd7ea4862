"""Summaries of attention heads: a few numbers and one word per head."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from bert_keras.errors import InputError

CLS, SEP, ITSELF, PREVIOUS, NEXT = "[CLS]", "[SEP]", "itself", "previous", "next"
BROAD, LOCAL, MIXED = "broad", "local", "mixed"
HEADINGS = {"cls": CLS, "sep": SEP}  # of statistics whose heading is not their name
NEAR_TOKENS = 3  # distance of a near token
MAJORITY = 0.5  # share of attention that determines the kind of a head


@dataclasses.dataclass(frozen=True)
class HeadSummary:
    """Statistics of one attention head on one sequence of S tokens, averaged over the queries.

    The shares overlap: attention from [CLS] to [CLS] counts in `cls` and in `itself`.

    Attributes:
        layer, head: indices, from 0.
        kind: "[CLS]", "[SEP]", "itself", "previous" or "next", the largest of these five shares, if it is at least
            half of the attention. Else "broad" if the entropy is at least that of uniform attention to half of all
            tokens (2^entropy >= S / 2). Else "local" if at least half of the attention is within 3 tokens. Else
            "mixed".
        distance: mean distance |i - j| in tokens, weighted by the attention from query i to key j.
        entropy: in bits, from 0 (a single key) to log2 S (uniform).
        cls, sep: share of attention to [CLS], and to all [SEP] together.
        itself, previous, next: share of attention to the query's own position, the previous one and the next one.
        near: share of attention within 3 tokens.
    """

    layer: int
    head: int
    kind: str
    distance: float
    entropy: float
    cls: float
    sep: float
    itself: float
    previous: float
    next: float
    near: float


def check_index(name: str, index: int | None, count: int) -> None:
    """Raise `InputError` if the model has no layer or head with this index."""
    if index is not None and not 0 <= index < count:
        valid = f"{name}s 0 to {count - 1}: choose one of them" if count > 1 else f"only {name} 0: leave it out"
        raise InputError(f"there is no {name} {index}; the model has {valid}")


def summarize_heads(attention: np.ndarray, tokens: Sequence[str]) -> tuple[HeadSummary, ...]:
    """Summarize every head, following Clark et al. (2019), "What Does BERT Look At?", 3.

    Args:
        attention: `(L, N, S, S)`, attention probabilities; axis -2 is the query, axis -1 the key.
        tokens: the S tokens, with "[CLS]" and "[SEP]".

    Returns:
        L * N summaries, layer by layer.

    Example:
        >>> summarize_heads(np.eye(3)[None, None], ["[CLS]", "play", "[SEP]"])[0].kind
        'itself'
    """
    statistics = _compute_statistics(np.asarray(attention, np.float64), tokens)
    summaries = []
    for layer, head in np.ndindex(attention.shape[:2]):
        numbers = {name: float(values[layer, head]) for name, values in statistics.items()}
        summaries.append(HeadSummary(layer, head, _classify(numbers, len(tokens)), **numbers))
    return tuple(summaries)


def _classify(numbers: dict[str, float], num_tokens: int) -> str:
    """Return the kind of a head; see `HeadSummary.kind`."""
    shares = {CLS: "cls", SEP: "sep", ITSELF: "itself", PREVIOUS: "previous", NEXT: "next"}
    largest = max(shares, key=lambda kind: numbers[shares[kind]])
    if numbers[shares[largest]] >= MAJORITY:
        return largest
    if 2 ** numbers["entropy"] >= num_tokens / 2:
        return BROAD
    return LOCAL if numbers["near"] >= MAJORITY else MIXED


def _compute_statistics(attention: np.ndarray, tokens: Sequence[str]) -> dict[str, np.ndarray]:
    """Compute the statistics of all heads, `(L, N)` each."""
    positions = np.arange(len(tokens))
    distances = np.abs(positions[:, None] - positions[None, :])
    logs = np.log2(attention, where=attention > 0, out=np.zeros_like(attention))
    return {
        "distance": (attention * distances).sum(-1).mean(-1),
        "entropy": -(attention * logs).sum(-1).mean(-1),
        "cls": _average_share(attention, [token == CLS for token in tokens]),
        "sep": _average_share(attention, [token == SEP for token in tokens]),
        "itself": _average_diagonal(attention, 0),
        "previous": _average_diagonal(attention, -1),
        "next": _average_diagonal(attention, 1),
        "near": (attention * (distances <= NEAR_TOKENS)).sum(-1).mean(-1),
    }


def _average_share(attention: np.ndarray, is_key: list[bool]) -> np.ndarray:
    return attention[..., np.array(is_key)].sum(-1).mean(-1)


def _average_diagonal(attention: np.ndarray, offset: int) -> np.ndarray:
    """Average the attention to the key `offset` positions after the query, over the queries that have such a key."""
    return np.diagonal(attention, offset, axis1=-2, axis2=-1).mean(-1)
