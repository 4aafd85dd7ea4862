"""Print parity reports as a table."""

from collections.abc import Mapping

from bert_keras.checks import format_count
from bert_keras.cli.console.report import format_table


def format_parity_table(reports: Mapping[str, Mapping]) -> str:
    """Format the parity reports of artifacts, keyed by artifact, as one line each.

    The columns are the result, the number of inputs, the largest difference, the number of different labels, the file
    size, the load time, and the latency of one sequence.
    """
    header = ("artifact", "parity", "inputs", "difference", "different labels", "size", "load time", "latency")
    return format_table([header, *(_format_row(name, report) for name, report in reports.items())])


def format_scores(reports: Mapping[str, Mapping]) -> list[str]:
    """Format the scores of files and of the candidates that the quantization search tried.

    A file that scores differently with MediaPipe's tokenizer, which phones use, gets a warning.
    """
    lines = []
    for name, scores in ((name, report["scores"]) for name, report in reports.items() if "scores" in report):
        kept = f"{scores['kept']}, " if "kept" in scores else ""
        lines.append(f"{name}: {kept}{scores['score']} {scores['file']:.2f}, checkpoint {scores['checkpoint']:.2f}")
        for candidate in scores.get("tried", ()):
            lines.append(
                f"  tried {candidate['quantization']}, {candidate['bytes'] / 1e6:,.1f} MB: {candidate['score']:.2f}, "
                f"{candidate['drop']:+.2f} points lost{_format_time(candidate)}{_format_check(candidate)}"
            )
        mediapipe_score = scores.get("with_mediapipe_tokenizer", scores["file"])
        if mediapipe_score != scores["file"]:
            lines.append(
                f"  warning: with MediaPipe's tokenizer, which splits text differently, the score is "
                f"{mediapipe_score:.2f} ({mediapipe_score - scores['file']:+.2f} points): fine-tune with MediaPipe's "
                "tokenization rules"
            )
    return lines


def format_not_carried_over(reports: Mapping[str, Mapping]) -> list[str]:
    """Format one line for each property of the checkpoint that an artifact does not have."""
    return [
        f"{name}: not carried over: {item}"
        for name, report in reports.items()
        for item in report.get("not_carried_over", ())
    ]


def format_tokenizer_differences(reports: Mapping[str, Mapping]) -> list[str]:
    """Format one line for each folder of artifacts whose tokenizer gives other ids without TensorFlow."""
    found = {name.split("/")[0]: report["tokenizer_json"] for name, report in reports.items() if _differs(report)}
    return [
        f"{folder}: {counts['differ']} of {counts['texts']} probe texts get other ids in engines without TensorFlow"
        for folder, counts in found.items()
    ]


def format_trimmed_vocabulary(reports: Mapping[str, Mapping]) -> list[str]:
    """Format one line about the trimmed vocabulary, which all artifacts of an export share, if it was trimmed."""
    trimmed = next(
        (report["trimmed_vocabulary"] for report in reports.values() if "trimmed_vocabulary" in report), None
    )
    if trimmed is None:
        return []
    line = (
        f"vocabulary: {trimmed['num_tokens_after']:,} of {trimmed['num_tokens_before']:,} tokens kept for "
        f"{format_count(trimmed['num_texts'], 'text')}, {trimmed['removed_parameters']:.1%} of the parameters removed"
    )
    if "num_changed_examples" in trimmed:
        line += (
            f"; {trimmed['num_changed_examples']:,} of {trimmed['num_examples']:,} labelled examples have other tokens"
        )
    return [line]


def _format_time(candidate: Mapping) -> str:
    time = candidate.get("ms_per_example")
    return "" if time is None else f", {time:.2f} ms per example"


def _format_check(candidate: Mapping) -> str:
    return ", differs too much on random ids" if candidate.get("passed") is False else ""


def _differs(report: Mapping) -> bool:
    return report.get("tokenizer_json", {}).get("differ", 0) > 0


def _format_row(name: str, report: Mapping) -> tuple[str, ...]:
    measure = report["measure"]
    difference = max((output[measure] for output in report["outputs"].values()), default=float("nan"))
    compared, differ = (sum(labels[key] for labels in report["labels"].values()) for key in ("compared", "differ"))
    return (
        name,
        "equal" if report["passed"] else "DIFFERS",
        f"{report['num_inputs']:,}",
        f"{difference:.1e} {'(mean, relative)' if measure == 'mean_relative' else '(max)'}",
        f"{differ:,} of {compared:,}" if compared else "no labels",
        f"{report['bytes'] / 1e6:,.1f} MB",
        f"{report['load_s']:.1f} s",
        f"{report['latency_ms']:.1f} ms",
    )
