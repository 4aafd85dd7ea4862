"""A server with tiny models of every task, and the predictors and SavedModels with which its answers are compared."""

import dataclasses
import functools
import pathlib
import shutil

import pytest

import bert_keras as bk
from bert_keras.export.export_job import write_description
from bert_keras.export.onnx.to_onnx import FLOAT32, write_onnx
from bert_keras.export.saved_model.to_saved_model import write_saved_model
from tests.export.conftest import LENGTH, WORDS, build, load_once, make_task
from tests.made_once import made_once

from .running_server import RunningServer

KINDS = ("classifier", "pair_classifier", "windowed_classifier", "multi_label", "regression", "reranker", "embedder")
KINDS += ("token_classifier", "null_answerer", "masked_lm")
PROMPTS = {"query": "the cat: ", "passage": "a dog: "}
SAVED = ("pair_classifier",)  # the quick suite compares these with a SavedModel, and all kinds with a predictor
VARIANTS = {"reranker": "regression", "prompted_embedder": "embedder"}  # kinds made from others
SAME_MODEL = {  # kinds with the weights and the logits of another one; only their tasks differ
    **VARIANTS,
    **dict.fromkeys(("pair_classifier", "windowed_classifier", "multi_label"), "classifier"),
}
TEXTS = [
    "the cat sat on a mat .",
    "dog",
    "every dog ran off with its red hat , and the cat sat on the mat",
    "",
    "Ünkn öwn 東京 😀",
]


@pytest.fixture(scope="session")
def make_kind(tmp_path_factory):
    """Function that builds the model of a kind and returns it with its tokenizer and its task."""
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

    def make(kind: str):
        base = VARIANTS.get(kind, kind)
        model = build(base, config)
        if kind == "prompted_embedder":
            model = bk.BertEmbedder(model.encoder, normalize=False, prompts=PROMPTS)
        task = make_task(base, model, tokenizer, tmp_path_factory.mktemp("empty"))
        return model, tokenizer, dataclasses.replace(task, has_pairs=True) if kind == "reranker" else task

    return make


@pytest.fixture(scope="session")
def onnx_files(make_kind, tmp_path_factory):
    """Function that returns the ONNX file of a kind of model, written once."""

    def find(kind: str) -> pathlib.Path:
        kind = SAME_MODEL.get(kind, kind)
        # the same name as in tests/export, whose models are the same
        return made_once(tmp_path_factory, f"{kind}.onnx", lambda path: write_onnx(make_kind(kind)[0], path))

    return find


@pytest.fixture(scope="session")
def make_artifacts(make_kind, onnx_files, tmp_path_factory):
    """Function that returns the ONNX folder of a kind of model, written once. Copy it before changing it."""

    def write(kind: str, path: pathlib.Path) -> None:
        model, tokenizer, task = make_kind(kind)
        (path / FLOAT32).parent.mkdir(parents=True)
        shutil.copy(onnx_files(kind), path / FLOAT32)
        write_description(model, tokenizer, path, task=task and task.settings())

    return lambda kind: made_once(tmp_path_factory, f"served.{kind}", functools.partial(write, kind))


@pytest.fixture(scope="session")
def saved_model_folders(make_kind, tmp_path_factory):
    """Function that returns the folder of a kind's SavedModel, written once. Copy it before changing it."""

    def write(kind: str, path: pathlib.Path) -> None:
        write_saved_model(*make_kind(kind), path)

    # the same name as in tests/export, whose models are the same
    return lambda kind: made_once(tmp_path_factory, f"{kind}.saved_model", functools.partial(write, kind))


@pytest.fixture(scope="session")
def saved_models(saved_model_folders):
    """Function that returns the SavedModel of a kind, as a function of a signature and its inputs."""
    return lambda kind: load_once(str(saved_model_folders(kind)))[0]


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


@pytest.fixture(scope="session")
def versions_server(artifacts, tmp_path_factory):
    """A server whose `model` has the versions 3, labelled `stable`, and 12: a classifier and a tagger."""
    folder = tmp_path_factory.mktemp("versions")
    for number, kind in ((3, "classifier"), (12, "token_classifier")):
        shutil.copytree(artifacts[kind], folder / str(number))
    with RunningServer({"model": folder}, "--versions", "2", "--label", "stable=3", "--threads", "1") as running:
        yield running
