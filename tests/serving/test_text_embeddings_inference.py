"""The requests, answers and errors of Text Embeddings Inference (TEI), and Hugging Face's client.

https://huggingface.github.io/text-embeddings-inference/ and the source of TEI's router, which sets the error types.
"""

import httpx
import numpy as np
import pytest
from huggingface_hub import InferenceClient

from .conftest import LENGTH, PROMPTS
from .running_server import RunningServer
from .test_faults import connect, encode_request, read_metric
from .test_versions import wait_until

TEXTS = ["the cat sat on a mat .", "dog", "Ünkn öwn 東京 😀"]
LONG = "dog " * (LENGTH + 10)
MAX_TEXTS = 5


@pytest.fixture(scope="module")
def tei(make_artifacts):
    """A server as small as TEI: one embedder and one reranker, so that requests need no `model`."""
    models = {"search": make_artifacts("prompted_embedder"), "rank": make_artifacts("reranker")}
    options = ("--threads", "1", "--instances", "1", "--no-grpc", "--max-requests", "3", "--max-payload", "100000")
    with RunningServer(models, *options, "--max-texts", str(MAX_TEXTS)) as running:
        yield running


@pytest.fixture(scope="module")
def embed(predictors):
    """Function that returns the vectors of texts with length 1."""

    def compute(texts, prompt=""):
        vectors = [one["embedding"] for one in predictors("embedder")([prompt + text for text in texts])]
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    return compute


@pytest.fixture(scope="module")
def score(predictors):
    """Function that returns the logits of pairs."""
    return lambda pairs: np.array([answer["value"] for answer in predictors("reranker")(pairs)])


def sigmoid(values):
    return 1 / (1 + np.exp(-values))


def post(server, path, body):
    answer = server.post(path, body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_embed(tei, embed, predictors):
    np.testing.assert_allclose(post(tei, "/embed", {"inputs": TEXTS[0]}), embed(TEXTS[:1]), atol=1e-6)
    np.testing.assert_allclose(post(tei, "/embed", {"inputs": TEXTS}), embed(TEXTS), atol=1e-6)
    raw = [one["embedding"] for one in predictors("embedder")(TEXTS)]
    np.testing.assert_allclose(post(tei, "/embed", {"inputs": TEXTS, "normalize": False}), raw, atol=1e-5)
    short = embed(TEXTS)[:, :5]
    short /= np.linalg.norm(short, axis=1, keepdims=True)
    np.testing.assert_allclose(post(tei, "/embed", {"inputs": TEXTS, "dimensions": 5}), short, atol=1e-6)


def test_embed_with_prompts(tei, embed):
    for name, prompt in PROMPTS.items():
        vectors = post(tei, "/embed", {"inputs": TEXTS, "prompt_name": name})
        np.testing.assert_allclose(vectors, embed(TEXTS, prompt), atol=1e-6)


def test_embed_token_ids(tei, embed):
    """Ids are what `/tokenize` returns."""
    tokens = post(tei, "/tokenize", {"model": "search", "inputs": TEXTS[:2]})
    ids = [[token["id"] for token in one] for one in tokens]
    np.testing.assert_allclose(post(tei, "/embed", {"inputs": ids}), embed(TEXTS[:2]), atol=1e-6)
    np.testing.assert_allclose(post(tei, "/embed", {"inputs": ids[0]}), embed(TEXTS[:1]), atol=1e-6)
    np.testing.assert_allclose(post(tei, "/embed", {"inputs": [ids[0], TEXTS[1]]}), embed(TEXTS[:2]), atol=1e-6)


@pytest.mark.parametrize("options", [{"truncate": True}, {"truncate": True, "truncation_direction": "Right"}])
def test_long_texts_are_cut_if_the_request_allows_it(tei, embed, options):
    np.testing.assert_allclose(post(tei, "/embed", {"inputs": LONG, **options}), embed([LONG]), atol=1e-6)
    assert post(tei, "/rerank", {"query": "a cat", "texts": [LONG], **options})[0]["index"] == 0
    similarity = {"source_sentence": LONG, "sentences": [LONG]}
    assert post(tei, "/similarity", {"inputs": similarity, "parameters": options}) == pytest.approx([1], abs=1e-6)


def test_predict_takes_a_text_a_pair_or_a_batch_of_both(server, predictors):
    predictor, pairs = predictors("pair_classifier"), [(TEXTS[0], TEXTS[1]), (TEXTS[2], "")]

    def rank(answer):
        ranked = sorted(zip(answer["probabilities"], predictor.task.labels, strict=True), reverse=True)
        return [{"score": pytest.approx(score, abs=1e-6), "label": label} for score, label in ranked]

    single, *expected = map(rank, [predictor(TEXTS[:1])[0], *predictor(pairs)])
    model = {"model": "pair_classifier"}
    assert post(server, "/predict", {"inputs": TEXTS[0], **model}) == single
    assert post(server, "/predict", {"inputs": [TEXTS[0]], **model}) == single
    assert post(server, "/predict", {"inputs": list(pairs[0]), **model}) == expected[0]
    assert post(server, "/predict", {"inputs": [list(pair) for pair in pairs], **model}) == expected
    mixed = [list(pairs[0]), [TEXTS[0]], list(pairs[1])]
    assert post(server, "/predict", {"inputs": mixed, **model}) == [expected[0], single, expected[1]]
    assert post(server, "/predict", {"inputs": [[TEXTS[0]]], **model}) == [single]


def test_predict_raw_scores(server, predictors):
    body = {"inputs": [[text] for text in TEXTS], "raw_scores": True, "model": "classifier"}
    rows = post(server, "/predict", body)
    for row, answer in zip(rows, predictors("classifier")(TEXTS), strict=True):
        assert row[0]["label"] == answer["label"]
        logits = {one["label"]: one["score"] for one in row}
        shares = np.exp([logits[label] for label in predictors("classifier").task.labels])
        np.testing.assert_allclose(shares / shares.sum(), answer["probabilities"], atol=1e-5)


def test_predict_with_one_output(tei, score):
    [[prediction]] = post(tei, "/predict", {"inputs": [TEXTS[:2]]})
    assert prediction == {"score": pytest.approx(sigmoid(score([tuple(TEXTS[:2])]))[0], abs=1e-6), "label": "LABEL_0"}


@pytest.mark.parametrize("is_raw", [True, False])
def test_rerank(tei, score, is_raw):
    scores = score([("a cat", text) for text in TEXTS])
    scores = scores if is_raw else sigmoid(scores)
    expected = [
        {"index": int(index), "score": pytest.approx(scores[index], abs=1e-5), "text": TEXTS[index]}
        for index in np.argsort(-scores)
    ]
    body = {"query": "a cat", "texts": TEXTS, "raw_scores": is_raw}
    assert post(tei, "/rerank", body | {"return_text": True}) == expected
    assert post(tei, "/rerank", body) == [{"index": one["index"], "score": one["score"]} for one in expected]


def test_similarity(tei, embed):
    body = {"inputs": {"source_sentence": TEXTS[0], "sentences": TEXTS}}
    vectors = embed(TEXTS)
    np.testing.assert_allclose(post(tei, "/similarity", body), vectors @ vectors[0], atol=1e-6)
    vectors = embed(TEXTS, PROMPTS["query"])
    body["parameters"] = {"prompt_name": "query", "truncate": True}
    np.testing.assert_allclose(post(tei, "/similarity", body), vectors @ vectors[0], atol=1e-6)


def test_tokenize(tei):
    [tokens] = post(tei, "/tokenize", {"model": "search", "inputs": "Cats RUN."})
    assert [(one["text"], one["special"], one["start"], one["stop"]) for one in tokens] == [
        ("[CLS]", True, None, None),
        ("Cat", False, 0, 3),
        ("s", False, 3, 4),
        ("RUN", False, 5, 8),
        (".", False, 8, 9),
        ("[SEP]", True, None, None),
    ]
    [plain] = post(tei, "/tokenize", {"model": "search", "inputs": "Cats RUN.", "add_special_tokens": False})
    assert plain == tokens[1:-1]
    rows = post(tei, "/tokenize", {"model": "search", "inputs": TEXTS, "prompt_name": "query"})
    assert [row[1]["text"] for row in rows] == ["the"] * 3
    assert len(post(tei, "/tokenize", {"model": "search", "inputs": LONG})[0]) == LENGTH + 12


def test_info(tei):
    info = tei.get("/info").json()
    assert info["model_id"] == "search"
    assert info["model_type"]["embedding"]["pooling"] == "mean"
    assert info["model_dtype"] == "float32"
    assert (info["max_input_length"], info["max_client_batch_size"]) == (LENGTH, MAX_TEXTS)
    assert (info["max_concurrent_requests"], info["auto_truncate"]) == (3, False)
    assert info["max_batch_tokens"] > info["max_input_length"]
    assert info["tokenization_workers"] >= 1
    assert [one["model_id"] for one in info["models"]] == ["search", "rank"]
    reranker = info["models"][1]["model_type"]["reranker"]
    assert reranker == {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}


def test_health_and_headers(tei):
    assert tei.get("/health").status_code == 200
    headers = tei.post("/embed", {"inputs": "the cat"}).headers
    assert headers["x-compute-tokens"] == "4"
    for name in ("x-total-time", "x-tokenization-time", "x-queue-time", "x-inference-time"):
        assert float(headers[name]) >= 0


MANY = ["a"] * (MAX_TEXTS + 1)


@pytest.mark.parametrize(
    ("path", "body", "status", "kind", "message"),
    [
        ("/embed", {"inputs": MANY}, 413, "Validation", "has 6 texts; expected at most 5"),
        ("/predict", {"inputs": [["a"]] * 6}, 413, "Validation", "has 6 texts; expected at most 5"),
        ("/rerank", {"query": "a", "texts": MANY}, 413, "Validation", "has 6 texts; expected at most 5"),
        ("/tokenize", {"inputs": MANY}, 413, "Validation", "has 6 texts; expected at most 5"),
        ("/embed", {"inputs": "a" * 100_000}, 413, "Validation", "has more than 100,000 bytes"),
        ("/embed", {"inputs": []}, 400, "Empty", "`inputs` is empty"),
        ("/tokenize", {"inputs": []}, 400, "Empty", "`inputs` is empty"),
        ("/rerank", {"query": "a", "texts": []}, 400, "Empty", "`texts` is empty"),
        (
            "/similarity",
            {"inputs": {"source_sentence": "a", "sentences": []}},
            400,
            "Empty",
            "`inputs.sentences` is empty",
        ),
        ("/embed", {}, 422, "Validation", "inputs is missing"),
        ("/embed", {"inputs": 5}, 422, "Validation", "inputs is 5; expected a string or a list"),
        ("/embed", {"inputs": [99]}, 422, "Validation", "the token id 99 is not in the vocabulary"),
        ("/embed", {"inputs": "a", "prompt_name": "x"}, 422, "Validation", "query"),
        ("/embed", {"inputs": "a", "truncation_direction": "Left"}, 422, "Validation", "expected 'right' or 'Right'"),
        (
            "/tokenize",
            {"inputs": "a", "model": "search", "prompt_name": "x"},
            422,
            "Validation",
            "there is no prompt 'x'; expected one of query",
        ),
        ("/predict", {"inputs": []}, 422, "Validation", "a list has 0 texts; expected one, or two for a pair"),
        ("/predict", {"inputs": ["a", "b", "c"]}, 422, "Validation", "a list has 3 texts"),
        ("/embed", {"inputs": "a", "model": "rank"}, 424, "Backend", "rank does the task classify"),
        ("/rerank", {"query": "a", "texts": ["b"], "model": "search"}, 424, "Backend", "search does the task embed"),
    ],
)
def test_errors(tei, path, body, status, kind, message):
    answer = tei.post(path, body)
    assert (answer.status_code, set(answer.json())) == (status, {"error", "error_type"}), answer.text
    assert answer.json()["error_type"] == kind
    assert message in answer.json()["error"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/embed", {"inputs": LONG}),
        ("/embed", {"inputs": ["a", LONG], "truncate": False}),
        ("/predict", {"inputs": ["a", LONG]}),
        ("/rerank", {"query": "a", "texts": [LONG]}),
        ("/similarity", {"inputs": {"source_sentence": "a", "sentences": [LONG]}}),
    ],
)
def test_long_texts_without_truncation(tei, path, body):
    answer = tei.post(path, body)
    assert answer.json()["error_type"] == "Validation"
    assert f"expected at most {LENGTH}: shorten it, or allow that it is cut (truncate)" in answer.json()["error"]
    assert answer.status_code == 413


def test_rerank_needs_one_output(server):
    answer = server.post("/rerank", {"query": "a", "texts": ["b"], "model": "pair_classifier"})
    assert (answer.status_code, answer.json()["error_type"]) == (424, "Backend")
    assert "has 3 classes; expected one" in answer.json()["error"]


def test_full_server(tei):
    slow = [connect(tei) for _ in range(3)]
    try:
        for client in slow:
            client.sendall(encode_request({}, announced=100, path="/embed"))
        wait_until(lambda: read_metric(tei, "bert_keras_requests_in_progress") == 3, "the slow requests")
        answer = tei.post("/embed", {"inputs": "a"})
    finally:
        for client in slow:
            client.close()
    assert (answer.status_code, answer.json()["error_type"]) == (429, "Overloaded")
    assert int(answer.headers["retry-after"]) >= 1
    wait_until(lambda: not read_metric(tei, "bert_keras_requests_in_progress"), "the end of the slow requests")


def test_body_that_is_not_json(tei):
    answer = httpx.post(f"{tei.url}/embed", content=b"{'inputs'", timeout=60)
    assert (answer.status_code, answer.json()["error_type"]) == (422, "Validation")


def test_hugging_face_client(tei, embed, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)  # it calls this machine only
    client = InferenceClient()
    for texts in (TEXTS, TEXTS[0]):
        vectors = client.feature_extraction(texts, model=f"{tei.url}/embed")
        np.testing.assert_allclose(vectors, embed([texts] if isinstance(texts, str) else texts), atol=1e-6)
    vectors = client.feature_extraction(LONG, model=f"{tei.url}/embed", truncate=True, truncation_direction="right")
    np.testing.assert_allclose(vectors, embed([LONG]), atol=1e-6)
    vectors = client.feature_extraction(TEXTS, model=f"{tei.url}/embed", prompt_name="query", normalize=True)
    np.testing.assert_allclose(vectors, embed(TEXTS, PROMPTS["query"]), atol=1e-6)
    similarities = client.sentence_similarity(TEXTS[0], TEXTS[1:], model=f"{tei.url}/similarity")
    np.testing.assert_allclose(similarities, embed(TEXTS[1:]) @ embed(TEXTS[:1])[0], atol=1e-6)
    prediction = client.text_classification(TEXTS[0], model=f"{tei.url}/predict")
    assert prediction.label == "LABEL_0"
