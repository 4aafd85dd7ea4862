"""The HTML page is self-contained, escapes every text, has a bounded size, and is drawn by a browser."""

import base64
import hashlib
import html.parser
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from bert_keras.analysis.inspection.head_outputs import PredictedItem
from bert_keras.analysis.inspection.html_page import to_safe_json
from bert_keras.analysis.inspection.inspection_page import (
    MAX_MAP_BYTES,
    MAX_ROUNDING_ERROR,
    count_shown_tokens,
    encode_cosines,
    encode_probabilities,
    mark_items,
)
from bert_keras.figures import FigureSection, create_figure
from tests.marks import slow_except

TEXT = "The cats sat on a mat."
ODD = '</script><script>alert(1)</script> <b> "cat" \' & \u2028 $'


class Elements(html.parser.HTMLParser):
    """The elements of a page with their attributes, and the text of each script."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.scripts, self._in_script = [], [], False
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self._in_script = tag == "script"
        if self._in_script:
            self.scripts.append("")

    def handle_endtag(self, tag):
        self._in_script = self._in_script and tag != "script"

    def handle_data(self, data):
        if self._in_script:
            self.scripts[-1] += data

    def find(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def page(inspect_tiny):
    """The page of a tiny classifier."""
    return inspect_tiny("classifier", TEXT).to_html()


def read_data(page):
    return json.loads(Elements(page).scripts[0])


def decode(text, *shape, dtype="<u2"):
    return np.frombuffer(base64.b64decode(text), dtype).reshape(shape).astype(float)


def test_the_page_loads_nothing(page):
    for _, attributes in Elements(page).elements:
        for name in ("src", "href"):
            assert attributes.get(name, "#").startswith(("#", "data:"))
    assert "url(" not in page
    assert set(re.findall(r"https?://[^\"' ]*", page)) <= {"http://www.w3.org/2000/svg"}


def test_only_the_own_script_and_style_of_the_page_may_run(page):
    policy = Elements(page).find("meta")[1]["content"]
    [style] = re.findall(r"<style>(.*?)</style>", page, re.S)
    script = Elements(page).scripts[1]
    for content, kind in ((style, "style-src"), (script, "script-src")):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert not any("style" in attributes for _, attributes in Elements(page).elements)  # the policy forbids them


@pytest.mark.parametrize(
    "kind",
    slow_except(["encoder", "masked_lm", "classifier", "token_classifier", "electra"], quick=["token_classifier"]),
)
def test_no_text_becomes_markup(inspect_tiny, kind):
    changes = {"max_sequence_length": 60}
    plain, odd = (Elements(inspect_tiny(kind, text, changes=changes).to_html()) for text in ("cat", ODD))
    assert len(odd.scripts) == 2
    assert not odd.find("b")
    assert {name for name, _ in plain.elements} | {"mark", "sup"} >= {name for name, _ in odd.elements}
    assert json.loads(odd.scripts[0])["tokens"][1:5] == ["<", "/", "script", ">"]


def test_data_cannot_end_its_script_element():
    data = {"text": ODD + "<!--"}
    text = to_safe_json(data)
    assert json.loads(text) == data
    assert not set(text) & set("<>&\u2028")


def test_maps_have_the_stated_rounding_error(page, inspect_tiny):
    data, attention = read_data(page), inspect_tiny("classifier", TEXT).attention
    assert data["attention"]["shown"] == 10
    probabilities = decode(data["attention"]["maps"], *attention.shape) / 65535
    assert np.abs(probabilities - attention).max() <= float(MAX_ROUNDING_ERROR)
    values = np.linspace(0, 1, 100_001)
    errors = np.abs(decode(encode_probabilities(values), -1) / 65535 - values)
    assert errors.max() <= float(MAX_ROUNDING_ERROR)  # measured: 7.7e-6


def test_cosines_are_encoded_as_one_byte():
    cosines = np.linspace(-1, 1, 1001)
    errors = np.abs(decode(encode_cosines(cosines), -1, dtype=np.uint8) / 127.5 - 1 - cosines)
    assert errors.max() < 0.004  # measured: 0.0039
    assert decode(encode_cosines(np.array([1.0000002])), -1, dtype=np.uint8).tolist() == [255]


@pytest.mark.parametrize("shape", [(6, 12, 21, 21), (12, 12, 512, 512), (24, 16, 512, 512), (48, 64, 512, 512)])
def test_the_maps_of_a_page_have_a_maximum_size(shape):
    num_shown = count_shown_tokens(shape)
    assert 2 * shape[0] * shape[1] * num_shown**2 <= MAX_MAP_BYTES
    assert num_shown == shape[2] or 2 * shape[0] * shape[1] * (num_shown + 1) ** 2 > MAX_MAP_BYTES


def test_a_page_states_that_it_shows_fewer_tokens(inspect_tiny, monkeypatch):
    assert "the maps show the first" not in inspect_tiny("encoder", TEXT).to_html()
    monkeypatch.setattr("bert_keras.analysis.inspection.inspection_page.MAX_MAP_BYTES", 2 * 15 * 6**2)
    page = inspect_tiny("encoder", TEXT).to_html()
    assert "the maps show the first 6 of 10 tokens" in page
    data = read_data(page)
    assert data["attention"]["shown"] == 6
    assert decode(data["attention"]["maps"], 3, 5, 6, 6).shape == (3, 5, 6, 6)
    assert data["length"] == len(data["tokens"]) == 10


@pytest.mark.slow
def test_a_page_of_a_real_sentence_is_under_a_quarter_of_a_megabyte(minilm):
    import bert_keras as bk

    page = bk.inspect(minilm, "The keys to the old cabinet are on the table, although nobody left them.").to_html()
    assert len(page.encode()) < 250_000  # measured: 193,000


def test_the_page_names_its_position_embeddings(inspect_tiny):
    assert (
        "Learned position embeddings compared with the sinusoidal embeddings" in inspect_tiny("encoder", TEXT).to_html()
    )
    page = inspect_tiny("encoder", TEXT, changes={"position_type": "sinusoidal"}).to_html()
    assert "This model has no learned position embeddings" in page
    assert [table["name"] for table in read_data(page)["positions"]["tables"]] == ["sinusoidal"]


def test_a_page_has_the_sections_of_its_model(inspect_tiny):
    def titles(kind, *texts):
        return [one["id"] for one in Elements(inspect_tiny(kind, *texts).to_html()).find("section")]

    always = ["attention", "heads", "scores", "vectors", "positions", "activations"]
    assert titles("encoder_without_pooler", TEXT) == always
    assert titles("classifier", TEXT) == ["prediction", *always]
    assert titles("pretrainer", TEXT) == ["masked-predictions", *always]
    assert titles("pretrainer", TEXT, "every dog") == ["prediction", "masked-predictions", *always]


def test_ranges_are_marked_in_the_text():
    items = [
        PredictedItem("PET", 0.9, 0, 10, 13),
        PredictedItem("<i>", 0.9, 0, 4, 7),
        PredictedItem("x", 0.1, 0, 5, 9),  # overlaps the second
    ]
    expected = "the <mark>cat<sup>&lt;i&gt;</sup></mark> &amp; <mark>dog<sup>PET</sup></mark>"
    assert mark_items("the cat & dog", items) == expected
    assert mark_items("<b>", [PredictedItem("x", 0.9, 0, 0, 3)]) == "<mark>&lt;b&gt;<sup>x</sup></mark>"


def test_only_probabilities_have_bars(inspect_tiny):
    def num_bars(kind):
        return [one.get("class") for one in Elements(inspect_tiny(kind, TEXT).to_html()).find("svg")].count("bar")

    assert num_bars("classifier") == 4  # one per class
    assert num_bars("regression") == 0  # its value has no fixed range


def test_a_custom_figure_has_its_own_section(inspect_tiny):
    figure = create_figure()
    figure.add_subplot().plot([1, 2])
    page = inspect_tiny("encoder", TEXT).to_html([FigureSection("memory", "Memory <by length>", "In bytes.", figure)])
    assert '<section id="memory"><h2>Memory &lt;by length&gt;</h2>' in page
    assert Elements(page).find("img")[0]["src"].startswith("data:image/svg+xml;base64,")


def test_elements_have_names_for_screen_readers(inspect_tiny):
    page = inspect_tiny("classifier", TEXT).to_html([FigureSection("memory", "Memory", "", create_figure())])
    elements = Elements(page)
    assert elements.find("html") == [{"lang": "en"}]
    assert [one.get("alt") for one in elements.find("img")] == ["Memory"]
    assert len(elements.find("nav")) == len(elements.find("main")) == 1
    assert all(one.get("aria-label") or one.get("aria-hidden") for one in elements.find("svg"))
    assert len(elements.find("h1")) == 1


@pytest.mark.slow
def test_a_browser_draws_the_charts(inspect_tiny, tmp_path):
    if (browser := shutil.which("chromium")) is None:
        pytest.skip("chromium is not installed")
    (tmp_path / "page.html").write_text(inspect_tiny("masked_lm", "a </script> cat").to_html(), encoding="utf-8")
    options = "--headless --no-sandbox --disable-gpu --disable-background-networking --no-first-run --dump-dom"
    command = [browser, *options.split(), f"--user-data-dir={tmp_path / 'user'}", (tmp_path / "page.html").as_uri()]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert 'data-drawn="yes"' in result.stdout, result.stderr[-2000:]
    assert result.stdout.count('aria-label="layer ') == 15
    assert result.stdout.count('class="line series-1') == 4  # similarity, positions, activations, their difference
