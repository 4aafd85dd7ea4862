"""The page and figures of a training history."""

import os
import typing
from collections.abc import Sequence

from bert_keras.analysis.inspection.page.html_page import (
    PAGE,
    escape,
    render_header,
    render_html,
    render_image,
    render_section,
)
from bert_keras.analysis.inspection.training_history import CONFUSION, Chart, TrainingHistory
from bert_keras.figures import (
    COLORS,
    FigureSection,
    check_matplotlib,
    create_figure,
    save_figures,
    simplify_axes,
    to_data_uri,
)
from bert_keras.publishing import publish_folder

_SCRIPTS = ("page_tools.js", "page_charts.js", "page_training.js")
_CONFUSION = "Rows are true classes, columns predicted classes; the color is the share of the row."
_FOOTER = "<footer><p>Made by <code>bert-keras inspect --training</code>. It loads no external resources.</p></footer>"
_COLORS = dict(zip(("training", "held out"), COLORS, strict=False))


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
        check_matplotlib()
    with publish_folder(out, "inspect", overwrite=overwrite) as folder:
        (folder / PAGE).write_text(render_training_page(history), encoding="utf-8")
        names = [PAGE]
        if history.confusion is not None:
            (folder / CONFUSION).write_bytes(history.confusion)
            names.append(CONFUSION)
        if pictures:
            names += save_figures([FigureSection("training", "Training", "", draw_training(history))], folder)
    return names


def render_training_page(history: TrainingHistory) -> str:
    """Render the page of a training history."""
    title = f"Training of {history.folder.absolute().name}"
    facts = {name.replace("_", " "): f"{value:.4g}" for name, value in history.scores.items()}
    sections = [render_section("curves", "Curves", _describe(history.charts), _render_charts(history.charts))]
    if history.confusion is not None:
        image = render_image("Confusion matrix", to_data_uri(history.confusion, "png"))
        sections.append(render_section("confusion", "Confusion matrix", _CONFUSION, image))
    body = f"{render_header(title, facts)}<main>{''.join(sections)}</main>\n{_FOOTER}"
    return render_html(title, body, {"charts": list(map(_to_data, history.charts))}, _SCRIPTS)


def draw_training(history: TrainingHistory) -> typing.Any:
    """Draw the curves of a training history in two columns."""
    num_rows = -(-len(history.charts) // 2)
    figure = create_figure(figsize=(9, 2.4 * num_rows), layout="constrained")
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
        simplify_axes(axes)
    return figure


def _describe(charts: Sequence[Chart]) -> str:
    over = charts[0].over if charts else "step"
    averages = "Each training point is an average over the steps since the previous point. " if over == "step" else ""
    return f"Losses, scores and learning rate by {over}. {averages}Held-out examples are not used for training."


def _render_charts(charts: Sequence[Chart]) -> str:
    """Render the elements in which the script draws the charts."""
    elements = "".join(
        f'<div><h3>{escape(chart.name)}</h3><div id="chart-{place}"></div></div>' for place, chart in enumerate(charts)
    )
    return f'<div class="side-by-side">{elements}</div>'


def _to_data(chart: Chart) -> dict:
    places = {name: place for place, name in enumerate(_COLORS, 1)}
    series = [
        {"name": curve.name, "x": list(curve.x), "y": list(curve.y), "place": places[curve.name]}
        for curve in chart.curves
    ]
    return {"series": series, "xLabel": chart.over, "yLabel": chart.name, "label": f"{chart.name} by {chart.over}"}
