"""What each attention head does, in a few numbers and one word."""

import dataclasses
from collections.abc import Sequence

import numpy as np

CLS, SEP, ITSELF, PREVIOUS, NEXT = "[CLS]", "[SEP]", "itself", "previous", "next"
BROAD, LOCAL, MIXED = "broad", "local", "mixed"
NEAR_TOKENS = 3  # so far on either side is near
MAJORITY = 0.5  # a share that names a head


@dataclasses.dataclass(frozen=True)
class HeadSummary:
    """One attention head on one row of S tokens; every number is a mean over the tokens that look.

    The shares overlap: [CLS] that looks at [CLS] counts in `cls` and in `itself`.

    Attributes:
        layer, head: from 0.
        kind: "[CLS]", "[SEP]", "itself", "previous" or "next": half of the attention or more goes there, and most of
            these five. Else "broad": it spreads as evenly as over half of all tokens (2^entropy >= S / 2). Else
            "local": half of it or more stays within 3 tokens on either side. Else "mixed".
        distance: how far it looks, in tokens: the mean of |i - j|, weighted by the attention of i to j.
        entropy: in bits, from 0 (one token) to log2 S (all alike).
        cls, sep: shares on [CLS], and on all [SEP] together.
        itself, previous, next: shares on the token itself, the one before and the one after.
        near: share within 3 tokens on either side.
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


def head_summaries(attention: np.ndarray, tokens: Sequence[str]) -> tuple[HeadSummary, ...]:
    """Describes every head, after Clark et al. (2019), "What Does BERT Look At?", 3.

    Args:
        attention: `(L, N, S, S)`, softmaxed: row = who looks, column = at whom.
        tokens: the S tokens; "[CLS]" and "[SEP]" are found among them.

    Returns:
        L * N summaries, layer by layer.

    Example:
        >>> head_summaries(np.eye(3)[None, None], ["[CLS]", "play", "[SEP]"])[0].kind
        'itself'
    """
    numbers = _numbers(np.asarray(attention, np.float64), tokens)
    num_layers, num_heads = attention.shape[:2]
    found = []
    for layer in range(num_layers):
        for head in range(num_heads):
            of_head = {name: float(values[layer, head]) for name, values in numbers.items()}
            found.append(HeadSummary(layer, head, kind_of(of_head, len(tokens)), **of_head))
    return tuple(found)


def kind_of(numbers: dict[str, float], num_tokens: int) -> str:
    """Returns the word for a head, from the numbers of its summary; the rule stands at `HeadSummary.kind`."""
    names = {CLS: "cls", SEP: "sep", ITSELF: "itself", PREVIOUS: "previous", NEXT: "next"}
    place = max(names, key=lambda name: numbers[names[name]])
    if numbers[names[place]] >= MAJORITY:
        return place
    if 2 ** numbers["entropy"] >= num_tokens / 2:
        return BROAD
    return LOCAL if numbers["near"] >= MAJORITY else MIXED


def _numbers(attention: np.ndarray, tokens: Sequence[str]) -> dict[str, np.ndarray]:
    """Returns the numbers of all heads, `(L, N)` each."""
    places = np.arange(len(tokens))
    distances = np.abs(places[:, None] - places[None, :])
    logs = np.log2(attention, where=attention > 0, out=np.zeros_like(attention))
    return {
        "distance": (attention * distances).sum(-1).mean(-1),
        "entropy": -(attention * logs).sum(-1).mean(-1),
        "cls": _share(attention, [token == CLS for token in tokens]),
        "sep": _share(attention, [token == SEP for token in tokens]),
        "itself": _diagonal(attention, 0),
        "previous": _diagonal(attention, -1),
        "next": _diagonal(attention, 1),
        "near": (attention * (distances <= NEAR_TOKENS)).sum(-1).mean(-1),
    }


def _share(attention: np.ndarray, is_target: list[bool]) -> np.ndarray:
    return attention[..., np.array(is_target)].sum(-1).mean(-1)


def _diagonal(attention: np.ndarray, offset: int) -> np.ndarray:
    """Returns the mean attention of each token to the one `offset` after it, of those that have one."""
    return np.diagonal(attention, offset, axis1=-2, axis2=-1).mean(-1)
