"""The site in Chromium: no errors of the console, search, themes, accessibility, and the width of a phone.

cd tests/docs && npm ci
apt-get install chromium
"""

import functools
import http.server
import pathlib
import threading

import pytest

from tests.serving.browser import CHROMIUM, Browser

from .built_pages import read_pages

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: apt-get install chromium"),
]

AXE = pathlib.Path(__file__).parent / "node_modules/axe-core/axe.min.js"
CHECKED = [
    "index.html",
    "guide/export.html",
    "reference/cli/index.html",
    "reference/cli/finetune.html",
    "reference/api/data.html",
    "reference/errors.html",
    "measurements/inference.html",
    "changelog.html",
]
PHONE = 360


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """The handler of `python -m http.server`, without a line for each request."""

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """One browser for the tests of this module."""
    with Browser(tmp_path_factory.mktemp("profile")) as one:
        yield one


@pytest.fixture(scope="module")
def address(site):
    """The address of a server of the site."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(QuietHandler, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def find_checked_pages(site: pathlib.Path) -> list[str]:
    """Return the pages whose accessibility is checked: `CHECKED` and one notebook, if there are notebooks."""
    notebooks = [path for path in read_pages(site) if path.startswith("notebooks/") and "index" not in path]
    return CHECKED + notebooks[:1]


def find_faults(browser: Browser) -> list[str]:
    """Return the serious and critical violations of axe on the open page."""
    browser.run(AXE.read_text(encoding="utf-8") + "; true")
    violations = browser.run("axe.run(document, {resultTypes: ['violations']}).then((found) => found.violations)")
    return [
        f"{violation['id']}: {node['html'][:150]} {node['failureSummary'][:300]}"
        for violation in violations
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]


def test_no_page_has_console_errors_or_is_wider_than_a_phone(site, address, browser):
    browser.problems.clear()
    too_wide = []
    for page in read_pages(site):
        browser.open(f"{address}/{page}", width=PHONE)
        if browser.run("document.documentElement.scrollWidth") > PHONE:
            too_wide.append(page)
    assert browser.problems == []
    assert too_wide == []
    assert [url for url in browser.requests if not url.startswith((address, "about:", "data:"))] == []


def type_into_search(browser: Browser, text: str) -> list[str]:
    """Type a text into the search box, and return the pages that the results link to, best first."""
    browser.run("document.querySelector('[data-md-component=search-query]').focus()")
    browser.call("Input.insertText", text=text)
    browser.wait_until("document.querySelector('.md-search-result__item a') !== null")
    return browser.run("[...document.querySelectorAll('.md-search-result__item a')].map((link) => link.href)")


def test_search_finds_the_page_of_a_typed_word(address, browser):
    browser.problems.clear()
    browser.open(f"{address}/index.html")
    assert any("reference/errors.html" in link for link in type_into_search(browser, "pickles"))
    browser.open(f"{address}/index.html")
    assert any("/reference/cli/" in link for link in type_into_search(browser, "gradient-checkpointing"))
    assert browser.problems == []


def test_search_works_in_a_site_that_is_opened_from_disk(site, tmp_path):
    with Browser(tmp_path) as browser:  # new: in a tab that had shown a page over HTTP, the search did not start
        browser.call("Page.navigate", url=f"{site.as_uri()}/guide/export.html")
        browser.wait_until("location.protocol === 'file:' && document.readyState === 'complete'")
        links = type_into_search(browser, "perplexity")
        assert links
        assert all(link.startswith(site.as_uri()) for link in links)
        assert browser.problems == []
        assert [url for url in browser.requests if not url.startswith(("file:", "about:", "data:"))] == []


def test_the_theme_follows_the_system_until_the_reader_chooses_one(address, browser):
    background = "getComputedStyle(document.body).backgroundColor"
    click = "[...document.querySelectorAll('[data-md-component=palette] label')].find((label) => !label.hidden).click()"
    backgrounds = []
    for theme in ("light", "dark"):
        browser.open(f"{address}/index.html", theme=theme)
        backgrounds.append(browser.run(background))
    browser.run(click)  # light, though the system is dark
    backgrounds.append(browser.run(background))
    browser.run(click)
    backgrounds.append(browser.run(background))
    browser.run(click)
    browser.run("localStorage.clear()")
    light, dark, *chosen = backgrounds
    assert light != dark
    assert chosen == [light, dark]


@pytest.mark.parametrize("width", [1280, PHONE])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_have_no_serious_accessibility_fault(site, address, browser, theme, width):
    if not AXE.exists():
        pytest.skip("the packages are not installed: run npm ci in tests/docs")
    faults = {}
    for page in find_checked_pages(site):
        browser.open(f"{address}/{page}", width=width, theme=theme)
        faults[page] = find_faults(browser)
    assert {page: found[:3] for page, found in faults.items() if found} == {}


def test_a_serious_accessibility_fault_is_found(address, browser):
    if not AXE.exists():
        pytest.skip("the packages are not installed: run npm ci in tests/docs")
    browser.open(f"{address}/index.html")
    browser.run("document.querySelector('article').insertAdjacentHTML('beforeend', '<img src=\"flow.svg\">')")
    assert [fault for fault in find_faults(browser) if fault.startswith("image-alt")]
