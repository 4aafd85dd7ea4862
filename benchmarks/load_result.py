"""The result of a load on a server: latencies and outcomes of all requests, and their percentiles."""

import array
import collections
import csv
import dataclasses
import pathlib

import numpy as np

PERCENTILES = {"p50": 50, "p90": 90, "p99": 99, "p99.9": 99.9, "max": 100}
OK = 200


@dataclasses.dataclass
class LoadResult:
    """All measured requests in the order of their outcomes.

    Attributes:
        num_texts: texts per request.
        due: arrival times in seconds from the start of the measurement.
        latencies: seconds from the arrival to the outcome.
        outcomes: the status of the answer, or the kind of error: "refused", "reset", "closed" (without an answer),
            "timeout", "invalid answer" or "wrong answer".
        delays: seconds from the arrival to the sending of a request, in the order of sending: how long it waited for a
            connection, or how late the generator was.
        num_waited: number of requests for which no connection was free.
        seconds: length of the measurement, up to the last answer.
        generator_cpu_seconds: CPU time of the process that sent the requests.
        servers: CPU time and memory of the given processes, see `ProcessUsage.summarize`.
    """

    num_texts: int = 1
    due: array.array = dataclasses.field(default_factory=lambda: array.array("d"))
    latencies: array.array = dataclasses.field(default_factory=lambda: array.array("d"))
    outcomes: list[int | str] = dataclasses.field(default_factory=list)
    delays: array.array = dataclasses.field(default_factory=lambda: array.array("d"))
    num_waited: int = 0
    seconds: float = 0.0
    generator_cpu_seconds: float = 0.0
    servers: list[dict] = dataclasses.field(default_factory=list)

    def add(self, due: float, latency: float, outcome: int | str) -> None:
        """Add a request."""
        self.due.append(due)
        self.latencies.append(latency)
        self.outcomes.append(outcome)

    @property
    def statuses(self) -> dict[int, int]:
        """Number of answers, keyed by their status."""
        return {outcome: count for outcome, count in self._count() if isinstance(outcome, int)}

    @property
    def errors(self) -> dict[str, int]:
        """Number of requests without a valid answer, keyed by the kind of error."""
        return {outcome: count for outcome, count in self._count() if isinstance(outcome, str)}

    def _count(self) -> list[tuple[int | str, int]]:
        return sorted(collections.Counter(self.outcomes).items(), key=lambda item: str(item[0]))

    def percentile(self, percent: float) -> float:
        """Return a percentile of the latencies of answers with status 200, in seconds, or NaN without such answers."""
        return _percentile(self._ok_latencies(), percent)

    def _ok_latencies(self) -> np.ndarray:
        return np.asarray(self.latencies)[[outcome == OK for outcome in self.outcomes]]

    def summarize(self) -> dict:
        """Return the figures of the report, as JSON values."""
        latencies, delays, num_ok = self._ok_latencies(), np.asarray(self.delays), self.statuses.get(OK, 0)
        return {
            "requests": len(self.outcomes),
            "seconds": self.seconds,
            "statuses": {str(status): count for status, count in self.statuses.items()},
            "errors": self.errors,
            "requests_per_second": num_ok / self.seconds,
            "texts_per_second": num_ok * self.num_texts / self.seconds,
            "latency_ms": {name: _to_ms(_percentile(latencies, value)) for name, value in PERCENTILES.items()},
            "waited_for_connection": self.num_waited,
            "delay_ms": {name: _to_ms(_percentile(delays, PERCENTILES[name])) for name in ("p99", "max")},
            "generator_cpu_seconds": self.generator_cpu_seconds,
            "servers": [
                {**server, "cpu_ms_per_request": _to_ms(server["cpu_seconds"] / num_ok if num_ok else np.nan)}
                for server in self.servers
            ],
        }

    def make_timeline(self) -> list[dict]:
        """Return the figures of each second in which requests arrived."""
        outcomes = np.array([outcome == OK for outcome in self.outcomes])
        seconds, latencies = np.asarray(self.due).astype(int), np.asarray(self.latencies)
        lines = []
        for second in range(int(seconds.max(initial=-1)) + 1):
            is_due = seconds == second
            ok = latencies[is_due & outcomes]
            lines.append(
                {
                    "second": second,
                    "requests": int(is_due.sum()),
                    "ok": len(ok),
                    "errors": int(is_due.sum()) - len(ok),
                    "p50_ms": _to_ms(_percentile(ok, 50)),
                    "p99_ms": _to_ms(_percentile(ok, 99)),
                }
            )
        return lines

    def write_timeline(self, path: pathlib.Path) -> None:
        """Write the figures of each second to a CSV file."""
        lines = self.make_timeline()
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, ["second", "requests", "ok", "errors", "p50_ms", "p99_ms"])
            writer.writeheader()
            writer.writerows(lines)


def _percentile(values: np.ndarray, percent: float) -> float:
    """Return the smallest value that at least a percentage of the values do not exceed."""
    return float(np.percentile(values, percent, method="inverted_cdf")) if len(values) else np.nan


def _to_ms(seconds: float) -> float | None:
    """Return milliseconds, or None for NaN, which JSON does not have."""
    return None if np.isnan(seconds) else round(1e3 * seconds, 4)
