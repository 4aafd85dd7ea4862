"""`inspect_training`: the page and the pictures of a checkpoint's own records."""

import os
from collections.abc import Sequence

from bert_keras.analysis.inspection.page.html_page import PAGE, escaped, header, page_of, section
from bert_keras.analysis.inspection.training_history import CONFUSION, Chart, TrainingRecords
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
_CONFUSION = "Row = the true class, column = the predicted one; the colour is the share of the row."
_FOOT = "<footer><p>Made by <code>bert-keras inspect --training</code>. The page fetches nothing.</p></footer>"
_COLORS = dict(zip(("training", "held out"), COLORS, strict=False))


def save_training(
    records: TrainingRecords, out: str | os.PathLike, *, pictures: bool = True, overwrite: bool = False
) -> list[str]:
    """Writes the page `index.html`, the curves as PNG and SVG, and the confusion matrix that the checkpoint has.

    Args:
        records: of a checkpoint.
        out: the folder; it appears whole or not at all.
        pictures: whether to draw; without, matplotlib is not needed.
        overwrite: replace a folder that `inspect` wrote.

    Returns:
        The names of the files.

    Raises:
        InputError: the folder is there and not empty, or (`MissingExtraError`) matplotlib is not installed.
    """
    if pictures:
        check_matplotlib()
    with publish_folder(out, "inspect", overwrite=overwrite) as folder:
        (folder / PAGE).write_text(training_page(records), encoding="utf-8")
        names = [PAGE]
        if records.confusion is not None:
            (folder / CONFUSION).write_bytes(records.confusion)
            names.append(CONFUSION)
        if pictures:
            names += save_figures([FigureSection("training", "Training", "", training_figure(records))], folder)
    return names


def training_page(records: TrainingRecords) -> str:
    """Returns one page that needs nothing else."""
    title = f"Training of {records.folder.absolute().name}"
    facts = {name.replace("_", " "): f"{value:.4g}" for name, value in records.scores.items()}
    parts = [section("curves", "Curves", _sentence(records.charts), _places(records.charts))]
    if records.confusion is not None:
        address = to_data_uri(records.confusion, "png")
        picture = f'<div class="scroll"><img class="picture" alt="Confusion matrix" src="{address}"></div>'
        parts.append(section("confusion", "Confusion matrix", _CONFUSION, picture))
    body = f"{header(title, facts)}<main>{''.join(parts)}</main>\n{_FOOT}"
    return page_of(title, body, {"charts": list(map(_plain, records.charts))}, _SCRIPTS)


def _sentence(charts: Sequence[Chart]) -> str:
    over = charts[0].over if charts else "step"
    means = "A point of training is the mean over the steps since the point before. " if over == "step" else ""
    return (
        f"Losses, scores and the learning rate over the {over}s, as the training wrote them down. {means}Held out: "
        "examples that were not learned."
    )


def _places(charts: Sequence[Chart]) -> str:
    """Returns where the script draws each chart."""
    places = "".join(
        f'<div><h3>{escaped(chart.name)}</h3><div id="chart-{place}"></div></div>' for place, chart in enumerate(charts)
    )
    return f'<div class="side-by-side">{places}</div>'


def training_figure(records: TrainingRecords):
    """Returns the curves, one below the other in two columns."""
    num_rows = -(-len(records.charts) // 2)
    figure = create_figure(figsize=(9, 2.4 * num_rows), layout="constrained")
    all_axes = list(figure.subplots(num_rows, 2, squeeze=False).flat)
    for axes in all_axes:
        axes.set_visible(False)
    for axes, chart in zip(all_axes, records.charts, strict=False):
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


def _plain(chart: Chart) -> dict:
    places = {name: place for place, name in enumerate(_COLORS, 1)}
    series = [
        {"name": curve.name, "x": list(curve.x), "y": list(curve.y), "place": places[curve.name]}
        for curve in chart.curves
    ]
    return {"series": series, "xLabel": chart.over, "yLabel": chart.name, "label": f"{chart.name} over {chart.over}s"}
