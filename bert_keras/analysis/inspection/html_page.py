"""A self-contained HTML page that loads nothing and escapes all text."""

import base64
import hashlib
import html
import json
import pathlib
from collections.abc import Mapping, Sequence

PAGE = "index.html"  # file name of every page
_ASSETS = pathlib.Path(__file__).parent / "page"
# Only the page's own style and script run, identified by their hashes; nothing is loaded
_POLICY = (
    "default-src 'none'; style-src '{style}'; script-src '{script}'; img-src data:; base-uri 'none'; form-action 'none'"
)
_NO_SCRIPT = "<p>The charts of this page need JavaScript, which is turned off in this browser.</p>"


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


def render_header(
    title: str,
    facts: Mapping[str, object],
    texts: Sequence[str] = (),
    links: Sequence[tuple[str, str]] = (),
) -> str:
    """Render the header of a page.

    Args:
        title: plain text.
        facts: values keyed by name, plain text.
        texts: texts to quote, plain text.
        links: names and titles of sections, HTML.
    """
    items = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts.items())
    quotes = "".join(f'<blockquote dir="auto">{escape(text)}</blockquote>' for text in texts)
    anchors = "".join(f'<a href="#{name}">{text}</a>' for name, text in links)
    navigation = f'<nav aria-label="Sections">{anchors}</nav>' if links else ""
    return (
        f'<header><div class="top"><h1>{escape(title)}</h1><button id="theme" type="button" hidden>Dark</button></div>'
        f"{quotes}<dl>{items}</dl>{navigation}</header>\n"
    )


def render_html(title: str, body: str, data: object, scripts: Sequence[str]) -> str:
    """Render a whole page.

    Args:
        title: plain text.
        body: HTML.
        data: data for the scripts, as JSON without NaN.
        scripts: file names in the folder `page`, in the order in which they run.
    """
    style = (_ASSETS / "page.css").read_text(encoding="utf-8")
    script = "\n".join((_ASSETS / name).read_text(encoding="utf-8") for name in scripts)
    policy = _POLICY.format(style=_hash(style), script=_hash(script))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{style}</style>
</head>
<body>
{body}
<noscript>{_NO_SCRIPT}</noscript>
<script type="application/json" id="data">{to_safe_json(data)}</script>
<script>{script}</script>
</body>
</html>
"""


def to_safe_json(data: object) -> str:
    """Convert data to JSON for a script element; characters that could end the script or open a tag are escaped."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))  # escapes non-ASCII characters, including U+2028
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode("utf-8")).digest()).decode()
