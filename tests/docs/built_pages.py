"""Read the pages of the built site: the places that can be linked to, the links, and the files that a page loads."""

import functools
import html.parser
import pathlib
import posixpath
import re
import urllib.parse

_IN_CSS = re.compile(r"url\(\s*['\"]?([^'\")]+)")


class BuiltPage(html.parser.HTMLParser):
    """One page.

    Attributes:
        identifiers: what a fragment can name.
        links: targets of `<a href>`.
        loads: addresses of all other kinds: scripts, styles, pictures, icons.
        text: the text.
    """

    def __init__(self, path: pathlib.Path):
        super().__init__()
        self.identifiers: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []
        self._texts: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))
        self.text = "".join(self._texts)

    def handle_starttag(self, tag: str, attributes: list) -> None:
        values = dict(attributes)
        self.identifiers += [
            values[name] for name in ("id", "name") if values.get(name) and (name == "id" or tag == "a")
        ]
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        elif tag != "a":
            self.loads += [values[name] for name in ("href", "src", "srcset", "data", "poster") if values.get(name)]
        self.loads += _IN_CSS.findall(values.get("style") or "")

    def handle_data(self, data: str) -> None:
        self._texts.append(data)


@functools.cache
def read_pages(site: pathlib.Path) -> dict[str, BuiltPage]:
    """Return every page of the site by its path."""
    return {path.relative_to(site).as_posix(): BuiltPage(path) for path in sorted(site.rglob("*.html"))}


def find_broken_links(site: pathlib.Path) -> list[str]:
    """Return the links and loads of all pages that lead to no file, or to no place on a page."""
    pages, broken = read_pages(site), []
    for path, page in pages.items():
        for link in dict.fromkeys([*page.links, *page.loads]):
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            name = urllib.parse.unquote(parts.path)
            # the page 404.html is shown for any address, so its links begin at the root
            target = name[1:] if name.startswith("/") else posixpath.join(posixpath.dirname(path), name)
            target = posixpath.normpath(target) if name else path
            if (site / target).is_dir():
                target = posixpath.normpath(posixpath.join(target, "index.html"))
            is_there = (site / target).is_file()
            fragment = urllib.parse.unquote(parts.fragment)
            if not is_there or (fragment and target in pages and fragment not in pages[target].identifiers):
                broken.append(f"{path}: {link}")
    return broken


def find_loads_from_other_hosts(site: pathlib.Path) -> list[str]:
    """Return what pages and style sheets load from other hosts."""
    found = [f"{path}: {load}" for path, page in read_pages(site).items() for load in page.loads]
    for path in site.rglob("*.css"):
        found += [f"{path.name}: {load}" for load in _IN_CSS.findall(path.read_text(encoding="utf-8"))]
    return [entry for entry in found if re.search(r": *(?:[a-z]+:)?//", entry)]
