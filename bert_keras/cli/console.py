"""Print what a command says: settings, tables, results, parity reports, errors, escaped for terminals and logs.

Settings and tables go to standard error, the result to standard output, as lines of text or as JSON.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pathlib
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence

from bert_keras.checks import format_count
from bert_keras.display.printing import (
    MAX_MESSAGE_LENGTH,
    UNPRINTABLE,
    can_encode,
    format_event,
    ignore_write_errors,
    is_json,
    print_line,
    printable,
    redirect_to_null,
    write_line,
)
from bert_keras.display.progress_bar import ProgressBar
from bert_keras.files import format_json

__all__ = ["MAX_MESSAGE_LENGTH", "ProgressBar", "ignore_write_errors", "print_line", "printable", "redirect_to_null"]

# what `run` of a command returns: lines of text, and the same as values for `--json`; None if it has printed all itself
Result = tuple[str | Iterable[str], Mapping[str, object]] | None

_MAX_SETTING_LENGTH = 1000  # characters


def printable_json(text: str, encoding: str | None) -> str:
    """Escape JSON text for a terminal with this encoding; the parsed value stays the same."""
    text = UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}" if match[0] != "\n" else "\n", text)
    if not can_encode(encoding, text):
        text = json.dumps(json.loads(text))
    return text


def print_json(text: str) -> None:
    """Print JSON text to standard output."""
    write_line(printable_json(text, getattr(sys.stdout, "encoding", None)), sys.stdout)


def open_closed_streams() -> None:
    """Connect standard streams that are closed (`>&-`) to the null device.

    Otherwise the next file to be opened would get the file descriptor of the stream, and TensorFlow's log lines would
    be written into that file.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)  # the lowest free descriptor: the one of the stream
            stream = open(descriptor, mode, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115 stays open
            setattr(sys, name, stream)


@contextlib.contextmanager
def escaped_warnings() -> Iterator[None]:
    """Escape warnings, and log messages without a handler, inside the block; in the JSON format they are events."""
    handler, format_warning = logging.lastResort, warnings.formatwarning
    logging.lastResort = _EscapingHandler(logging.WARNING)

    def format_escaped(message: Warning | str, category: type[Warning], *place: object) -> str:
        if is_json():
            return format_event("warning", printable(message), "warning", category=category.__name__) + "\n"
        return printable(format_warning(message, category, *place).strip()) + "\n"

    warnings.formatwarning = format_escaped
    try:
        yield
    finally:
        logging.lastResort, warnings.formatwarning = handler, format_warning


class _EscapingHandler(logging.Handler):
    """Handler of last resort that prints escaped log messages to standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one log message."""
        level = "error" if record.levelno >= logging.ERROR else "warning"
        print_line(self.format(record), max_length=MAX_MESSAGE_LENGTH, event="log", level=level, logger=record.name)


def print_settings(command: str, settings: Mapping[str, object]) -> None:
    """Print the resolved settings and derived numbers of a command, one per line, or as one event."""
    if is_json():
        print_line(f"bert-keras {command}", event="settings", command=command, settings=settings)
        return
    width = max(map(len, settings))
    print_line(f"bert-keras {command}")
    for name, value in settings.items():
        text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value
        print_line(f"  {name:<{width}}  {text}", max_length=_MAX_SETTING_LENGTH)


def print_result(text: str | Iterable[str], result: Mapping[str, object], *, as_json: bool) -> None:
    """Print the result of a command: a sentence or several lines of text, or the whole result as JSON."""
    if as_json:
        print_json(format_json(result))
        return
    for line in [text] if isinstance(text, str) else text:
        print_line(line, to_output=True)


def print_warnings(warnings: Sequence[str]) -> None:
    """Print warnings about the data to standard error."""
    for warning in warnings:
        print_line(f"warning: {warning}", max_length=MAX_MESSAGE_LENGTH, event="warning", level="warning")


def format_table(rows: Sequence[Sequence[str]], *, align_left: bool = False) -> str:
    """Format rows of texts as lines with aligned columns.

    Args:
        rows: cells of each row; all rows have the same number of cells.
        align_left: whether all columns are left-aligned. By default only the first one is.
    """
    rows = [list(map(printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    justify = [str.ljust, *([str.ljust if align_left else str.rjust] * (len(widths) - 1))]
    lines = ("  ".join(pad(text, width) for pad, text, width in zip(justify, row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def print_table(names: Sequence[str], rows: Sequence[Sequence[float | str | None]]) -> None:
    """Print a table of numbers and texts with the names of its columns, or one event for each row."""
    if is_json():
        for row in rows:
            values = dict(zip(names, row, strict=True))
            text = ", ".join(f"{name} {_format_cell(value)}" for name, value in values.items())
            print_line(text, event="table", values=values)
        return
    cells = [[_format_cell(value) for value in row] for row in rows]
    for line in format_table([names, *cells]).split("\n"):
        print_line(f"  {line}")


def _format_cell(value: float | str | None) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:.4g}"


def get_peak_memory(*, of_workers: bool = False) -> int | None:
    """Return the peak memory of this process, or of its largest finished worker process; None on Windows."""
    if not of_workers:
        with contextlib.suppress(OSError):  # Linux reports this program alone, `ru_maxrss` also the one that started it
            for line in pathlib.Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
                if line.startswith("VmHWM:"):
                    return 1024 * int(line.split()[1])
    try:
        import resource
    except ModuleNotFoundError:
        return None
    usage = resource.getrusage(resource.RUSAGE_CHILDREN if of_workers else resource.RUSAGE_SELF)
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def format_peak_memory(result: Mapping[str, object]) -> str:
    """Format `peak_memory_bytes` and `worker_peak_memory_bytes` as the end of a sentence; empty if both are None."""
    note = ""
    if result["peak_memory_bytes"]:
        note += f"; peak memory {result['peak_memory_bytes'] / 1e6:,.0f} MB"
    if result["worker_peak_memory_bytes"]:
        note += f", per worker {result['worker_peak_memory_bytes'] / 1e6:,.0f} MB"
    return note


def format_parity_table(reports: Mapping[str, Mapping]) -> str:
    """Format the parity reports of artifacts, keyed by artifact, as one line each.

    The columns are the result, the number of inputs, the largest difference, the number of different labels, the file
    size, the load time, and the latency of one sequence.
    """
    header = ("artifact", "parity", "inputs", "difference", "different labels", "size", "load time", "latency")
    return format_table([header, *(_format_row(name, report) for name, report in reports.items())])


def format_notes(reports: Mapping[str, Mapping]) -> list[str]:
    """Format what the reports of artifacts say besides parity, as lines.

    These are the scores of files and of the candidates that the quantization search tried; the properties of the
    checkpoint that an artifact does not have; the folders whose tokenizer gives other ids without TensorFlow; and the
    trimmed vocabulary, which all artifacts of an export share.
    """
    lines, differing, trimmed = [], {}, None
    for name, report in reports.items():
        lines += _format_scores(name, report["scores"]) if "scores" in report else []
        if (counts := report.get("tokenizer_json", {})).get("differ", 0) > 0:
            differing[name.split("/")[0]] = counts
        trimmed = trimmed or report.get("trimmed_vocabulary")
    for name, report in reports.items():
        lines += [f"{name}: not carried over: {item}" for item in report.get("not_carried_over", ())]
    lines += [
        f"{folder}: {counts['differ']} of {counts['texts']} probe texts get other ids in engines without TensorFlow"
        for folder, counts in differing.items()
    ]
    return [*lines, _format_trimmed_vocabulary(trimmed)] if trimmed else lines


def _format_scores(name: str, scores: Mapping) -> list[str]:
    """Format the scores of a file; it gets a warning if they differ with MediaPipe's tokenizer, which phones use."""
    kept = f"{scores['kept']}, " if "kept" in scores else ""
    lines = [f"{name}: {kept}{scores['score']} {scores['file']:.2f}, checkpoint {scores['checkpoint']:.2f}"]
    for candidate in scores.get("tried", ()):
        milliseconds = candidate.get("ms_per_example")
        time = "" if milliseconds is None else f", {milliseconds:.2f} ms per example"
        check = ", differs too much on random ids" if candidate.get("passed") is False else ""
        lines.append(
            f"  tried {candidate['quantization']}, {candidate['bytes'] / 1e6:,.1f} MB: {candidate['score']:.2f}, "
            f"{candidate['drop']:+.2f} points lost{time}{check}"
        )
    mediapipe_score = scores.get("with_mediapipe_tokenizer", scores["file"])
    if mediapipe_score != scores["file"]:
        lines.append(
            f"  warning: with MediaPipe's tokenizer, which splits text differently, the score is "
            f"{mediapipe_score:.2f} ({mediapipe_score - scores['file']:+.2f} points): fine-tune with MediaPipe's "
            "tokenization rules"
        )
    return lines


def _format_trimmed_vocabulary(trimmed: Mapping) -> str:
    line = (
        f"vocabulary: {trimmed['num_tokens_after']:,} of {trimmed['num_tokens_before']:,} tokens kept for "
        f"{format_count(trimmed['num_texts'], 'text')}, {trimmed['removed_parameters']:.1%} of the parameters removed"
    )
    if "num_changed_examples" in trimmed:
        line += (
            f"; {trimmed['num_changed_examples']:,} of {trimmed['num_examples']:,} labelled examples have other tokens"
        )
    return line


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
