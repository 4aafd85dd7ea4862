"""OpenAI's own client against `/v1/embeddings` and `/v1/models`."""

import base64

import numpy as np
import openai
import pytest

from .conftest import KINDS, TEXTS
from .running_server import RunningServer
from .test_faults import connect, encode_request, read_metric
from .test_versions import wait_until

KEY = {"BERT_KERAS_API_KEY": "a secret"}


def make_client(server, key="none"):
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0, timeout=60)


@pytest.fixture(scope="module")
def client(server):
    with make_client(server) as client:
        yield client


@pytest.fixture(scope="module")
def small_server(artifacts):
    """A server that requires a key and answers one request at a time."""
    options = ("--threads", "1", "--instances", "1", "--no-grpc", "--max-requests", "1")
    with RunningServer({"model": artifacts["embedder"]}, *options, environment=KEY) as running:
        yield running


def normalize(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def vectors(predictors):
    """The vectors of `TEXTS` with length 1."""
    return normalize(np.array([answer["embedding"] for answer in predictors("embedder")(TEXTS)]))


def read_vectors(response):
    assert response.object == "list"
    assert [(one.object, one.index) for one in response.data] == [("embedding", n) for n in range(len(response.data))]
    return np.array([one.embedding for one in response.data])


def test_one_text_and_lists_of_texts(client, vectors):
    """By default the client asks for base64 and decodes it."""
    one = client.embeddings.create(model="embedder", input=TEXTS[0])
    np.testing.assert_allclose(read_vectors(one), vectors[:1], atol=1e-6)
    many = client.embeddings.create(model="embedder", input=TEXTS)
    np.testing.assert_allclose(read_vectors(many), vectors, atol=1e-6)
    assert many.model == "embedder"


def test_encoding_formats(client, vectors):
    floats = client.embeddings.create(model="embedder", input=TEXTS, encoding_format="float")
    np.testing.assert_allclose(read_vectors(floats), vectors, atol=1e-6)
    encoded = client.embeddings.create(model="embedder", input=TEXTS, encoding_format="base64")
    decoded = [np.frombuffer(base64.b64decode(one.embedding), "<f4") for one in encoded.data]
    np.testing.assert_array_equal(decoded, read_vectors(floats).astype(np.float32))


def test_token_ids(client, predictors, vectors):
    """Ids are those of texts without special tokens, as for OpenAI; with special tokens the vectors are the same."""
    tokenizer = predictors("embedder").tokenizer
    arrays = tokenizer.tokenize_to_arrays(TEXTS[:3])
    lists = [part.tolist() for part in np.split(arrays.token_ids, arrays.row_splits[1:-1])]
    with_specials = [[tokenizer.cls_id, *ids, tokenizer.sep_id] for ids in lists]
    for given in (lists, with_specials):
        response = client.embeddings.create(model="embedder", input=given)
        np.testing.assert_allclose(read_vectors(response), vectors[:3], atol=1e-6)
    response = client.embeddings.create(model="embedder", input=lists[0])
    np.testing.assert_allclose(read_vectors(response), vectors[:1], atol=1e-6)


def test_dimensions(client, vectors):
    response = client.embeddings.create(model="embedder", input=TEXTS, dimensions=7)
    np.testing.assert_allclose(read_vectors(response), normalize(vectors[:, :7]), atol=1e-6)


def test_usage_counts_tokens(client):
    usage = client.embeddings.create(model="embedder", input=["the cat", "dog"], user="me").usage
    assert (usage.prompt_tokens, usage.total_tokens) == (7, 7)  # with [CLS] and [SEP]


def test_models_are_listed(client):
    models = client.models.list()
    assert {model.id for model in models} == set(KINDS)
    assert {(model.object, model.owned_by) for model in models} == {("model", "bert-keras")}


@pytest.mark.parametrize(
    ("options", "error", "code", "message"),
    [
        ({"model": "none"}, openai.NotFoundError, "model_not_found", "there is no model 'none'"),
        ({"model": "classifier"}, openai.BadRequestError, None, "classifier does the task classify"),
        ({"input": []}, openai.BadRequestError, None, "input is []; expected a string or a list with at least 1 item"),
        ({"input": [1.5]}, openai.BadRequestError, None, "input.0 is 1.5; expected"),
        ({"input": [[99]]}, openai.BadRequestError, None, "the token id 99 is not in the vocabulary"),
        ({"input": ["a"] * 1025}, openai.APIStatusError, None, "has 1,025 texts; expected at most 1,024"),
        ({"dimensions": 37}, openai.BadRequestError, None, "`dimensions` is 37; expected at most 36"),
        ({"dimensions": 0}, openai.BadRequestError, None, "dimensions is 0; expected more than 0"),
        ({"encoding_format": "hex"}, openai.BadRequestError, None, "expected 'float' or 'base64'"),
    ],
)
def test_errors(client, options, error, code, message):
    with pytest.raises(error) as caught:
        client.embeddings.create(**{"model": "embedder", "input": "a", "encoding_format": "float"} | options)
    assert message in caught.value.message
    assert caught.value.code == code
    assert caught.value.type == "invalid_request_error"


def test_wrong_key(small_server, vectors):
    with make_client(small_server, "a guess") as client:
        for call in (client.models.list, lambda: client.embeddings.create(model="model", input="a")):
            with pytest.raises(openai.AuthenticationError) as caught:
                call()
            assert caught.value.code == "invalid_api_key"
    with make_client(small_server, KEY["BERT_KERAS_API_KEY"]) as client:
        response = client.embeddings.create(model="model", input=TEXTS)
        np.testing.assert_allclose(read_vectors(response), vectors, atol=1e-6)


def test_full_server(small_server):
    with make_client(small_server, KEY["BERT_KERAS_API_KEY"]) as client, connect(small_server) as slow:
        head = b"authorization: Bearer a secret\r\nContent-Length"
        slow.sendall(encode_request({}, announced=100, path="/v1/embeddings").replace(b"Content-Length", head))
        wait_until(lambda: read_metric(small_server, "bert_keras_requests_in_progress"), "the slow request")
        with pytest.raises(openai.RateLimitError) as caught:
            client.embeddings.create(model="model", input="a")
        assert (caught.value.type, caught.value.code) == ("rate_limit_error", "rate_limit_exceeded")
        assert int(caught.value.response.headers["retry-after"]) >= 1
