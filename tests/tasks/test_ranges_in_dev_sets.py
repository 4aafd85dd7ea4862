"""Every entity, word and answer given for the dev sets is what stands at its place in the file, as read without us."""

import gzip
import json
import pathlib

import pytest

from bert_keras.tasks.answer_extraction import QuestionAnswering
from bert_keras.tasks.examples.file_options import FileOptions
from bert_keras.tasks.examples.prediction_data import read_prediction_data
from bert_keras.tasks.token_classification import TokenClassification
from tests.marks import slow
from tests.shared_data import shared

TAGS = ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")


def join_words(name: str) -> tuple[pathlib.Path, str]:
    path = shared(name)
    return path, gzip.decompress(path.read_bytes()).decode("utf-8")


def answered(predictor, path: pathlib.Path) -> list[dict]:
    """Return the answers to a file, and sees that none of its examples is left out."""
    read = list(read_prediction_data(predictor.task, path, FileOptions()))
    assert not any(error for _, _, error in read)
    return [answer for answers in predictor.stream(example for _, example, _ in read) for answer in answers]


def check_ranges(found: list[dict], text: str) -> None:
    for one in found:
        assert one["text"] == text[one["start"] : one["end"]]
        assert one["text"].strip() == one["text"] != ""


def test_entities_of_wnut17(save_task):
    path, content = join_words("wnut17/emerging.dev.conll.gz")
    sentences = [block.splitlines() for block in content.replace("\r\n", "\n").split("\n\n") if block.strip()]
    sentences = [" ".join(line.split("\t")[0] for line in lines if line.strip()) for lines in sentences]
    predictor, _ = save_task(TokenClassification(labels=TAGS, scheme="IOB2"))
    answers = answered(predictor, path)
    assert len(answers) == len(sentences) == 1009
    for answer, text in zip(answers, sentences, strict=True):
        check_ranges(answer["entities"], text)
    assert sum(len(answer["entities"]) for answer in answers) > 1000


@pytest.mark.parametrize("scheme", ["none", "IOB2"])
def test_words_and_entities_of_ud_ewt(scheme, save_task):
    path, content = join_words("ud_english_ewt/en_ewt-ud-dev.conllu.gz")
    texts = [line.removeprefix("# text = ") for line in content.splitlines() if line.startswith("# text = ")]
    predictor, _ = save_task(TokenClassification(labels=TAGS, scheme=scheme))
    answers = answered(predictor, path)
    assert len(answers) == len(texts) == 2001
    kind = "words" if scheme == "none" else "entities"
    for answer, text in zip(answers, texts, strict=True):
        check_ranges(answer[kind], text)
        if scheme == "none":  # nothing between the words but white space
            covered = {place for one in answer["words"] for place in range(one["start"], one["end"])}
            assert not "".join(letter for place, letter in enumerate(text) if place not in covered).strip()
    assert sum(len(answer[kind]) for answer in answers) > 1000


@pytest.mark.parametrize("version", ["2.0", *slow("1.1")])
def test_answers_of_squad(version, save_task):
    path, content = join_words(f"squad/squad_v{version}_dev_subset.json.gz")
    contexts = {
        str(question["id"]): paragraph["context"]
        for article in json.loads(content)["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    }
    predictor, _ = save_task(QuestionAnswering(allows_null=version == "2.0"))
    answers = answered(predictor, path)
    assert [answer["id"] for answer in answers] == list(contexts)
    for answer in answers:
        given = [answer] if answer["start"] is not None else []
        for one in [*given, *answer["best"]]:
            assert one["answer"] == contexts[answer["id"]][one["start"] : one["end"]] != ""
        assert answer["answer"] == "" or given
    assert len({answer["answer"] for answer in answers}) > 100
