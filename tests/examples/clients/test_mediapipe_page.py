"""`examples/mediapipe` in headless Chromium: its answers are those of MediaPipe in Python.

cd examples/mediapipe && npm ci
apt-get install chromium
"""

import functools
import http.server
import json
import pathlib
import shutil
import subprocess
import threading

import numpy as np
import pytest
from mediapipe.tasks.python.text import TextClassifier, TextEmbedder

PAGE = pathlib.Path(__file__).parents[3] / "examples" / "mediapipe"
TEXTS = [["the cat sat on a mat", "a dog"], ["Every DOG, Ünkn öwn 東京 😀", ""], ["", "red hat"]]
TOLERANCE = 1e-4  # the page shows four digits

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def address():
    """The address of the page on a local server."""
    for program in ("node", "chromium"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    if not (PAGE / "node_modules").is_dir():
        pytest.skip("the packages are not installed: run npm ci in examples/mediapipe")
    handler = functools.partial(QuietHandler, directory=PAGE)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Handler without a log."""

    def log_message(self, *_):
        pass


def drive(address, file, folder):
    """Return what the page showed for TEXTS, and check that it asked no other host."""
    done = subprocess.run(
        ["node", str(PAGE / "test" / "drive.mjs"), address, str(file), str(folder / "page.png")],
        input=json.dumps(TEXTS),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert [url for url in shown["requests"] if not url.startswith(address)] == []
    return shown


def test_labels_are_those_of_mediapipe_in_python(address, exported, tmp_path):
    file = exported("classifier") / "tflite/model_float32.tflite"
    shown = drive(address, file, tmp_path)
    with TextClassifier.create_from_model_path(str(file)) as classifier:
        for (text, _), lines in zip(TEXTS, shown["answers"], strict=True):
            expected = classifier.classify(text).classifications[0].categories
            got = [line.split(": ") for line in lines]
            assert [name for name, _ in got] == [category.category_name for category in expected]
            scores = [category.score for category in expected]
            np.testing.assert_allclose([float(score) for _, score in got], scores, atol=TOLERANCE)


def test_similarity_is_that_of_mediapipe_in_python(address, exported, tmp_path):
    file = exported("embedder") / "tflite/model_float32.tflite"
    shown = drive(address, file, tmp_path)
    with TextEmbedder.create_from_model_path(str(file)) as embedder:
        for texts, [line] in zip(TEXTS, shown["answers"], strict=True):
            one, two = (embedder.embed(text).embeddings[0] for text in texts)
            expected = TextEmbedder.cosine_similarity(one, two)
            assert float(line.removeprefix("cosine similarity: ")) == pytest.approx(expected, abs=TOLERANCE)


def test_other_files_are_refused_in_one_sentence(address, exported, tmp_path):
    shown = drive(address, exported("token_classifier") / "tflite/model_float32.tflite", tmp_path)
    assert shown["answers"] == [[], [], []]
    assert shown["status"].startswith("MediaPipe cannot run model_float32.tflite; expected a classifier")
