"""One HTML page that needs no network and no other file, and lets no text become markup."""

import base64
import hashlib
import html
import json
import pathlib
from collections.abc import Mapping, Sequence

PAGE = "index.html"  # the file of every page
_HERE = pathlib.Path(__file__).parent
# Only the style and the script that stand in the page are run, known by their hashes; nothing is fetched
_POLICY = (
    "default-src 'none'; style-src '{style}'; script-src '{script}'; img-src data:; base-uri 'none'; form-action 'none'"
)
_NO_SCRIPT = "<p>The charts of this page are drawn by the script in it, which this browser does not run.</p>"


def escaped(text: object) -> str:
    """Returns a text as HTML that shows it; quotes too, for attributes."""
    return html.escape(str(text), quote=True)


def section(name: str, title: str, sentences: str, content: str) -> str:
    """Returns a section; `sentences` and `content` are HTML."""
    return f'<section id="{name}"><h2>{title}</h2>\n<p>{sentences}</p>\n{content}</section>\n'


def header(
    title: str,
    facts: Mapping[str, object],
    texts: Sequence[str] = (),
    links: Sequence[tuple[str, str]] = (),
) -> str:
    """Returns the head of a page.

    Args:
        title, facts, texts: plain texts.
        links: names and titles of sections; HTML.
    """
    listed = "".join(f"<div><dt>{escaped(name)}</dt><dd>{escaped(value)}</dd></div>" for name, value in facts.items())
    quoted = "".join(f'<blockquote dir="auto">{escaped(text)}</blockquote>' for text in texts)
    listed_links = "".join(f'<a href="#{name}">{shown}</a>' for name, shown in links)
    navigation = f'<nav aria-label="Sections">{listed_links}</nav>' if links else ""
    return (
        f'<header><div class="top"><h1>{escaped(title)}</h1><button id="theme" type="button" hidden>Dark</button></div>'
        f"{quoted}<dl>{listed}</dl>{navigation}</header>\n"
    )


def page_of(title: str, body: str, data: object, scripts: Sequence[str]) -> str:
    """Returns a whole page.

    Args:
        title: plain text.
        body: HTML.
        data: what the scripts read, as JSON can hold it; no NaN.
        scripts: names of files of this folder, run in this order.
    """
    style = (_HERE / "page.css").read_text(encoding="utf-8")
    script = "\n".join((_HERE / name).read_text(encoding="utf-8") for name in scripts)
    policy = _POLICY.format(style=_hash(style), script=_hash(script))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escaped(title)}</title>
<style>{style}</style>
</head>
<body>
{body}
<noscript>{_NO_SCRIPT}</noscript>
<script type="application/json" id="data">{as_json(data)}</script>
<script>{script}</script>
</body>
</html>
"""


def as_json(data: object) -> str:
    """Returns data as JSON that may stand in a page: what could end a script or begin a tag is written as an escape."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))  # all but ASCII is escaped, U+2028 too
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode("utf-8")).digest()).decode()
