"""The training history of a checkpoint folder: its curves and scores, and their page and figures."""

import dataclasses
import math
import os
import pathlib
import typing
from collections.abc import Sequence

from bert_keras import figures
from bert_keras.analysis.inspection import html_page
from bert_keras.checks import is_integer, read_field
from bert_keras.errors import InputError
from bert_keras.files import parse_json, read_json
from bert_keras.publishing import publish_folder

LOG, METRICS, CONFUSION = "training_log.jsonl", "metrics.json", "confusion_matrix.png"
HELD_OUT = "held_out_"
_WITHOUT_CHART = ("step", "seconds", "num_steps", "tokens")
_PNG = b"\x89PNG\r\n\x1a\n"

_SCRIPTS = ("page_tools.js", "page_charts.js", "page_training.js")
_CONFUSION = "Rows are true classes, columns predicted classes; the color is the share of the row."
_AVERAGES = "Each training point is an average over the steps since the previous point. "
_HELD_OUT_EXAMPLES = "Held-out examples are not used for training."
_COLORS = dict(zip(("training", "held out"), figures.COLORS, strict=False))


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

    def to_data(self) -> dict:
        """Return what the script of the page draws."""
        places = {name: place for place, name in enumerate(_COLORS, 1)}
        series = [{**dataclasses.asdict(curve), "place": places[curve.name]} for curve in self.curves]
        return {"series": series, "xLabel": self.over, "yLabel": self.name, "label": f"{self.name} by {self.over}"}


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
    confusion = folder / CONFUSION
    image = confusion.read_bytes() if confusion.is_file() else None
    if image is not None and not image.startswith(_PNG):
        raise InputError(f"{confusion} is not a PNG image; expected one: restore it from its source, or delete it")
    return TrainingHistory(folder, charts, scores or _get_last_scores(lines), image)


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
        curves = []
        for side, name in sides.items():
            # a resumed run repeats steps; the last counts
            if points := {line[over]: line[name] for line in lines if name in line}:
                x = tuple(sorted(points))
                curves.append(Curve(side, x, tuple(float(points[at]) if _is_finite(points[at]) else None for at in x)))
        charts.append(Chart(quantity.replace("_", " "), over, tuple(curves)))
    return tuple(charts)


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _get_last_scores(lines: Sequence[dict]) -> dict[str, float]:
    """Return the last held-out scores of a log, or else the last training scores."""
    values = {name: value for line in lines for name, value in line.items()}
    values = {name: value for name, value in values.items() if name not in (*_WITHOUT_CHART, "learning_rate")}
    held_out = {name.removeprefix(HELD_OUT): value for name, value in values.items() if name.startswith(HELD_OUT)}
    return {name: value for name, value in (held_out or values).items() if _is_finite(value)}


def save_training_history(
    history: TrainingHistory, out: str | os.PathLike, *, pictures: bool = True, overwrite: bool = False
) -> list[str]:
    """Write the page `index.html`, the curves as PNG and SVG, and the confusion matrix if there is one.

    Args:
        history: the history of a checkpoint.
        out: the folder; it is written completely or not at all.
        pictures: whether to draw figures; without them matplotlib is not needed.
        overwrite: replace a folder that `inspect` wrote.

    Returns:
        The file names.

    Raises:
        InputError: the folder exists and is not empty, or (`MissingExtraError`) matplotlib is not installed.
    """
    if pictures:
        figures.check_matplotlib()
    with publish_folder(out, "inspect", overwrite=overwrite) as folder:
        (folder / html_page.PAGE).write_text(render_training_page(history), encoding="utf-8")
        names = [html_page.PAGE]
        if history.confusion is not None:
            (folder / CONFUSION).write_bytes(history.confusion)
            names.append(CONFUSION)
        if pictures:
            names += figures.save_figures(
                [figures.FigureSection("training", "Training", "", draw_training(history))], folder
            )
    return names


def render_training_page(history: TrainingHistory) -> str:
    """Render the page of a training history."""
    title = f"Training of {history.folder.absolute().name}"
    facts = {name.replace("_", " "): f"{value:.4g}" for name, value in history.scores.items()}
    elements = "".join(
        f'<div><h3>{html_page.escape(chart.name)}</h3><div id="chart-{place}"></div></div>'
        for place, chart in enumerate(history.charts)
    )
    over = history.charts[0].over
    sentences = f"Losses, scores and learning rate by {over}. {_AVERAGES if over == 'step' else ''}{_HELD_OUT_EXAMPLES}"
    sections = [html_page.render_section("curves", "Curves", sentences, f'<div class="side-by-side">{elements}</div>')]
    if history.confusion is not None:
        image = html_page.render_image("Confusion matrix", figures.to_data_uri(history.confusion, "png"))
        sections.append(html_page.render_section("confusion", "Confusion matrix", _CONFUSION, image))
    data = {"charts": [chart.to_data() for chart in history.charts]}
    return html_page.render_page(title, "".join(sections), data, _SCRIPTS, command="inspect --training", facts=facts)


def draw_training(history: TrainingHistory) -> typing.Any:
    """Draw the curves of a training history in two columns."""
    num_rows = -(-len(history.charts) // 2)
    figure = figures.create_figure(figsize=(9, 2.4 * num_rows), layout="constrained")
    all_axes = list(figure.subplots(num_rows, 2, squeeze=False).flat)
    for axes in all_axes:
        axes.set_visible(False)
    for axes, chart in zip(all_axes, history.charts, strict=False):
        axes.set_visible(True)
        for curve in chart.curves:
            values = [float("nan") if value is None else value for value in curve.y]
            marker = "o" if len(values) < 25 else None
            axes.plot(curve.x, values, color=_COLORS[curve.name], label=curve.name, marker=marker, markersize=3)
        axes.set_title(chart.name, fontsize=10, parse_math=False)
        axes.set_xlabel(chart.over, fontsize=8)
        axes.locator_params(axis="x", integer=True)
        axes.tick_params(labelsize=8)
        figures.simplify_axes(axes)
    return figure
