"""What a checkpoint folder says of its own training."""

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
_NOT_DRAWN = ("step", "seconds", "num_steps", "tokens")
_PNG = b"\x89PNG\r\n\x1a\n"


@dataclasses.dataclass(frozen=True)
class Curve:
    """A quantity over the optimizer's steps, or over epochs.

    Attributes:
        name: "training" or "held out".
        x, y: steps or epochs, ascending, and values; None: not a finite number.
    """

    name: str
    x: tuple[int, ...]
    y: tuple[float | None, ...]


@dataclasses.dataclass(frozen=True)
class Chart:
    """A quantity in training and on held-out examples.

    Attributes:
        name: "mlm accuracy".
        over: "step" or "epoch".
        curves: one or two.
    """

    name: str
    over: str
    curves: tuple[Curve, ...]


@dataclasses.dataclass(frozen=True)
class TrainingRecords:
    """The records of a training.

    Attributes:
        folder: the checkpoint.
        charts: of the log; of `metrics.json` where there is no log.
        scores: the last ones, on held-out examples if there are any, by name.
        confusion: the picture of the confusion matrix, PNG; None: the checkpoint has none.
    """

    folder: pathlib.Path
    charts: tuple[Chart, ...]
    scores: dict[str, float]
    confusion: bytes | None


def read_training_records(folder: str | os.PathLike) -> TrainingRecords:
    """Reads `training_log.jsonl`, `metrics.json` and `confusion_matrix.png`, as far as they are there.

    Raises:
        InputError: the folder has neither log nor metrics, or one of the files is damaged.
    """
    folder = pathlib.Path(folder)
    has_log, has_metrics = (folder / LOG).is_file(), (folder / METRICS).is_file()
    if not has_log and not has_metrics:
        raise InputError(
            f"{folder} has no records of a training; expected {LOG} or {METRICS}, which pretrain and finetune write: "
            "name a checkpoint that one of them made"
        )
    lines = _log_lines(folder / LOG) if has_log else []
    metrics = _metrics(folder / METRICS) if has_metrics else {}
    charts = _charts(lines, "step") or _charts(
        [{"epoch": place, **_held_out(epoch)} for place, epoch in enumerate(metrics.get("epochs", ()), 1)], "epoch"
    )
    if not charts:
        raise InputError(
            f"{folder} has scores but no curve; expected {LOG}, or epochs in {METRICS}: name a checkpoint that "
            "pretrain or finetune made"
        )
    scores = {name: value for name, value in metrics.items() if name not in ("epoch", "epochs") and _is_finite(value)}
    return TrainingRecords(folder, charts, scores or _last(lines), _picture(folder / CONFUSION))


def _log_lines(path: pathlib.Path) -> list[dict]:
    lines = []
    for number, text in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if not text.strip():
            continue
        try:
            line = parse_json(text, path)
            read_field(line, "step", int, source=path)
            is_record = _are_numbers(line)
        except InputError:
            is_record = False
        if not is_record:
            raise InputError(
                f"{path}, line {number} is no record of a training; expected a JSON object of numbers with a step: "
                "restore the file from its source"
            )
        lines.append(line)
    if not lines:
        raise InputError(f"{path} is empty; expected a line for each 50 steps: restore the file from its source")
    return lines


def _metrics(path: pathlib.Path) -> dict:
    metrics = read_json(path)
    epochs = metrics.get("epochs", [])
    flat = {name: value for name, value in metrics.items() if name != "epochs"}
    is_list = isinstance(epochs, list) and all(isinstance(epoch, dict) and _are_numbers(epoch) for epoch in epochs)
    if not is_list or not _are_numbers(flat):
        raise InputError(f"{path} holds no scores; expected numbers by name, as finetune writes: restore the file")
    return metrics


def _are_numbers(values: dict) -> bool:
    """Whether all values are numbers; null, NaN and infinity stand for a number that was not finite."""
    return all(value is None or _is_number(value) for value in values.values())


def _is_number(value: object) -> bool:
    return isinstance(value, float) or is_integer(value, -(2**63), 2**63)


def _held_out(scores: dict) -> dict:
    return {HELD_OUT + name: value for name, value in scores.items()}


def _charts(lines: Sequence[dict], over: str) -> tuple[Chart, ...]:
    """Returns a chart for each quantity: losses first, the learning rate last."""
    names = dict.fromkeys(name for line in lines for name in line if name not in (*_NOT_DRAWN, over))
    quantities = dict.fromkeys(name.removeprefix(HELD_OUT) for name in names)
    charts = []
    for quantity in sorted(quantities, key=_order):
        sides = {"training": quantity, "held out": HELD_OUT + quantity}
        curves = tuple(_curve(side, name, lines, over) for side, name in sides.items() if name in names)
        charts.append(Chart(quantity.replace("_", " "), over, curves))
    return tuple(charts)


def _order(quantity: str) -> tuple[bool, bool, str]:
    return quantity == "learning_rate", "loss" not in quantity, quantity


def _curve(side: str, name: str, lines: Sequence[dict], over: str) -> Curve:
    points = {line[over]: line[name] for line in lines if name in line}  # a resumed training may say a step again
    x = tuple(sorted(points))
    return Curve(side, x, tuple(float(points[one]) if _is_finite(points[one]) else None for one in x))


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _last(lines: Sequence[dict]) -> dict[str, float]:
    """Returns the last held-out values of a log, or the last of training."""
    values = {name: value for line in lines for name, value in line.items()}
    values = {name: value for name, value in values.items() if name not in (*_NOT_DRAWN, "learning_rate")}
    held_out = {name.removeprefix(HELD_OUT): value for name, value in values.items() if name.startswith(HELD_OUT)}
    return {name: value for name, value in (held_out or values).items() if _is_finite(value)}


def _picture(path: pathlib.Path) -> bytes | None:
    if not path.is_file():
        return None
    content = path.read_bytes()
    if not content.startswith(_PNG):
        raise InputError(f"{path} is no PNG picture: restore it from its source, or delete it")
    return content
