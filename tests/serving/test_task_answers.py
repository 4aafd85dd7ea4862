"""The endpoints of tasks give `Predictor`'s answers."""

import concurrent.futures
import dataclasses
import re

import numpy as np
import pytest

from bert_keras.heads.known_heads import HEADS
from bert_keras.serving.protocols import tasks

from .conftest import TEXTS

QUESTIONS = [("the cat", "the cat sat on a mat ."), ("red hat", " ".join(TEXTS[:3]) * 3), ("a", ""), ("", "dog")]


def expect(predictors, kind, inputs, top):
    return predictors(kind)(inputs, top=top)


def assert_same(got, expected):
    """Compare two JSON values, numbers within 1e-5."""
    if isinstance(expected, dict):
        assert set(got) == set(expected)
        for name, value in expected.items():
            assert_same(got[name], value)
    elif isinstance(expected, list):
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, float):
        assert got == pytest.approx(expected, abs=1e-5)
    else:
        assert got == expected


@pytest.mark.parametrize("kind", ["classifier", "windowed_classifier", "multi_label"])
@pytest.mark.parametrize("top", [1, 3])
def test_classify(server, predictors, kind, top):
    answer = server.post("/classify", {"examples": [{"text": text} for text in TEXTS], "model": kind, "top": top})
    assert answer.status_code == 200, answer.text
    assert_same(answer.json()["answers"], expect(predictors, kind, TEXTS, top))
    one = server.post("/classify", {"text": TEXTS[0], "model": kind, "top": top})
    assert_same(one.json(), expect(predictors, kind, TEXTS[:1], top)[0])


def test_classify_pairs_and_numbers(server, predictors):
    pairs = list(zip(TEXTS, reversed(TEXTS), strict=True))
    examples = [{"text": first, "second_text": second} for first, second in pairs]
    answer = server.post("/classify", {"examples": examples, "model": "pair_classifier"})
    assert_same(answer.json()["answers"], expect(predictors, "pair_classifier", pairs, 1))
    answer = server.post("/classify", {"examples": [{"text": text} for text in TEXTS], "model": "regression"})
    assert_same(answer.json()["answers"], expect(predictors, "regression", TEXTS, 1))


def test_tag_gives_words_and_entities_with_their_characters(server, predictors):
    answers = server.post("/tag", {"examples": [{"text": text} for text in TEXTS]}).json()["answers"]
    for text, got, expected in zip(TEXTS, answers, expect(predictors, "token_classifier", TEXTS, 1), strict=True):
        words = got.pop("words")
        assert_same(got, expected)
        assert [word["tag"] for word in words] == got["tags"]
        assert all(text[word["start"] : word["end"]] == word["text"] for word in words)
        assert all(text[one["start"] : one["end"]] == one["text"] for one in got["entities"])


def test_answer(server, predictors):
    examples = [{"question": question, "context": context} for question, context in QUESTIONS]
    answers = server.post("/answer", {"examples": examples, "top": 3}).json()["answers"]
    assert_same(answers, expect(predictors, "null_answerer", QUESTIONS, 3))


def test_embed(server, predictors):
    vectors = server.post("/embed", {"inputs": TEXTS, "normalize": False}).json()
    expected = [answer["embedding"] for answer in expect(predictors, "embedder", TEXTS, None)]
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_fill_mask(server, predictors):
    texts = ["the [MASK] sat on a mat .", "[MASK] and [MASK]", "caf\u00e9 [MASK][SEP] dog"]
    answers = server.post("/fill-mask", {"examples": [{"text": text} for text in texts]}).json()["answers"]
    assert_same(answers, expect(predictors, "masked_lm", texts, 5))
    one = server.post("/fill-mask", {"text": texts[1], "top": 2}).json()
    assert_same(one, expect(predictors, "masked_lm", texts[1:2], 2)[0])


def test_answers_do_not_depend_on_other_requests(server, predictors):
    """Requests that arrive together share batches."""
    texts = [" ".join(TEXTS[0].split()[: 1 + number % 7]) for number in range(150)]
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(lambda text: server.post("/classify", {"text": text, "model": "classifier"}), texts))
    assert {answer.status_code for answer in answers} == {200}
    assert_same([answer.json() for answer in answers], expect(predictors, "classifier", texts, 1))


def test_a_request_with_many_texts_does_not_delay_others(server, predictors):
    many = [TEXTS[0]] * 1000
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        large = pool.submit(
            server.post, "/classify", {"examples": [{"text": text} for text in many], "model": "classifier"}
        )
        singles = [server.post("/classify", {"text": TEXTS[1], "model": "classifier"}) for _ in range(5)]
    assert len(large.result().json()["answers"]) == 1000
    assert {answer.status_code for answer in singles} == {200}


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/classify", {"text": "a"}, 400, "several models can answer, classifier, multi_label"),
        ("/classify", {"text": "a", "model": "none"}, 404, "there is no model 'none'; this server has classifier"),
        ("/classify", {"text": "a", "model": "embedder"}, 422, "embedder does the task embed, and this endpoint needs"),
        ("/classify", {"txt": "a", "model": "classifier"}, 400, "^text is missing"),
        ("/classify", {"text": "a", "model": "regression", "top": 2}, 400, "top lists classes or answers"),
        ("/tag", {"text": 1}, 400, "text is 1; expected a string"),
        ("/answer", {"question": "a"}, 400, "context is missing"),
        ("/answer", {"question": "a", "context": "b", "top": 0}, 400, "top is 0; expected at least 1"),
        ("/fill-mask", {"text": "the cat"}, 400, r"text 1 \('the cat'\) has no \[MASK\]; expected at least one"),
        ("/fill-mask", {"text": "[MASK]" * 30}, 400, "has 32 tokens with .* accepts up to 19: cut the text"),
        ("/nothing", {}, 404, "there is nothing at /nothing; /docs lists"),
    ],
)
def test_bad_requests_get_one_sentence(server, path, body, status, message):
    answer = server.post(path, body)
    assert answer.status_code == status, answer.text
    [sentence] = answer.json().values()
    assert len(sentence.splitlines()) == 1
    assert re.search(message, sentence), sentence


def test_a_head_gets_the_endpoint_that_its_record_names(monkeypatch):
    toy = dataclasses.replace(HEADS[0], name="toy", endpoint=f"{tasks.__name__}:TAGS")
    without = dataclasses.replace(HEADS[0], name="silent", endpoint=None)
    monkeypatch.setattr(tasks, "HEADS", (toy, without))
    [endpoint] = tasks.make_task_protocol().endpoints
    assert (endpoint.path, endpoint.summary) == ("/toy", tasks.TAGS.summary)
