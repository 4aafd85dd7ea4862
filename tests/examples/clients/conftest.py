"""Exported tiny models of every task, and the predictors with which the answers of clients are compared."""

import dataclasses
import functools
import pathlib
import shutil

import pytest

import bert_keras as bk
from tests.export.conftest import LENGTH
from tests.made_once import made_once

FILES = {"tflite": "model_float32.tflite", "onnx": "onnx/model.onnx"}  # those whose answers equal the checkpoint's


@pytest.fixture(scope="session")
def client_models(make_kind, tmp_path_factory):
    """Function that returns the model, the tokenizer and the task of a kind of `client_texts.KINDS`."""

    @functools.cache
    def make(kind: str):
        if kind == "word_tagger":
            model, tokenizer, task = make_kind("token_classifier")
            return model, tokenizer, dataclasses.replace(task, scheme="none")
        if kind == "prompted_embedder":
            model, tokenizer, task = make_kind("embedder")
            settings = {"prompts": {"query": "the Cat: "}, "default_prompt_name": "query"}
            model = bk.BertEmbedder(model.encoder, normalize=False, **settings)
            return model, tokenizer, dataclasses.replace(task, **settings)
        return make_kind(kind)

    return make


@pytest.fixture(scope="session")
def exported(client_models, tmp_path_factory):
    """Function that returns the folder of a kind with `tflite/` and `onnx/`, exported once. Copy it to change it."""

    def export(kind: str, path: pathlib.Path) -> None:
        model, tokenizer, task = client_models(kind)
        checkpoint = path.with_name(f"{path.name}.checkpoint")
        bk.save(model, tokenizer, checkpoint, task=task and task.settings())
        lengths = (8, LENGTH) if kind == "windowed_classifier" else ()
        bk.export_model(
            checkpoint,
            path,
            ["tflite", "onnx"],
            tflite_length=LENGTH,
            tflite_lengths=lengths,
            quantizations=("float32",),
            model_name="tiny",
        )
        shutil.rmtree(checkpoint)

    return lambda kind: made_once(tmp_path_factory, f"{kind}.exported", functools.partial(export, kind))


@pytest.fixture(scope="session")
def client_predictors(client_models):
    """Function that returns the predictor of a kind, with the length of the files of a runtime."""

    @functools.cache
    def make(kind: str, runtime: str) -> bk.Predictor:
        model, tokenizer, task = client_models(kind)
        if runtime == "tflite":
            task = task.with_length(min(LENGTH, task.max_sequence_length))
        return bk.Predictor(model, tokenizer, task)

    return make
