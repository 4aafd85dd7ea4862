"""Create matplotlib figures, and write them to files and HTML pages."""

import base64
import io
import pathlib
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

from bert_keras.extras import check_installed

_DOTS_PER_INCH = 150
COLORS = ("#1f5fae", "#c2571a", "#3b7d3b", "#7a5195", "#8c6d1f", "#5f6b73")  # of curves and bars


class FigureSection(NamedTuple):
    """A section of a page with a figure.

    Attributes:
        name: file name of the figure, without its ending.
        title: title of the section.
        sentence: what the figure shows and how it is computed.
        figure: a `matplotlib.figure.Figure`.
    """

    name: str
    title: str
    sentence: str
    figure: Any


def check_matplotlib() -> None:
    """Raise `MissingExtraError` if matplotlib is not installed."""
    check_installed("drawing figures", "matplotlib", "plots")


def create_figure(*args: Any, **kwargs: Any) -> Any:
    """Create a `matplotlib.figure.Figure` outside pyplot's global state, so that any thread may draw."""
    check_matplotlib()
    from matplotlib.figure import Figure

    return Figure(*args, **kwargs)


def simplify_axes(axes: Any) -> None:
    """Remove the top and right spines of axes, and add a plain legend."""
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def save_figures(sections: Sequence[FigureSection], folder: pathlib.Path) -> list[str]:
    """Write each figure as PNG and SVG, and return the file names."""
    names = []
    for section in sections:
        for ending in ("png", "svg"):
            (folder / f"{section.name}.{ending}").write_bytes(render_figure(section.figure, ending))
            names.append(f"{section.name}.{ending}")
    return names


def render_figure(figure: Any, ending: str) -> bytes:
    """Render a figure as "png" or "svg"; equal figures give equal bytes."""
    import matplotlib

    file = io.BytesIO()
    metadata = {"Software": None} if ending == "png" else {"Date": None, "Creator": None}
    with warnings.catch_warnings(), matplotlib.rc_context({"svg.hashsalt": "bert_keras"}):
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # no font has the token's script
        figure.savefig(file, format=ending, dpi=_DOTS_PER_INCH, bbox_inches="tight", metadata=metadata)
    return file.getvalue()


def to_data_uri(content: bytes, ending: str) -> str:
    """Return an image as a data URI, for the `src` of an `<img>`."""
    kind = {"png": "image/png", "svg": "image/svg+xml"}[ending]
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
