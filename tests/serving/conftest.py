"""A server with tiny models of every task, and the predictors with which its answers are compared."""

import functools
import pathlib

import pytest

import bert_keras as bk
from bert_keras.export.onnx.onnx_folder import write_onnx_folder
from tests.export.conftest import LENGTH, WORDS, build, make_task
from tests.made_once import made_once

from .running_server import RunningServer

KINDS = ("classifier", "pair_classifier", "windowed_classifier", "multi_label", "regression", "embedder")
KINDS += ("token_classifier", "null_answerer", "masked_lm")
TEXTS = [
    "the cat sat on a mat .",
    "dog",
    "every dog ran off with its red hat , and the cat sat on the mat",
    "",
    "Ünkn öwn 東京 😀",
]


@pytest.fixture(scope="session")
def make_artifacts(tmp_path_factory):
    """Function that returns the ONNX folder of a kind of model, written once. Copy it before changing it."""
    tokenizer = bk.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS], max_sequence_length=LENGTH)
    config = bk.BertConfig(
        vocabulary_size=tokenizer.vocabulary_size,
        num_layers=2,
        num_heads=3,
        hidden_dim=36,
        intermediate_dim=40,
        max_sequence_length=LENGTH,
        initializer_range=0.3,
    )

    def write(kind: str, path: pathlib.Path) -> None:
        model = build(kind, config)
        task = make_task(kind, model, tokenizer, tmp_path_factory.mktemp("empty"))
        write_onnx_folder(model, tokenizer, path, task=task and task.settings())

    return lambda kind: made_once(tmp_path_factory, f"served.{kind}", functools.partial(write, kind))


@pytest.fixture(scope="session")
def artifacts(make_artifacts):
    """The ONNX folder of each kind."""
    return {kind: make_artifacts(kind) for kind in KINDS}


@pytest.fixture(scope="session")
def predictors(artifacts):
    """Function that returns the predictor of a kind."""
    return functools.cache(lambda kind: bk.Predictor.from_artifact(artifacts[kind]))


@pytest.fixture(scope="session")
def server(artifacts):
    """A server with all kinds of models; tests must not stop it."""
    with RunningServer(artifacts, "--threads", "1", "--instances", "1", "--max-payload", "200000") as running:
        yield running
