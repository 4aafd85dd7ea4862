"""`Comparison`: collects the differences between an artifact's outputs and its checkpoint's, keyed by output name."""

import dataclasses

import numpy as np

TIE = 2.0  # times the tolerance: if the two best scores are closer than this, either label is accepted
_MAX_DESCRIBED = 4  # differences in one line
VISIBLE = 1e-3  # a difference between two outputs that 8-bit weights do not hide


@dataclasses.dataclass
class _FloatDifferences:
    largest: float = 0.0
    total: float = 0.0
    count: int = 0
    squares: float = 0.0  # sum of squared deviations from each array's mean: the scale of a relative difference

    def summarize(self) -> dict[str, float]:
        """Return the `max`, the `mean`, and the `mean_relative` in standard deviations of the expected values."""
        mean, deviation = self.total / self.count, (self.squares / self.count) ** 0.5
        return {"max": self.largest, "mean": mean, "mean_relative": mean / deviation if deviation else mean}


class Comparison:
    """Collect the differences between what an artifact returns and what its checkpoint returns.

    `expected` is always the checkpoint's value, `got` the artifact's; None means that the artifact has no such output.

    Args:
        tolerance: the largest difference of a float that passes.
        relative: whether `tolerance` bounds the mean difference, in standard deviations of the expected values, instead
            of the largest difference. For quantized weights, which change every value a little.
    """

    def __init__(self, tolerance: float, *, relative: bool = False):
        self.tolerance = tolerance
        self.relative = relative
        self._floats: dict[str, _FloatDifferences] = {}
        self._labels: dict[str, list[int]] = {}
        self._missing: dict[str, str] = {}

    def compare_floats(self, name: str, expected: np.ndarray, got: np.ndarray | None) -> None:
        """Compare two arrays of floats."""
        if not _has_same_shape(expected, got) or not np.isfinite(got).all():
            self._record_missing(name, expected, got)
        elif np.size(expected):
            expected, got = np.asarray(expected, np.float64), np.asarray(got, np.float64)
            differences, seen = np.abs(expected - got), self._floats.setdefault(name, _FloatDifferences())
            seen.largest = max(seen.largest, float(differences.max()))
            seen.total += float(differences.sum())
            seen.count += differences.size
            seen.squares += float(np.square(expected - expected.mean()).sum())

    def compare_labels(self, name: str, expected: object, got: object, is_tie: bool | np.ndarray = False) -> None:
        """Compare values that must be equal. Where `is_tie` is True, any value passes."""
        if not _has_same_shape(expected, got):
            self._record_missing(name, expected, got)
            return
        differ = (np.asarray(expected) != np.asarray(got)) & ~np.asarray(is_tie, bool)
        counts = self._labels.setdefault(name, [0, 0])
        counts[0] += int(np.size(expected))
        counts[1] += int(np.sum(differ))

    def compare_argmax(self, name: str, expected: np.ndarray, got: np.ndarray | None) -> None:
        """Compare the index of the highest score along the last axis of `(..., C)`, except for ties."""
        if not _has_same_shape(expected, got):
            self._record_missing(name, expected, got)
            return
        self.compare_labels(name, expected.argmax(-1), got.argmax(-1), self.is_tie(expected))

    def is_tie(self, scores: np.ndarray) -> np.ndarray:
        """Return `(...)` bool: whether the two best scores of `(..., C)` differ by less than the tolerance allows."""
        if scores.shape[-1] < 2:
            return np.ones(scores.shape[:-1], bool)
        second, first = np.moveaxis(np.sort(scores, axis=-1)[..., -2:], -1, 0)
        return first - second <= TIE * self.tolerance * (scores.std() if self.relative else 1)

    def check_twins_differ(self, name: str, expected: tuple, got: tuple) -> None:
        """Record an output that is identical for two inputs for which the checkpoint's outputs differ."""
        if not np.allclose(*expected, rtol=0, atol=VISIBLE) and got[0] is not None and np.array_equal(*got):
            self._missing.setdefault(name, "identical for a pair of texts and for a single text with the same ids")

    def report(self) -> dict:
        """Return `passed`, `tolerance`, `measure`, the differences of `outputs` and `labels`, and `missing` outputs."""
        outputs = {name: seen.summarize() for name, seen in sorted(self._floats.items())}
        labels = {name: {"compared": n, "differ": differ} for name, (n, differ) in sorted(self._labels.items())}
        measure = "mean_relative" if self.relative else "max"
        passed = not self._missing and all(seen[measure] <= self.tolerance for seen in outputs.values())
        if not self.relative:
            passed = passed and not any(seen["differ"] for seen in labels.values())
        report = {"passed": passed, "tolerance": self.tolerance, "measure": measure, "outputs": outputs}
        return {**report, "labels": labels, **({"missing": self._missing} if self._missing else {})}

    def _record_missing(self, name: str, expected: object, got: object) -> None:
        shapes = [None if value is None else np.shape(value) for value in (expected, got)]
        problem = "NaN or infinity" if shapes[0] == shapes[1] else f"expected the shape {shapes[0]}, got {shapes[1]}"
        self._missing.setdefault(name, problem)


def describe_differences(report: dict) -> str:
    """Return one line with the missing outputs and the largest differences of an artifact."""
    found = [f"{name}: {problem}" for name, problem in report.get("missing", {}).items()]
    measure, tolerance = report["measure"], report["tolerance"]
    large = {name: seen[measure] for name, seen in report["outputs"].items() if seen[measure] > tolerance}
    found += [
        f"{name} by {difference:.1e} (tolerance {tolerance:.0e})"
        for name, difference in sorted(large.items(), key=lambda item: item[1], reverse=True)
    ]
    labels = report["labels"].items()
    found += [f"{seen['differ']} of {seen['compared']} {name}" for name, seen in labels if seen["differ"]]
    rest = f" and {len(found) - _MAX_DESCRIBED} more" if len(found) > _MAX_DESCRIBED else ""
    return ", ".join(found[:_MAX_DESCRIBED]) + rest


def _has_same_shape(expected: object, got: object) -> bool:
    return got is not None and np.shape(expected) == np.shape(got)
