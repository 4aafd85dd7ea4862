"""Figures of matplotlib: whether there is one, and how they become files and parts of a page."""

import base64
import io
import pathlib
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

from bert_keras.extras import check_installed

_DOTS_PER_INCH = 150
COLORS = ("#1f5fae", "#c2571a", "#3b7d3b", "#7a5195", "#8c6d1f", "#5f6b73")  # of curves and bars, in this order


class FigureSection(NamedTuple):
    """A picture with its place in a page.

    Attributes:
        name: of its files, without ending.
        title: of its section.
        sentence: what one sees, and how it is computed.
        figure: a `matplotlib.figure.Figure`.
    """

    name: str
    title: str
    sentence: str
    figure: Any


def check_can_draw() -> None:
    """Raises `MissingExtraError` if matplotlib is not installed."""
    check_installed("drawing pictures", "matplotlib", "plots")


def new_figure(*args, **kwargs):
    """Returns a figure that no state of pyplot knows, so any thread may draw."""
    check_can_draw()
    from matplotlib.figure import Figure

    return Figure(*args, **kwargs)


def plain(axes) -> None:
    """Takes from axes what is not needed, and names their curves or bars."""
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def save_figures(sections: Sequence[FigureSection], folder: pathlib.Path) -> list[str]:
    """Writes each figure as PNG and as SVG; returns the names of the files."""
    names = []
    for section in sections:
        for ending in ("png", "svg"):
            (folder / f"{section.name}.{ending}").write_bytes(drawn(section.figure, ending))
            names.append(f"{section.name}.{ending}")
    return names


def drawn(figure, ending: str) -> bytes:
    """Returns a figure as the bytes of a "png" or "svg" file, the same bytes each time."""
    file = io.BytesIO()
    draw(figure, file, ending)
    return file.getvalue()


def draw(figure, file, ending: str) -> None:
    """Writes a figure, as `drawn`, to a path or an open file."""
    import matplotlib

    metadata = {"Software": None} if ending == "png" else {"Date": None, "Creator": None}
    with warnings.catch_warnings(), matplotlib.rc_context({"svg.hashsalt": "bert_keras"}):
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # a token in a script that has no font here
        figure.savefig(file, format=ending, dpi=_DOTS_PER_INCH, bbox_inches="tight", metadata=metadata)


def to_data_uri(content: bytes, ending: str) -> str:
    """Returns a picture as the address of an `<img>` that needs no file."""
    kind = {"png": "image/png", "svg": "image/svg+xml"}[ending]
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
