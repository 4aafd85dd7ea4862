"""`examples/browser` in headless Chromium: its answers are those of `Predictor`.

cd examples/browser && npm ci
apt-get install chromium
"""

import json
import pathlib
import re
import shutil
import subprocess

import numpy as np
import pytest

from tests.made_once import made_once

from .client_texts import LONE_SURROGATES, make_texts
from .conftest import FILES
from .text_units import find_places, replace_surrogates

pytestmark = pytest.mark.slow

PAGE = pathlib.Path(__file__).parents[3] / "examples" / "browser"
KINDS = {"tag": "token_classifier", "answer": "question_answerer", "embed": "embedder"}
NUM_SHOWN = {"answer": 5, "embed": 10}
TOLERANCE = 1e-4  # of probabilities and cosines; measured: 2e-6
SENTENCE = "every dog ran off with its red hat , and the Càt sat on the mat"
EMOJI = "👩🏽\u200d🚀 the cat 😀 sat on a mat, 🏳️\u200d🌈dogs ran off"
RIGHT_TO_LEFT = "עִבְרִית שָׁלוֹם the cat العَرَبِيَّة ١٢٣ red hat"
LONG = " ".join(make_texts(1600, 1))[:100_000]
TEXTS = {
    "tag": [[SENTENCE], [""], [EMOJI], [RIGHT_TO_LEFT], [LONE_SURROGATES[2]], ["<b>the</b> <script>cat</script>"]],
    "answer": [
        ["the cat", SENTENCE],
        ["the cat", ""],
        ["Dog 😀?", EMOJI],
        ["red", RIGHT_TO_LEFT],
        ["dog", LONE_SURROGATES[2]],
    ],
    "embed": [
        ["red hat", "\n".join([*SENTENCE.split(" , "), "", *SENTENCE.split(), " "])],
        ["", SENTENCE],
        ["Cat 😀", f"{EMOJI}\n{RIGHT_TO_LEFT}\n{LONE_SURROGATES[2]}"],
    ],
}


@pytest.fixture(scope="session")
def built(tmp_path_factory) -> pathlib.Path:
    """The page without models, built with the command of the README."""
    for program in ("node", "npm", "chromium"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    if not (PAGE / "node_modules").is_dir():
        pytest.skip("the packages are not installed: run npm ci in examples/browser")

    def build(path: pathlib.Path) -> None:
        run_npm("build", "--outDir", path)
        shutil.rmtree(path / "models")  # those of a developer
        (path / "models").mkdir()
        (path / "models" / "index.json").write_text("{}")

    return made_once(tmp_path_factory, "browser_page", build)


@pytest.fixture
def page(built, tmp_path) -> pathlib.Path:
    """A copy of the page, for models."""
    return shutil.copytree(built, tmp_path / "page")


@pytest.fixture
def add_models(exported, page):
    """Function that copies the models of a runtime to the page with the command of the README."""

    def add(runtime: str) -> None:
        models = [f"{task}={exported(kind) / runtime / FILES[runtime]}" for task, kind in KINDS.items()]
        run_npm("models", "--to", page / "models", *models)

    return add


def run_npm(script: str, *arguments: object, is_error: bool = False) -> str:
    """Run a script of the page's `package.json` and return what it prints."""
    command = ["npm", "run", "--silent", script, "--", *map(str, arguments)]
    done = subprocess.run(command, cwd=PAGE, capture_output=True, text=True)
    assert (done.returncode != 0) == is_error, done.stdout + done.stderr
    return done.stderr if is_error else done.stdout


def drive(page: pathlib.Path, **settings: object) -> dict:
    """Open the page in Chromium and return what `drive.mjs` prints."""
    settings = {"page": str(page), "chromium": shutil.which("chromium"), **settings}
    command = ["node", "test/drive.mjs"]
    done = subprocess.run(command, cwd=PAGE, input=json.dumps(settings), capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert (seen["foreign"], seen["problems"]) == ([], [])
    return seen


def check_answer(task: str, predictor, texts: list[str], seen: dict) -> None:
    """Check what the page shows for texts."""
    assert seen["error"] is None
    if not all(text.strip() for text in texts):
        assert (seen["entities"], seen["items"], seen["best"]) == ([], [], None)
    elif task == "tag":
        (text,) = texts
        check_ranges(text, seen["entities"], predictor([replace_surrogates(text)])[0]["entities"], "label")
    elif task == "answer":
        expected = predictor([tuple(map(replace_surrogates, texts))])[0]["best"][: NUM_SHOWN[task]]
        check_ranges(texts[1], seen["items"], [{"text": one["answer"], **one} for one in expected])
        assert seen["best"] == seen["items"][0]["text"]
    else:
        query, lines = texts[0], [line for line in texts[1].split("\n") if line.strip()]
        vectors = np.array([one["embedding"] for one in predictor([*map(replace_surrogates, [query, *lines])])])
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        cosines = vectors[1:] @ vectors[0]
        shown = [item["cosine"] for item in seen["items"]]
        np.testing.assert_allclose(shown, np.sort(cosines)[::-1][: NUM_SHOWN[task]], atol=TOLERANCE)
        np.testing.assert_allclose(shown, cosines[[item["line"] for item in seen["items"]]], atol=TOLERANCE)
        for item in seen["items"]:
            assert replace_surrogates(item["text"]) == replace_surrogates(lines[item["line"]])


def check_ranges(text: str, shown: list[dict], expected: list[dict], *names: str) -> None:
    """Check parts of a text that the page marks; its ranges count UTF-16 units."""
    units = find_places(text, is_utf16=True)
    got = [[replace_surrogates(one["text"]), one["start"], one["end"], *map(one.get, names)] for one in shown]
    assert got == [[one["text"], units[one["start"]], units[one["end"]], *map(one.get, names)] for one in expected]
    probabilities = [[one["probability"] for one in parts] for parts in (shown, expected)]
    np.testing.assert_allclose(*probabilities, atol=TOLERANCE)


@pytest.mark.parametrize("isolated", [False, True], ids=["one thread", "threads"])
@pytest.mark.parametrize("runtime", ["tflite", "onnx"])
def test_answers_are_those_of_the_predictor_with_and_without_a_network(
    page, add_models, client_predictors, tmp_path, runtime, isolated
):
    add_models(runtime)
    seen = drive(page, isolated=isolated, texts=TEXTS, offline=True, shots=str(tmp_path / "shots"))
    assert (seen["isolated"], seen["offline"]["isolated"], seen["missing"]) == (isolated, isolated, [])
    for task, examples in TEXTS.items():
        predictor = client_predictors(KINDS[task], runtime)
        for texts, answer in zip(examples, seen["answers"][task], strict=True):
            check_answer(task, predictor, texts, answer)
        check_answer(task, predictor, examples[0], seen["offline"]["answers"][task])
        assert ("threads" in seen["examples"][task]["status"]) == isolated
    assert seen["widths"] == {"light": 1180, "dark": 1180, "phone": 360, "phone-dark": 360}  # no horizontal scrolling


def test_long_text_is_read_and_does_not_delay_the_next_one(page, add_models, client_predictors):
    add_models("tflite")
    texts = {"tag": [[SENTENCE], [LONG]], "answer": [["the cat", SENTENCE], ["the cat", LONG]]}
    seen = drive(page, texts=texts, interrupt={"tag": ["a " + LONG], "answer": ["a dog", LONG]})
    for task, examples in texts.items():
        predictor = client_predictors(KINDS[task], "tflite")
        for example, answer in zip(examples, seen["answers"][task], strict=True):
            check_answer(task, predictor, example, answer)
        check_answer(task, predictor, examples[0], seen["interrupted"][task])
        assert seen["interrupted"][task]["ms"] < seen["answers"][task][1]["ms"] / 2


def test_page_without_models_names_the_command_that_adds_them(page):
    seen = drive(page)
    for task, text in zip(KINDS, seen["missing"], strict=True):
        assert f"npm run models -- {task}=FOLDER" in text


def test_broken_model_is_reported(page, add_models):
    add_models("tflite")
    for path in (page / "models").glob("tag-*/vocab.txt"):
        path.write_bytes(b"\xff")
    seen = drive(page, texts={"tag": [], "embed": []})["examples"]
    assert seen["tag"]["error"]
    assert seen["embed"]["error"] is None


def test_wrong_models_are_reported(exported, tmp_path):
    folder = exported("embedder") / "tflite"
    for arguments, message in {
        (f"tag={folder}",): "the task of .* is embed; expected tag: write embed=",
        (f"embed={folder}/none.tflite",): "none.tflite does not exist: check embed=",
        (f"embed={folder}/vocab.txt",): "does not list .*vocab.txt; expected one of model_float32.tflite",
        (f"embed={tmp_path}",): "has no model.json; expected the tflite/ or onnx/ folder",
        (f"classify={folder}",): "classify=.* is unknown; expected TASK=FOLDER",
        (): "no model was given",
    }.items():
        printed = run_npm("models", "--to", tmp_path / "models", *arguments, is_error=True)
        assert re.search(message, printed)
    assert not (tmp_path / "models").exists()


def test_folder_of_a_model_gives_the_smallest_precision_with_the_most_lengths(exported, tmp_path):
    source = shutil.copytree(exported("embedder") / "tflite", tmp_path / "source")
    description = json.loads((source / "model.json").read_text())
    (file,) = description["files"]
    files = {"int8": [128], "int8_lengths": [16, 32, 128], "float16_lengths": [8, 16, 32, 128]}
    description["files"] = [
        {
            "path": shutil.copy(source / file["path"], source / f"{name}.tflite").name,
            "quantization": name.removesuffix("_lengths"),
            "bytes": file["bytes"],
            "signatures": {f"length_{length}": length for length in lengths},
        }
        for name, lengths in files.items()
    ]
    (source / "model.json").write_text(json.dumps(description))
    for _ in range(2):  # the second time replaces the first
        assert run_npm("models", "--to", tmp_path / "models", f"embed={source}").startswith("embed: tiny, 0.")
        (folder,) = (tmp_path / "models").glob("embed-*")
        assert {path.name for path in folder.iterdir()} == {"model.json", "vocab.txt", "int8_lengths.tflite"}
    assert json.loads((tmp_path / "models" / "index.json").read_text())["embed"]["folder"] == folder.name


def test_lock_file_names_no_registry():
    assert '"resolved"' not in (PAGE / "package-lock.json").read_text()


def test_page_allows_no_other_hosts(built):
    text = (built / "index.html").read_text()
    assert "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'" in text
    assert "http://" not in text
    assert "https://" not in text
