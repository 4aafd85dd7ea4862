"""Verdicts as a table for people."""

import argparse
from collections.abc import Mapping

from bert_keras.cli.console.report import aligned


def add_thorough(parser: argparse.ArgumentParser) -> None:
    """Adds the option that chooses the large set of probe inputs."""
    parser.add_argument(
        "--thorough",
        action="store_true",
        help="compare each artifact on 200 sequences and 100 texts instead of 24 and 16: minutes instead of seconds",
    )


def parity_table(verdicts: Mapping[str, Mapping]) -> str:
    """Returns a line for each artifact: whether it passed, on how many inputs, by how much it differs, size, speed."""
    header = ("artifact", "verdict", "inputs", "differs by", "other labels", "size", "opens in", "one row")
    return aligned([header, *(_row(name, verdict) for name, verdict in verdicts.items())])


def score_lines(verdicts: Mapping[str, Mapping]) -> list[str]:
    """Returns what TFLite files scored, the ones that were tried and not kept too, and a warning about phones."""
    lines = []
    for name, scores in ((name, verdict["scores"]) for name, verdict in verdicts.items() if "scores" in verdict):
        lines.append(f"{name}: {scores['score']} {scores['file']:.2f}, of the checkpoint {scores['checkpoint']:.2f}")
        for rung in scores.get("tried", ()):
            size = f"{rung['bytes'] / 1e6:,.1f} MB"
            lines.append(
                f"  tried {rung['quantization']}, {size}: {rung['score']:.2f}, {rung['drop']:+.2f} points lost"
            )
        if (on_phone := scores.get("with_mediapipe_tokenizer", scores["file"])) != scores["file"]:
            lines.append(
                f"  warning: MediaPipe's own tokenizer reads text otherwise than training did: {on_phone:.2f} "
                f"({on_phone - scores['file']:+.2f} points) on the same examples; fine-tune with its rules to mend that"
            )
    return lines


def left_out_lines(verdicts: Mapping[str, Mapping]) -> list[str]:
    """Returns a line for each thing that an artifact does not carry of its checkpoint."""
    return [
        f"{name}: not carried over: {left}"
        for name, verdict in verdicts.items()
        for left in verdict.get("not_carried_over", ())
    ]


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
