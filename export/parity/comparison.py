"""`Comparison`: how far an artifact's answers are from those of its checkpoint, by the names of its outputs."""

import dataclasses

import numpy as np

TIE = 2.0  # times the tolerance: where the two best scores are closer, either may be the label
VISIBLE = 1e-3  # a difference between two answers that 8 bits do not hide


@dataclasses.dataclass
class _Floats:
    largest: float = 0.0
    total: float = 0.0
    count: int = 0
    spread: float = 0.0  # the sum of squares about the mean of each array, for the size of a difference to have a scale


class Comparison:
    """Collects differences.

    Args:
        tolerance: the largest difference of a float that passes.
        relative: whether it bounds the mean difference, in standard deviations of what was expected, instead of the
            largest one: for weights of fewer bits, whose errors are everywhere.
    """

    def __init__(self, tolerance: float, *, relative: bool = False):
        self.tolerance = tolerance
        self.relative = relative
        self._floats: dict[str, _Floats] = {}
        self._labels: dict[str, list[int]] = {}
        self._missing: dict[str, str] = {}

    def floats(self, name: str, expected, got) -> None:
        """Compares arrays of floats."""
        if got is None or np.shape(expected) != np.shape(got) or not np.isfinite(got).all():
            return self.missing(name, expected, got)
        if not np.size(expected):
            return None
        expected, got = np.asarray(expected, np.float64), np.asarray(got, np.float64)
        differences, seen = np.abs(expected - got), self._floats.setdefault(name, _Floats())
        seen.largest = max(seen.largest, float(differences.max()))
        seen.total += float(differences.sum())
        seen.count += differences.size
        seen.spread += float(np.square(expected - expected.mean()).sum())
        return None

    def labels(self, name: str, expected, got, is_tie=False) -> None:
        """Compares values that are equal or not; where there is a tie, either is right."""
        if got is None or np.shape(expected) != np.shape(got):
            return self.missing(name, expected, got)
        differ = (np.asarray(expected) != np.asarray(got)) & ~np.asarray(is_tie, bool)
        counts = self._labels.setdefault(name, [0, 0])
        counts[0] += int(np.size(expected))
        counts[1] += int(np.sum(differ))
        return None

    def best(self, name: str, expected: np.ndarray, got) -> None:
        """Compares the number of the highest score `(..., C)` of each place, ties apart."""
        if got is None or np.shape(expected) != np.shape(got):
            return self.missing(name, expected, got)
        self.labels(name, expected.argmax(-1), got.argmax(-1), self.is_tie(expected))
        return None

    def is_tie(self, scores: np.ndarray) -> np.ndarray:
        """Returns for scores `(..., C)` whether the two best ones are as close as a difference that passes."""
        if scores.shape[-1] < 2:
            return np.ones(scores.shape[:-1], bool)
        second, first = np.moveaxis(np.sort(scores, axis=-1)[..., -2:], -1, 0)
        return first - second <= TIE * self.tolerance * (scores.std() if self.relative else 1)

    def responds(self, name: str, expected: tuple, got: tuple) -> None:
        """Records an output that is the same for two inputs, where it should differ."""
        if not np.allclose(*expected, rtol=0, atol=VISIBLE) and got[0] is not None and np.array_equal(*got):
            self._missing.setdefault(name, "the same for a pair of texts as for a single one of the same ids")

    def missing(self, name: str, expected, got) -> None:
        """Records that an output is not there, or not what it should be."""
        shapes = [None if value is None else np.shape(value) for value in (expected, got)]
        problem = "not finite" if shapes[0] == shapes[1] else f"expected the shape {shapes[0]}, got {shapes[1]}"
        self._missing.setdefault(name, problem)

    def verdict(self) -> dict:
        """Returns `passed`, `tolerance`, and what was seen: `outputs`, `labels` and, of bad ones, `missing`."""
        outputs = {name: self._of_floats(seen) for name, seen in sorted(self._floats.items())}
        of_labels = {name: {"compared": n, "differ": bad} for name, (n, bad) in sorted(self._labels.items())}
        measure = "mean_relative" if self.relative else "max"
        passed = not self._missing and all(seen[measure] <= self.tolerance for seen in outputs.values())
        if not self.relative:
            passed = passed and not any(seen["differ"] for seen in of_labels.values())
        verdict = {"passed": passed, "tolerance": self.tolerance, "measure": measure, "outputs": outputs}
        return {**verdict, "labels": of_labels, **({"missing": self._missing} if self._missing else {})}

    @staticmethod
    def _of_floats(seen: _Floats) -> dict[str, float]:
        mean, deviation = seen.total / seen.count, (seen.spread / seen.count) ** 0.5
        return {"max": seen.largest, "mean": mean, "mean_relative": mean / deviation if deviation else mean}
