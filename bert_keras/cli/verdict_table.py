"""Verdicts as a table for people."""

from collections.abc import Mapping


def verdict_table(verdicts: Mapping[str, Mapping]) -> str:
    """Returns a line for each artifact: whether it passed, on how many inputs, by how much it differs, size, speed."""
    header = ("artifact", "verdict", "inputs", "differs by", "other labels", "size", "opens in", "one row")
    rows = [header, *(_row(name, verdict) for name, verdict in verdicts.items())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows
    )


def _row(name: str, verdict: Mapping) -> tuple[str, ...]:
    measure = verdict["measure"]
    largest = max((seen[measure] for seen in verdict["outputs"].values()), default=float("nan"))
    compared, differ = (sum(seen[key] for seen in verdict["labels"].values()) for key in ("compared", "differ"))
    return (
        name,
        "equal" if verdict["passed"] else "DIFFERS",
        f"{verdict['num_inputs']:,}",
        f"{largest:.1e} {'(mean, relative)' if measure == 'mean_relative' else '(largest)'}",
        f"{differ:,} of {compared:,}" if compared else "none to compare",
        f"{verdict['bytes'] / 1e6:,.1f} MB",
        f"{verdict['load_s']:.1f} s",
        f"{verdict['latency_ms']:.1f} ms",
    )
