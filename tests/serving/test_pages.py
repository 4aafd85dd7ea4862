"""The pages load nothing from other hosts, and show in a real browser what the endpoints answer."""

import asyncio
import configparser
import dataclasses
import fnmatch
import html.parser
import json
import pathlib
import re
import shutil
import subprocess

import httpx
import numpy as np
import pytest

import bert_keras as bk
from bert_keras.checkpoints.task_loading import restore_task
from bert_keras.export.onnx.to_onnx import write_onnx_folder
from bert_keras.serving.http.application import make_application
from bert_keras.serving.protocols.tasks import make_task_protocol
from bert_keras.serving.repository import ModelRepository
from bert_keras.serving.server import make_endpoints
from bert_keras.serving.server_state import ServerState
from bert_keras.serving.settings import ServerSettings

from .browser import CHROMIUM, Browser
from .conftest import LENGTH
from .running_server import RunningServer

REPOSITORY = pathlib.Path(__file__).parents[2]
FOLDER = REPOSITORY / "bert_keras/serving/http/pages"
FILES = sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".css", ".html", ".js", ".svg"))
SOURCES = {name: (FOLDER / name).read_text(encoding="utf-8") for name in FILES}
PAGES = {"try.html": "/", "docs.html": "/docs"}
KEY = "not for the screen"
EMOJI_TEXT = '😀👩‍🚀 the cat sat on a mat . 東京 it\'s \\ "red" é'

slow_browser = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: apt-get install chromium"),
]


class Elements(html.parser.HTMLParser):
    """The elements of a page, each a tag and its attributes."""

    def __init__(self, page):
        super().__init__()
        self.elements = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def find(self, attribute):
        return [attributes[attribute] for _, attributes in self.elements if attribute in attributes]


def get(*paths, method="GET"):
    """Return the answers of a server without models that requires a key; the requests have none."""
    server = ServerState(ModelRepository([], print), ServerSettings(api_key=KEY), print)
    transport = httpx.ASGITransport(make_application(server, make_endpoints()))

    async def send():
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return [await client.request(method, path) for path in paths]

    return asyncio.run(send())


def to_path(name):
    return PAGES.get(name, f"/pages/{name}")


@pytest.mark.parametrize("name", FILES)
def test_a_page_and_its_files_need_no_key_and_may_load_only_from_this_server(name):
    [answer] = get(to_path(name))
    assert answer.status_code == 200
    kind = {".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".svg": "image/svg+xml"}
    assert answer.headers["content-type"] == f"{kind[pathlib.Path(name).suffix]}; charset=utf-8"
    assert answer.text == SOURCES[name]
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert set(policy.values()) == {"'none'", "'self'"}
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("name", FILES)
def test_no_file_names_another_host(name):
    assert set(re.findall(r"https?://[^\"'\s]*", SOURCES[name])) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\burl\(|@import", SOURCES[name])


@pytest.mark.parametrize("name", PAGES)
def test_everything_that_a_page_names_exists(name):
    elements = Elements(SOURCES[name])
    targets = {*elements.find("href"), *elements.find("src")}
    assert all(not target.startswith("/") and ":" not in target for target in targets)  # a proxy may add a path
    answers = get(*(f"/{target.removeprefix('./')}" for target in sorted(targets)))
    assert {answer.status_code for answer in answers} <= {200, 401}
    ids = elements.find("id")
    assert len(ids) == len(set(ids))
    referenced = [word for one in ("for", "aria-describedby", "aria-labelledby") for word in elements.find(one)]
    assert set(referenced) <= set(ids)
    scripts = [name.replace(".html", ".js"), "common.js"]
    used = {one for script in scripts for one in re.findall(r'byId\("([^"]*)"\)', SOURCES[script])}
    assert used <= set(ids)


def test_every_imported_module_exists():
    imported = {one for source in SOURCES.values() for one in re.findall(r'from "\./([^"]*)"', source)}
    assert imported <= set(FILES)
    assert {name for name in FILES if name.endswith(".js")} == imported | {"try.js", "docs.js"}


@pytest.mark.parametrize("name", FILES)
def test_no_text_becomes_markup(name):
    assert not re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", SOURCES[name])
    for _, attributes in Elements(SOURCES[name]).elements if name.endswith(".html") else []:
        assert not any(one == "style" or one.startswith("on") for one in attributes)  # the policy forbids them


def test_every_task_has_a_view():
    paths = re.findall(r'^    path: "(.*)"', SOURCES["task_views.js"], re.MULTILINE)
    assert set(paths) == {endpoint.path[1:] for endpoint in make_task_protocol().endpoints} | {"embed"}


def test_the_wheel_has_every_file():
    configuration = configparser.ConfigParser()
    configuration.read(REPOSITORY / "setup.cfg", encoding="utf-8")
    patterns = configuration["options.package_data"]["bert_keras.serving.http"].split(", ")
    assert all(any(fnmatch.fnmatch(f"pages/{name}", pattern) for pattern in patterns) for name in FILES)


def test_pages_are_not_part_of_the_api():
    [answer] = get("/docs", method="POST")
    assert answer.status_code == 405
    describe = next(one.handler for one in make_endpoints() if one.path == "/openapi.json")
    described = json.loads(asyncio.run(describe(None)).body)
    assert not {"/", "/docs"} & set(described["paths"])


# In a browser


@pytest.fixture(scope="module")
def shared_browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture
def browser(shared_browser):
    """The browser; a test fails if the console shows a problem or anything but a local server is asked."""
    shared_browser.requests.clear()
    shared_browser.problems.clear()
    yield shared_browser
    assert shared_browser.problems == []
    assert {url for url in shared_browser.requests if not url.startswith("http://127.0.0.1:")} <= {"about:blank"}


@pytest.fixture(scope="module")
def locked_server(make_artifacts, tmp_path_factory):
    """A server that requires a key, with a model of parts of speech and an embedding model with prompts."""
    words = "the cat sat on a mat .".split()
    tokenizer = bk.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words], max_sequence_length=17)
    config = bk.BertConfig(
        vocabulary_size=tokenizer.vocabulary_size,
        num_layers=2,
        num_heads=2,
        hidden_dim=26,
        intermediate_dim=30,
        max_sequence_length=17,
        initializer_range=0.5,
    )
    labels = ["DET", "NOUN", "VERB", "ADP", "PUNCT"]
    model = bk.BertTokenClassifier(bk.BertEncoder(config, pooler=False), len(labels), labels=labels)
    folder = tmp_path_factory.mktemp("words")
    task = dataclasses.replace(restore_task(folder, model, tokenizer), window_overlap=3)
    write_onnx_folder(model, tokenizer, folder / "words", task=task.settings())
    models, environment = {"words": folder / "words"}, {"BERT_KERAS_API_KEY": KEY}
    models["prompted"] = shutil.copytree(make_artifacts("embedder"), folder / "prompted")
    settings = folder / "prompted" / "config_sentence_transformers.json"
    settings.write_text(
        json.dumps({**json.loads(settings.read_text()), "prompts": {"query": "dog ", "passage": "hat "}})
    )
    with RunningServer(models, "--threads", "1", "--instances", "1", environment=environment) as running:
        yield running


def open_model(browser, server, kind, **options):
    browser.open(f"{server.url}/#{kind}", **options)
    browser.wait_until("!document.querySelector('#request').hidden")


def open_with_key(browser, server, kind):
    browser.open(f"{server.url}/#{kind}")
    browser.wait_until("!document.querySelector('#key-form').hidden")
    browser.fill("#key", KEY)
    browser.press("Enter")
    browser.wait_until("!document.querySelector('#request').hidden")
    expect_failed_requests(browser, "401")


def enter(browser, **texts):
    """Type into the inputs, and wait for the answer to all of them."""
    for name, text in texts.items():
        browser.fill(f"[name={name}]", text)
    for text in texts.values():
        body = json.dumps(json.dumps(text.split("\n")[0], ensure_ascii=False)[1:-1].replace("'", "'\\''"))
        browser.wait_until(f"document.querySelector('#curl').textContent.includes({body})")


def read(browser, selector):
    return browser.run(f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => one.textContent)")


def read_bars(browser):
    """Return the names and the values of the bars, and the names of the chosen ones."""
    names, values = read(browser, "#answer .bars .name"), read(browser, "#answer .bars .number")
    return list(zip(names, values, strict=True)), read(browser, "#answer .bars .chosen .name")


def percent(share):
    return f"{100 * share:.1f} %"


def decimal(value, digits):
    text = f"{value:.{digits}f}"
    return text.replace("-", "\N{MINUS SIGN}" if float(text) else "")


@pytest.mark.parametrize("kind", ["classifier", "windowed_classifier", "multi_label", "pair_classifier"])
class TestClasses:
    pytestmark = slow_browser

    def test_the_page_shows_the_classes(self, browser, server, kind):
        inputs = {"text": EMOJI_TEXT}
        if kind == "pair_classifier":
            inputs["second_text"] = "a red hat"
        open_model(browser, server, kind)
        enter(browser, **inputs)
        expected = server.post("/classify", {**inputs, "model": kind, "top": 3}).json()
        bars, chosen = read_bars(browser)
        assert bars == [(one["label"], percent(one["probability"])) for one in expected["best"]]
        assert set(chosen) == set(expected.get("labels") or [expected.get("label")])


class TestOtherTasks:
    pytestmark = slow_browser

    def test_a_number(self, browser, server):
        open_model(browser, server, "regression")
        enter(browser, text=EMOJI_TEXT)
        value = server.post("/classify", {"text": EMOJI_TEXT, "model": "regression"}).json()["value"]
        assert read(browser, "#headline") == [f"Value {decimal(value, 3)}"]

    def test_entities_are_marked_after_emoji(self, browser, server):
        open_model(browser, server, "token_classifier")
        enter(browser, text=EMOJI_TEXT)
        expected = server.post("/tag", {"text": EMOJI_TEXT}).json()
        assert expected["entities"][-1]["start"] > 4  # characters of the emoji
        marks = [f"{one['text']}{one['label']}" for one in expected["entities"]]
        assert read(browser, ".marked mark") == marks
        browser.run("document.querySelectorAll('.marked small').forEach((one) => one.remove())")
        assert read(browser, ".marked") == [EMOJI_TEXT]
        tags = [word for one in expected["words"] for word in (one["text"], one["tag"])]
        assert read(browser, "#answer details td") == tags

    def test_an_answer_is_marked_in_its_text(self, browser, server):
        open_model(browser, server, "null_answerer")
        context = f"{EMOJI_TEXT} and every dog ran off with its red hat"
        enter(browser, question="the cat", context=context)
        expected = server.post("/answer", {"question": "the cat", "context": context, "top": 5}).json()
        bars, chosen = read_bars(browser)
        assert bars == [(one["answer"], percent(one["probability"])) for one in expected["best"]]
        assert [expected["answer"]] == read(browser, ".marked mark") == chosen
        browser.run("document.querySelectorAll('#answer .bars button')[2].click()")
        assert read(browser, ".marked mark") == [expected["best"][2]["answer"]]

    def test_no_answer(self, browser, server):
        open_model(browser, server, "null_answerer")
        browser.run(
            "window.fetch = async () => Response.json({answer: '', start: null, end: null, probability: null, "
            "null_score: 3, score: 3, best: [{answer: 'cat', start: 4, end: 7, score: 1, probability: 1}]})"
        )
        enter(browser, context="the cat")
        assert read(browser, "#headline") == ["No answer in this text"]
        assert read(browser, ".marked mark") == []
        assert read_bars(browser) == ([("cat", "100.0 %")], [])

    def test_texts_are_sorted_by_cosine(self, browser, server):
        open_model(browser, server, "embedder")
        texts = ["the cat", "a red hat", '😀 東京 it\'s \\ "red"', "every dog ran off"]
        enter(browser, query="a mat", texts="\n".join(texts))
        body = {"inputs": {"source_sentence": "a mat", "sentences": texts}}
        cosines = np.array(server.post("/similarity", body).json())
        order = np.argsort(-cosines)
        bars, _ = read_bars(browser)
        assert bars == [(f"{1 + rank}. {texts[one]}", decimal(cosines[one], 2)) for rank, one in enumerate(order)]
        cells = read(browser, ".matrix tbody td")
        assert cells[1:5] == [decimal(cosines[one], 2) for one in order]
        assert [cells[place] for place in range(0, 25, 6)] == [""] * 5  # the diagonal

    def test_long_texts_are_cut(self, browser, server):
        open_model(browser, server, "embedder")
        text = " ".join(["dog"] * (LENGTH + 10))
        enter(browser, query="a mat", texts=text)
        body = {"inputs": {"source_sentence": "a mat", "sentences": [text]}, "parameters": {"truncate": True}}
        bars, _ = read_bars(browser)
        assert [value for _, value in bars] == [decimal(server.post("/similarity", body).json()[0], 2)]

    def test_masks(self, browser, server):
        open_model(browser, server, "masked_lm")
        text = "😀 the [MASK] sat on [MASK] mat"
        enter(browser, text=text)
        masks = server.post("/fill-mask", {"text": text}).json()["masks"]
        bars, _ = read_bars(browser)
        assert bars == [(one["token"], percent(one["probability"])) for mask in masks for one in mask]
        assert read(browser, ".marked mark") == [mask[0]["token"].removeprefix("##") for mask in masks]

    def test_a_key_is_asked_for_and_kept_in_memory_only(self, browser, locked_server):
        browser.open(f"{locked_server.url}/#words")
        for key in (None, "wrong", KEY):
            if key is not None:
                browser.fill("#key", key)
                browser.press("Enter")
            if key != KEY:
                browser.wait_until("!document.querySelector('#key-form').hidden")
                assert browser.run("document.activeElement.id") == "key"
            if key == "wrong":
                browser.wait_until("!document.querySelector('#error').hidden")
                assert read(browser, "#error") == [locked_server.get("/info").json()["error"]]
        browser.wait_until("!document.querySelector('#request').hidden")
        assert browser.run("document.querySelector('#key-form').hidden")
        page = browser.run("document.documentElement.outerHTML + location.href + document.cookie")
        stored = browser.run("localStorage.length + sessionStorage.length")
        assert KEY not in page
        assert stored == 0
        assert 'Authorization: Bearer $BERT_KERAS_API_KEY"' in read(browser, "#curl")[0]
        expect_failed_requests(browser, "401")

    def test_words_without_entities(self, browser, locked_server):
        open_with_key(browser, locked_server, "words")
        enter(browser, text=EMOJI_TEXT)
        answer = locked_server.post("/tag", {"text": EMOJI_TEXT}, authorization=f"Bearer {KEY}").json()
        assert read(browser, ".marked .word") == [f"{one['text']}{one['label']}" for one in answer["words"]]

    def test_the_query_and_the_texts_can_have_different_prompts(self, browser, locked_server):
        open_with_key(browser, locked_server, "prompted")
        texts = ["the cat", "a red hat", "every dog"]
        enter(browser, query="a mat", texts="\n".join(texts))
        for name, prompt in (("query_prompt", "query"), ("text_prompt", "passage")):
            browser.run(
                f"{{ const select = document.querySelector('[name={name}]'); select.value = '{prompt}';"
                "select.dispatchEvent(new Event('input', {bubbles: true})); }"
            )
        for prompt in ("query", "passage"):
            browser.wait_until(f"document.querySelector('#curl').textContent.includes('\"prompt_name\":\"{prompt}\"')")
        vectors = [
            np.array(locked_server.post("/embed", body, authorization=f"Bearer {KEY}").json())
            for body in ({"inputs": "a mat", "prompt_name": "query"}, {"inputs": texts, "prompt_name": "passage"})
        ]
        cosines = vectors[1] @ vectors[0][0]
        bars, _ = read_bars(browser)
        assert [value for _, value in bars] == [decimal(cosine, 2) for cosine in sorted(cosines, reverse=True)]

    def test_an_error_is_the_sentence_of_the_server(self, browser, server):
        open_model(browser, server, "masked_lm")
        browser.fill("[name=text]", "the cat")
        browser.wait_until("!document.querySelector('#problem').hidden")
        assert read(browser, "#problem") == [server.post("/fill-mask", {"text": "the cat"}).json()["error"]]
        expect_failed_requests(browser, "400")
        browser.fill("[name=text]", "")
        browser.wait_until("document.querySelector('#problem').hidden")
        assert read(browser, "#headline") == ["Enter a text with [MASK] in it."]

    def test_a_late_answer_to_an_older_text_is_not_shown(self, browser, server):
        open_model(browser, server, "classifier")
        browser.run(
            "const ask = window.fetch; window.numAnswers = 0; window.fetch = async (path, {signal, ...options}) => {"
            "  const isOld = options.body.includes('a mat');"
            "  const response = await ask(path, options);"  # without the signal: a browser could be too late to cancel
            "  await new Promise((resolve) => setTimeout(resolve, isOld ? 1500 : 0));"
            "  window.numAnswers++; return response; }; 0"
        )
        browser.fill("[name=text]", "a mat")
        browser.wait_until("document.querySelector('#results').ariaBusy === 'true'")
        enter(browser, text="every dog ran off")
        browser.wait_until("window.numAnswers === 2")
        browser.run("new Promise((resolve) => setTimeout(resolve, 100))")
        expected = server.post("/classify", {"text": "every dog ran off", "model": "classifier"}).json()
        assert read(browser, "#headline") == [f"{expected['label']}, {percent(expected['probability'])}"]

    def test_the_curl_command_gives_the_answer(self, browser, server):
        if shutil.which("curl") is None:
            pytest.skip("curl is not installed")
        open_model(browser, server, "classifier")
        enter(browser, text=EMOJI_TEXT)
        [command] = read(browser, "#curl")
        done = subprocess.run(["sh", "-c", f"{command} --silent"], capture_output=True, check=True)
        expected = server.post("/classify", {"text": EMOJI_TEXT, "model": "classifier", "top": 3}).json()
        assert json.loads(done.stdout) == expected

    def test_the_curl_command_can_be_copied(self, browser, server):
        open_model(browser, server, "classifier")
        browser.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
        browser.run("document.querySelector('#copy').click()")
        browser.wait_until("document.querySelector('#copy').textContent === 'Copied'")
        assert browser.run("navigator.clipboard.readText()") == read(browser, "#curl")[0]
        browser.run("navigator.clipboard.writeText = async () => { throw new Error(); }; 0")  # as without TLS
        browser.wait_until("document.querySelector('#copy').textContent === 'Copy'")
        browser.run("document.querySelector('#copy').click()")
        browser.wait_until("document.querySelector('#copy').textContent === 'Copied'")
        assert browser.run("getSelection().toString()") == read(browser, "#curl")[0]

    def test_times_are_those_of_the_headers(self, browser, server):
        open_model(browser, server, "classifier")
        names = ["queue", "tokenization", "inference", "rest of the server", "network and browser"]
        assert read(browser, "#times dt") == names
        values = [float(text.removesuffix(" ms")) for text in read(browser, "#times dd")]
        total = float(read(browser, "#times strong")[0].removesuffix(" ms"))
        assert sum(values) == pytest.approx(total, abs=0.3)  # each is rounded to 0.1
        assert all(value >= 0 for value in values)

    def test_everything_can_be_reached_with_the_keyboard_and_has_a_label(self, browser, server):
        open_model(browser, server, "null_answerer")
        reached = set()
        browser.run("document.activeElement.blur()")
        for _ in range(20):
            browser.press("Tab")
            reached.add(browser.run("document.activeElement.id || document.activeElement.textContent"))
        assert reached >= {"Try", "API", "model", "field-question", "field-context", "again", "copy", "curl"}
        inputs = "[...document.querySelectorAll('input, textarea, select')]"
        assert set(browser.run(f"{inputs}.map((one) => one.labels.length)")) == {1}

    def test_typed_texts_stay_when_another_model_of_the_task_is_chosen(self, browser, server):
        open_model(browser, server, "classifier")
        enter(browser, text="a red hat")
        browser.run("location.hash = 'multi_label'")
        browser.wait_until("document.querySelector('#curl').textContent.includes('multi_label')")
        assert browser.run("document.querySelector('[name=text]').value") == "a red hat"
        assert browser.run("document.querySelector('#model').value") == "multi_label"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390, 320])
class TestWindows:
    pytestmark = slow_browser

    def test_no_page_scrolls_sideways(self, browser, server, width, theme):
        kinds = ["classifier", "pair_classifier", "token_classifier", "null_answerer", "embedder", "masked_lm"]
        for kind in kinds:
            open_model(browser, server, kind, width=width, theme=theme)
            check_width(browser, width, theme)
        browser.open(f"{server.url}/docs#post_classify", width=width, theme=theme)
        browser.wait_until("document.querySelector('.endpoint form') !== null")
        browser.run("document.querySelectorAll('.endpoint').forEach((one) => { one.open = true; })")
        check_width(browser, width, theme)


def check_width(browser, width, theme):
    assert browser.run("document.documentElement.scrollWidth") <= width
    color = browser.run("getComputedStyle(document.body).backgroundColor")
    levels = [int(number) for number in re.findall(r"\d+", color)]
    assert (max(levels) < 60) == (theme == "dark")


class TestDocs:
    pytestmark = slow_browser

    def open_docs(self, browser, server):
        browser.open(f"{server.url}/docs")
        browser.wait_until("document.querySelectorAll('.endpoint').length > 0")
        browser.run("document.querySelectorAll('.endpoint').forEach((one) => { one.open = true; })")
        browser.wait_until("document.querySelectorAll('.endpoint:not(:has(form))').length === 0")

    def test_every_endpoint_is_described(self, browser, server):
        self.open_docs(browser, server)
        operations = {
            operation["operationId"]: (path, operation)
            for path, methods in server.get("/openapi.json").json()["paths"].items()
            for operation in methods.values()
        }
        assert set(browser.run("[...document.querySelectorAll('.endpoint')].map((one) => one.id)")) == set(operations)
        for name, (path, operation) in operations.items():
            assert read(browser, f"#{name} .path") == [path]
            statuses = read(browser, f"#{name} td:first-child")
            assert statuses == list(operation["responses"])
            assert not set(read(browser, f"#{name} pre")) & {"", "any", "undefined"}

    def test_every_endpoint_can_be_tried(self, browser, server):
        self.open_docs(browser, server)
        names = browser.run("[...document.querySelectorAll('.endpoint')].map((one) => one.id)")
        for name in names:
            if browser.run(f"document.querySelector('#{name}-label') !== null"):
                continue  # this server has no labels of versions
            browser.run(f"document.querySelector('#{name} form').requestSubmit()")
            browser.wait_until(f"document.querySelector('#{name} .status') !== null")
            assert read(browser, f"#{name} .status") == ["Status 200"], (name, read(browser, f"#{name} form pre"))
        [shown] = read(browser, "#post_classify form pre")
        assert json.loads(shown) == server.post("/classify", {"text": "a fine film", "model": "classifier"}).json()

    def test_a_wrong_request_shows_the_sentence_of_the_server(self, browser, server):
        self.open_docs(browser, server)
        browser.fill("#post_tag-body", "{}")
        browser.run("document.querySelector('#post_tag form').requestSubmit()")
        browser.wait_until("document.querySelector('#post_tag .status') !== null")
        assert read(browser, "#post_tag .status.bad") == ["Status 400"]
        assert json.loads(read(browser, "#post_tag form pre")[0]) == server.post("/tag", {}).json()
        expect_failed_requests(browser, "400")


def expect_failed_requests(browser, status):
    """Check that the console shows only requests that failed with a status, and forget them."""
    assert browser.problems
    assert all(re.match(rf"Failed to load resource.* {status} ", one) for one in browser.problems), browser.problems
    browser.problems.clear()
