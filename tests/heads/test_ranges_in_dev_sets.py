"""Entities, words and answers predicted for the dev sets equal the text at their ranges in the original files."""

import gzip
import itertools
import json
import pathlib

import pytest

from bert_keras.heads.answer.task import QuestionAnswering
from bert_keras.heads.examples.file_options import FileOptions
from bert_keras.heads.examples.prediction_data import read_prediction_data
from bert_keras.heads.tag.task import TokenClassification
from tests.marks import slow
from tests.shared_data import shared

NUM_EXAMPLES = [200, *slow(None)]  # from the begin of a file; None: all
TAGS = ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")


def read_shared(name: str) -> tuple[pathlib.Path, str]:
    path = shared(name)
    return path, gzip.decompress(path.read_bytes()).decode("utf-8")


def predict_file(predictor, path: pathlib.Path, number: int | None) -> list[dict]:
    """Return the answers to a number of examples of a file, and check that no example is missing."""
    read = list(itertools.islice(read_prediction_data(predictor.task, path, FileOptions()), number))
    assert not any(error for _, _, error in read)
    return [answer for answers in predictor.stream(example for _, example, _ in read) for answer in answers]


def check_ranges(spans: list[dict], text: str) -> None:
    for span in spans:
        assert span["text"] == text[span["start"] : span["end"]]
        assert span["text"].strip() == span["text"] != ""


@pytest.mark.slow
def test_entity_ranges_match_wnut17(save_task):
    path, content = read_shared("wnut17/emerging.dev.conll.gz")
    sentences = [block.splitlines() for block in content.replace("\r\n", "\n").split("\n\n") if block.strip()]
    sentences = [" ".join(line.split("\t")[0] for line in lines if line.strip()) for lines in sentences]
    predictor, _ = save_task(TokenClassification(labels=TAGS, scheme="IOB2"))
    answers = predict_file(predictor, path, None)
    assert len(answers) == len(sentences) == 1009
    for answer, text in zip(answers, sentences, strict=True):
        check_ranges(answer["entities"], text)
    assert sum(len(answer["entities"]) for answer in answers) > 1000


@pytest.mark.parametrize("number", NUM_EXAMPLES)
@pytest.mark.parametrize("scheme", ["none", "IOB2"])
def test_word_and_entity_ranges_match_ud_ewt(scheme, number, save_task):
    path, content = read_shared("ud_english_ewt/en_ewt-ud-dev.conllu.gz")
    texts = [line.removeprefix("# text = ") for line in content.splitlines() if line.startswith("# text = ")]
    predictor, _ = save_task(TokenClassification(labels=TAGS, scheme=scheme))
    answers = predict_file(predictor, path, number)
    assert len(texts) == 2001
    assert len(answers) == (number or len(texts))
    kind = "words" if scheme == "none" else "entities"
    for answer, text in zip(answers, texts[:number], strict=True):
        check_ranges(answer[kind], text)
        if scheme == "none":  # only whitespace is between the words
            covered = {position for word in answer["words"] for position in range(word["start"], word["end"])}
            assert not "".join(char for position, char in enumerate(text) if position not in covered).strip()
    assert sum(len(answer[kind]) for answer in answers) > 0.5 * len(answers)


@pytest.mark.parametrize(("version", "number"), [("2.0", 100), *slow(("2.0", None), ("1.1", None))])
def test_answer_ranges_match_squad(version, number, save_task):
    path, content = read_shared(f"squad/squad_v{version}_dev_subset.json.gz")
    contexts = {
        str(question["id"]): paragraph["context"]
        for article in json.loads(content)["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    }
    predictor, _ = save_task(QuestionAnswering(allows_null=version == "2.0"))
    answers = predict_file(predictor, path, number)
    assert [answer["id"] for answer in answers] == list(contexts)[:number]
    for answer in answers:
        best = [answer] if answer["start"] is not None else []
        for span in [*best, *answer["best"]]:
            assert span["answer"] == contexts[answer["id"]][span["start"] : span["end"]] != ""
        assert answer["answer"] == "" or best
    assert len({answer["answer"] for answer in answers}) > (100 if number is None else number / 4)
