"""The training history of a checkpoint folder: curves and scores."""

import dataclasses
import math
import os
import pathlib
from collections.abc import Sequence

from bert_keras.checks import is_integer, read_field
from bert_keras.errors import InputError
from bert_keras.files import parse_json, read_json

LOG, METRICS, CONFUSION = "training_log.jsonl", "metrics.json", "confusion_matrix.png"
HELD_OUT = "held_out_"
_WITHOUT_CHART = ("step", "seconds", "num_steps", "tokens")
_PNG = b"\x89PNG\r\n\x1a\n"


@dataclasses.dataclass(frozen=True)
class Curve:
    """A quantity over optimizer steps or epochs.

    Attributes:
        name: "training" or "held out".
        x: steps or epochs, ascending.
        y: values; None for NaN and infinity.
    """

    name: str
    x: tuple[int, ...]
    y: tuple[float | None, ...]


@dataclasses.dataclass(frozen=True)
class Chart:
    """A quantity in training and on held-out examples.

    Attributes:
        name: name of the quantity, such as "mlm accuracy".
        over: "step" or "epoch".
        curves: one curve or two.
    """

    name: str
    over: str
    curves: tuple[Curve, ...]


@dataclasses.dataclass(frozen=True)
class TrainingHistory:
    """The history that a training run wrote into its checkpoint folder.

    Attributes:
        folder: the checkpoint folder.
        charts: charts of the log, or of `metrics.json` if there is no log.
        scores: last scores, keyed by name; on held-out examples if there are any.
        confusion: the confusion matrix as PNG; None if there is none.
    """

    folder: pathlib.Path
    charts: tuple[Chart, ...]
    scores: dict[str, float]
    confusion: bytes | None


def read_training_history(folder: str | os.PathLike) -> TrainingHistory:
    """Read those of `training_log.jsonl`, `metrics.json` and `confusion_matrix.png` that a folder has.

    Raises:
        InputError: the folder has no curves in its log or metrics, or one of the files is damaged.
    """
    folder = pathlib.Path(folder)
    has_log, has_metrics = (folder / LOG).is_file(), (folder / METRICS).is_file()
    if not has_log and not has_metrics:
        raise InputError(
            f"{folder} has no training history; expected {LOG} or {METRICS}, which pretrain and finetune write: choose "
            "a checkpoint that one of them wrote"
        )
    lines = _read_log(folder / LOG) if has_log else []
    metrics = _read_metrics(folder / METRICS) if has_metrics else {}
    epochs = [
        {"epoch": number, **{HELD_OUT + name: value for name, value in scores.items()}}
        for number, scores in enumerate(metrics.get("epochs", ()), 1)
    ]
    charts = _make_charts(lines, "step") or _make_charts(epochs, "epoch")
    if not charts:
        raise InputError(
            f"{folder} has scores but no curves; expected {LOG}, or epochs in {METRICS}: choose a checkpoint that "
            "pretrain or finetune wrote"
        )
    scores = {name: value for name, value in metrics.items() if name not in ("epoch", "epochs") and _is_finite(value)}
    return TrainingHistory(folder, charts, scores or _get_last_scores(lines), _read_png(folder / CONFUSION))


def _read_log(path: pathlib.Path) -> list[dict]:
    lines = []
    for number, text in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if not text.strip():
            continue
        try:
            line = parse_json(text, path)
            read_field(line, "step", int, source=path)
            is_valid = _are_numbers(line)
        except InputError:
            is_valid = False
        if not is_valid:
            raise InputError(
                f"{path}, line {number} is not a line of a training log; expected a JSON object of numbers with a "
                "step: restore the file from its source"
            )
        lines.append(line)
    if not lines:
        raise InputError(f"{path} is empty; expected one line per 50 steps: restore the file from its source")
    return lines


def _read_metrics(path: pathlib.Path) -> dict:
    metrics = read_json(path)
    epochs = metrics.get("epochs", [])
    scores = {name: value for name, value in metrics.items() if name != "epochs"}
    is_list = isinstance(epochs, list) and all(isinstance(epoch, dict) and _are_numbers(epoch) for epoch in epochs)
    if not is_list or not _are_numbers(scores):
        raise InputError(f"{path} has no scores; expected numbers keyed by name, as finetune writes: restore the file")
    return metrics


def _are_numbers(values: dict) -> bool:
    """Whether all values are numbers; null stands for NaN and infinity."""
    numbers = [value for value in values.values() if value is not None]
    return all(isinstance(number, float) or is_integer(number, -(2**63), 2**63) for number in numbers)


def _make_charts(lines: Sequence[dict], over: str) -> tuple[Chart, ...]:
    """Return a chart for each quantity: losses first, the learning rate last."""
    names = dict.fromkeys(name for line in lines for name in line if name not in (*_WITHOUT_CHART, over))
    quantities = dict.fromkeys(name.removeprefix(HELD_OUT) for name in names)
    charts = []
    for quantity in sorted(quantities, key=lambda name: (name == "learning_rate", "loss" not in name, name)):
        sides = {"training": quantity, "held out": HELD_OUT + quantity}
        curves = tuple(_make_curve(side, name, lines, over) for side, name in sides.items() if name in names)
        charts.append(Chart(quantity.replace("_", " "), over, curves))
    return tuple(charts)


def _make_curve(side: str, name: str, lines: Sequence[dict], over: str) -> Curve:
    points = {line[over]: line[name] for line in lines if name in line}  # a resumed run repeats steps; the last counts
    x = tuple(sorted(points))
    return Curve(side, x, tuple(float(points[place]) if _is_finite(points[place]) else None for place in x))


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _get_last_scores(lines: Sequence[dict]) -> dict[str, float]:
    """Return the last held-out scores of a log, or else the last training scores."""
    values = {name: value for line in lines for name, value in line.items()}
    values = {name: value for name, value in values.items() if name not in (*_WITHOUT_CHART, "learning_rate")}
    held_out = {name.removeprefix(HELD_OUT): value for name, value in values.items() if name.startswith(HELD_OUT)}
    return {name: value for name, value in (held_out or values).items() if _is_finite(value)}


def _read_png(path: pathlib.Path) -> bytes | None:
    if not path.is_file():
        return None
    content = path.read_bytes()
    if not content.startswith(_PNG):
        raise InputError(f"{path} is not a PNG image; expected one: restore it from its source, or delete it")
    return content
