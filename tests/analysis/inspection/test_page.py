"""The page: whole by itself, safe whatever the text, bounded, and drawn by a browser."""

import base64
import hashlib
import html.parser
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from bert_keras.analysis.inspection.head_outputs import Finding
from bert_keras.analysis.inspection.page.html_page import as_json
from bert_keras.analysis.inspection.page.page_answers import marked
from bert_keras.analysis.inspection.page.page_data import (
    LARGEST_ERROR,
    MOST_MAP_BYTES,
    num_shown,
    of_cosines,
    of_shares,
)
from bert_keras.figures import FigureSection, create_figure

TEXT = "The cats sat on a mat."
ODD = '</script><script>alert(1)</script> <b> "cat" \' & \u2028 $'


class Elements(html.parser.HTMLParser):
    """The elements of a page with their attributes, and the text of each script."""

    def __init__(self, page):
        super().__init__()
        self.found, self.scripts, self._in_script = [], [], False
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        self._in_script = tag == "script"
        if self._in_script:
            self.scripts.append("")

    def handle_endtag(self, tag):
        self._in_script = self._in_script and tag != "script"

    def handle_data(self, data):
        if self._in_script:
            self.scripts[-1] += data

    def named(self, tag):
        return [attributes for name, attributes in self.found if name == tag]


@pytest.fixture(scope="module")
def page(see):
    """The page of a tiny classifier."""
    return see("classifier", TEXT).to_html()


def data_of(page):
    return json.loads(Elements(page).scripts[0])


def decoded(text, *shape, dtype="<u2"):
    return np.frombuffer(base64.b64decode(text), dtype).reshape(shape).astype(float)


def test_the_page_asks_for_nothing_outside_itself(page):
    for _, attributes in Elements(page).found:
        for name in ("src", "href"):
            assert attributes.get(name, "#").startswith(("#", "data:"))
    assert "url(" not in page
    assert set(re.findall(r"https?://[^\"' ]*", page)) <= {"http://www.w3.org/2000/svg"}


def test_only_the_script_and_the_style_of_the_page_may_run(page):
    policy = Elements(page).named("meta")[1]["content"]
    [style] = re.findall(r"<style>(.*?)</style>", page, re.S)
    script = Elements(page).scripts[1]
    for content, kind in ((style, "style-src"), (script, "script-src")):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert not any("style" in attributes for _, attributes in Elements(page).found)  # the policy would drop them


@pytest.mark.parametrize("kind", ["encoder", "masked_lm", "classifier", "token_classifier", "electra"])
def test_no_text_becomes_markup(see, kind):
    changes = {"max_sequence_length": 60}
    plain, odd = (Elements(see(kind, text, changes=changes).to_html()) for text in ("cat", ODD))
    assert len(odd.scripts) == 2
    assert not odd.named("b")
    assert {name for name, _ in plain.found} | {"mark", "sup"} >= {name for name, _ in odd.found}
    assert json.loads(odd.scripts[0])["tokens"][1:5] == ["<", "/", "script", ">"]


def test_data_in_a_script_cannot_end_it():
    data = {"text": ODD + "<!--"}
    text = as_json(data)
    assert json.loads(text) == data
    assert not set(text) & set("<>&\u2028")


def test_maps_are_as_exact_as_the_page_says(page, see):
    data, attention = data_of(page), see("classifier", TEXT).attention
    assert data["attention"]["shown"] == 10
    shares = decoded(data["attention"]["maps"], *attention.shape) / 65535
    assert np.abs(shares - attention).max() <= float(LARGEST_ERROR)
    every = np.linspace(0, 1, 100_001)
    assert np.abs(decoded(of_shares(every), -1) / 65535 - every).max() <= float(LARGEST_ERROR)  # measured: 7.7e-6


def test_cosines_are_a_byte_each():
    cosines = np.linspace(-1, 1, 1001)
    assert (
        np.abs(decoded(of_cosines(cosines), -1, dtype=np.uint8) / 127.5 - 1 - cosines).max() < 0.004
    )  # measured: 0.0039
    assert decoded(of_cosines(np.array([1.0000002])), -1, dtype=np.uint8).tolist() == [255]


@pytest.mark.parametrize("shape", [(6, 12, 21, 21), (12, 12, 512, 512), (24, 16, 512, 512), (48, 64, 512, 512)])
def test_the_maps_of_a_page_are_bounded(shape):
    shown = num_shown(shape)
    assert 2 * shape[0] * shape[1] * shown**2 <= MOST_MAP_BYTES
    assert shown == shape[2] or 2 * shape[0] * shape[1] * (shown + 1) ** 2 > MOST_MAP_BYTES


def test_a_page_that_shows_fewer_tokens_says_so(see, monkeypatch):
    assert "The maps show the first" not in see("encoder", TEXT).to_html()
    monkeypatch.setattr("bert_keras.analysis.inspection.page.page_data.MOST_MAP_BYTES", 2 * 15 * 6**2)
    page = see("encoder", TEXT).to_html()
    assert "The maps show the first 6 of 10 tokens" in page
    data = data_of(page)
    assert data["attention"]["shown"] == 6
    assert decoded(data["attention"]["maps"], 3, 5, 6, 6).shape == (3, 5, 6, 6)
    assert data["length"] == len(data["tokens"]) == 10


def test_a_page_of_a_real_sentence_is_well_under_a_megabyte(minilm):
    import bert_keras as bk

    page = bk.inspect(minilm, "The keys to the old cabinet are on the table, although nobody left them.").to_html()
    assert len(page.encode()) < 250_000  # measured: 193,000


def test_the_page_names_the_kinds_of_its_positions(see):
    assert "The learned table (17, 30) beside the sines" in see("encoder", TEXT).to_html()
    page = see("encoder", TEXT, changes={"position_type": "sinusoidal"}).to_html()
    assert "This model has no learned positions" in page
    assert [table["name"] for table in data_of(page)["positions"]["tables"]] == ["sinusoidal"]


def test_a_page_has_the_sections_that_its_model_has(see):
    def titles(kind, *texts):
        return [one["id"] for one in Elements(see(kind, *texts).to_html()).named("section")]

    always = ["attention", "heads", "scores", "vectors", "positions", "activations"]
    assert titles("encoder_without_pooler", TEXT) == always
    assert titles("classifier", TEXT) == ["answer", *always]
    assert titles("pretrainer", TEXT) == ["guesses", *always]
    assert titles("pretrainer", TEXT, "every dog") == ["answer", "guesses", *always]


def test_ranges_are_marked_in_the_text():
    findings = [Finding("PET", 0.9, 0, 10, 13), Finding("<i>", 0.9, 0, 4, 7), Finding("x", 0.1, 0, 5, 9)]
    expected = "the <mark>cat<sup>&lt;i&gt;</sup></mark> &amp; <mark>dog<sup>PET</sup></mark>"
    assert marked("the cat & dog", findings) == expected
    assert marked("<b>", [Finding("x", 0.9, 0, 0, 3)]) == "<mark>&lt;b&gt;<sup>x</sup></mark>"


def test_probabilities_alone_are_drawn_as_bars(see):
    def num_bars(kind):
        return [one.get("class") for one in Elements(see(kind, TEXT).to_html()).named("svg")].count("bar")

    assert num_bars("classifier") == 4  # one a class
    assert num_bars("regression") == 0  # its value can be anything


def test_a_picture_from_elsewhere_has_its_section(see):
    figure = create_figure()
    figure.add_subplot().plot([1, 2])
    page = see("encoder", TEXT).to_html([FigureSection("memory", "Memory <by length>", "In bytes.", figure)])
    assert '<section id="memory"><h2>Memory &lt;by length&gt;</h2>' in page
    assert Elements(page).named("img")[0]["src"].startswith("data:image/svg+xml;base64,")


def test_everything_has_a_name_for_those_who_do_not_see_it(see):
    page = see("classifier", TEXT).to_html([FigureSection("memory", "Memory", "", create_figure())])
    elements = Elements(page)
    assert elements.named("html") == [{"lang": "en"}]
    assert [one.get("alt") for one in elements.named("img")] == ["Memory"]
    assert len(elements.named("nav")) == len(elements.named("main")) == 1
    assert all(one.get("aria-label") or one.get("aria-hidden") for one in elements.named("svg"))
    assert len(elements.named("h1")) == 1


def test_a_browser_draws_the_page(see, tmp_path):
    if (browser := shutil.which("chromium")) is None:
        pytest.skip("chromium is not installed")
    (tmp_path / "page.html").write_text(see("masked_lm", "a </script> cat").to_html(), encoding="utf-8")
    options = "--headless --no-sandbox --disable-gpu --disable-background-networking --no-first-run --dump-dom"
    command = [browser, *options.split(), f"--user-data-dir={tmp_path / 'user'}", (tmp_path / "page.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert 'data-drawn="yes"' in done.stdout, done.stderr[-2000:]
    assert done.stdout.count('aria-label="layer ') == 15
    assert done.stdout.count('class="line series-1') == 4  # means, positions, activations, their difference
