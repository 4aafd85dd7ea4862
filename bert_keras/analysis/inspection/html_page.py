"""A self-contained HTML page that loads nothing and escapes all text."""

import base64
import hashlib
import html
import json
import pathlib
import re
import string
from collections.abc import Mapping, Sequence

PAGE = "index.html"  # file name of every page
_ASSETS = pathlib.Path(__file__).parent / "page"
_MAX_WITHOUT_LINKS = 3  # sections


def escape(text: object) -> str:
    """Escape a text for HTML, including attributes."""
    return html.escape(str(text), quote=True)


def render_section(name: str, title: str, sentences: str, content: str) -> str:
    """Render a section; all arguments are HTML."""
    return f'<section id="{name}"><h2>{title}</h2>\n<p>{sentences}</p>\n{content}</section>\n'


def render_image(title: str, address: str) -> str:
    """Render an image in a box that scrolls.

    Args:
        title: HTML.
        address: the image as a data URI.
    """
    return f'<div class="scroll"><img class="picture" alt="{title}" src="{address}"></div>'


def render_table(header: str, rows: str, label: str, name: str = "") -> str:
    """Render a table in a box that scrolls.

    Args:
        header: cells of the header, HTML.
        rows: rows of the body, HTML.
        label: name for screen readers.
        name: id of the table.
    """
    attribute = f' id="{name}"' if name else ""
    return (
        f'<div class="scroll tall" tabindex="0" role="region" aria-label="{label}">'
        f"<table{attribute}><thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def render_page(
    title: str,
    main: str,
    data: object,
    scripts: Sequence[str],
    *,
    command: str,
    facts: Mapping[str, object],
    texts: Sequence[str] = (),
    note: str = "",
) -> str:
    """Render a whole page, with links to its sections if there are many.

    Args:
        title: plain text.
        main: the sections, HTML.
        data: data for the scripts, as JSON without NaN.
        scripts: file names in the folder `page`, in the order in which they run.
        command: the command that makes the page, without `bert-keras`.
        facts: values keyed by name, plain text, for the header.
        texts: texts to quote in the header, plain text.
        note: the end of the footer, HTML.
    """
    style, script = _read("page.css"), "\n".join(map(_read, scripts))
    links = re.findall(r'<section id="([^"]*)"><h2>(.*?)</h2>', main)
    anchors = "".join(f'<a href="#{name}">{text}</a>' for name, text in links)
    return fill_template(
        "page.html",
        title=escape(title),
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        texts="".join(f'<blockquote dir="auto">{escape(text)}</blockquote>' for text in texts),
        facts="".join(f"<div><dt>{escape(name)}</dt><dd>{escape(fact)}</dd></div>" for name, fact in facts.items()),
        navigation=f'<nav aria-label="Sections">{anchors}</nav>' if len(links) > _MAX_WITHOUT_LINKS else "",
        main=main,
        command=command,
        note=note,
        data=to_safe_json(data),
    )


def fill_template(name: str, **values: object) -> str:
    """Return the text of a file of the folder `page` with values, HTML, in place of their names."""
    return string.Template(_read(name)).substitute(values)


def to_safe_json(data: object) -> str:
    """Convert data to JSON for a script element; characters that could end the script or open a tag are escaped."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))  # escapes non-ASCII characters, including U+2028
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode("utf-8")).digest()).decode()


def _read(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")
