"""Tiny models of every kind with their tokenizer and task; all dimensions differ, so that mixed-up axes fail."""

import dataclasses
import functools
import typing

import keras
import numpy as np
import pytest

import bert_keras as bk
from bert_keras.checkpoints.task_loading import restore_task
from bert_keras.export.onnx.to_onnx import write_onnx
from bert_keras.export.parity import artifact_program, parity_check
from bert_keras.export.parity.fresh_process import Answers
from bert_keras.export.parity.reference import Reference
from bert_keras.export.saved_model.to_saved_model import write_saved_model
from bert_keras.export.tflite.to_tflite import write_tflite
from bert_keras.heads.known_heads import find_finetuned_head
from tests.made_once import made_once

WORDS = "the cat sat on a mat and every dog ran off with its red hat . , ##s ##un".split()
LENGTH = 19
KINDS = ("encoder", "classifier", "pair_classifier", "windowed_classifier", "multi_label", "regression", "embedder")
KINDS += ("token_classifier", "question_answerer", "null_answerer", "masked_lm", "pretrainer", "electra")

# task settings; the lengths are short enough to split texts into windows
TASKS = {
    "pair_classifier": {"has_pairs": True},
    "windowed_classifier": {"max_sequence_length": 11, "window_overlap": 3},
    "token_classifier": {"max_sequence_length": 13, "window_overlap": 4},
    "question_answerer": {"max_question_length": 4, "window_overlap": 3},
    "null_answerer": {
        "max_question_length": 5,
        "window_overlap": 2,
        "max_answer_length": 3,
        "allows_null": True,
        "null_threshold": 0.25,
    },
}


@pytest.fixture(scope="session")
def tokenizer():
    return bk.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS], max_sequence_length=LENGTH)


@pytest.fixture(scope="session")
def config(tokenizer):
    return bk.BertConfig(
        vocabulary_size=tokenizer.vocabulary_size,
        num_layers=2,
        num_heads=3,
        hidden_dim=36,
        intermediate_dim=40,
        max_sequence_length=LENGTH,
        initializer_range=0.3,
    )


def build(kind: str, config):
    """Build a model with random weights. Biases and norms are random too, so that tests notice when one is missing."""
    keras.utils.set_random_seed(5)
    model, rng = _make_model(kind, config), np.random.default_rng(5)
    for variable in model.variables:
        if len(variable.shape) == 1 and variable.dtype == "float32":
            variable.assign_add(rng.normal(0, 0.2, variable.shape))
    return model


def _make_model(kind: str, config):
    encoder = bk.BertEncoder(config, pooler=kind in ("encoder", "pretrainer", *KINDS[1:7]))
    if kind == "encoder":
        return encoder
    if kind.endswith("classifier") and kind != "token_classifier":
        return bk.BertClassifier(encoder, 3, labels=["rot", "grün", "blau"])
    return {
        "multi_label": lambda: bk.BertClassifier(encoder, 3, problem="multi_label"),
        "regression": lambda: bk.BertClassifier(encoder, 1, problem="regression"),
        "embedder": lambda: bk.BertEmbedder(encoder, normalize=False),
        "token_classifier": lambda: bk.BertTokenClassifier(encoder, 4, labels=["O", "B-tier", "I-tier", "B-ort"]),
        "question_answerer": lambda: bk.BertQuestionAnswerer(encoder),
        "null_answerer": lambda: bk.BertQuestionAnswerer(encoder),
        "masked_lm": lambda: bk.BertMaskedLM(encoder),
        "pretrainer": lambda: bk.BertPretrainer(encoder),
        "electra": lambda: bk.ElectraPretrainer(encoder),
    }[kind]()


def make_task(kind: str, model, tokenizer, folder):
    """Restore the task of a model with the settings of `TASKS`; return None for models without a task."""
    if find_finetuned_head(type(model).__name__) is None:
        return None
    return dataclasses.replace(restore_task(folder, model, tokenizer), **TASKS.get(kind, {}))


@pytest.fixture(scope="session")
def references(config, tokenizer, tmp_path_factory):
    """Function that returns the model of a kind with its tokenizer and its task."""
    empty, cache = tmp_path_factory.mktemp("empty"), {}

    def reference(kind: str) -> Reference:
        if kind not in cache:
            model = build(kind, config)
            cache[kind] = Reference(model, tokenizer, make_task(kind, model, tokenizer, empty))
        return cache[kind]

    return reference


@pytest.fixture(scope="session")
def saved(references, tmp_path_factory):
    """Function that returns the folder of a kind's SavedModel, written once. Copy it before changing it."""

    def folder(kind: str):
        reference = references(kind)
        parts = reference.model, reference.tokenizer, reference.task
        return made_once(tmp_path_factory, f"{kind}.saved_model", lambda path: write_saved_model(*parts, path))

    return folder


@pytest.fixture(scope="session")
def tflite_file(references, tmp_path_factory):
    """Function that returns a kind's TFLite file for `LENGTH` tokens, written once per quantization."""

    def path(kind: str, quantization: str = "float32"):
        return made_once(
            tmp_path_factory,
            f"{kind}.{quantization}.tflite",
            lambda path: write_tflite(references(kind).model, path, length=LENGTH, quantization=quantization),
        )

    return path


@pytest.fixture(scope="session")
def onnx_file(references, tmp_path_factory):
    """Function that returns a kind's float32 ONNX file, written once."""
    return lambda kind: made_once(
        tmp_path_factory, f"{kind}.onnx", lambda path: write_onnx(references(kind).model, path)
    )


def _load_saved_model(path: str):
    return (load_once if "made_once" in path else artifact_program.load_saved_model)(path)


load_once = functools.cache(artifact_program.load_saved_model)  # only for the files of `saved`, which never change


class InThisProcess:
    """Replacement for `FreshProcess` that runs in this process, because starting Python for each test is slow."""

    loaders: typing.ClassVar = {**artifact_program.LOADERS, "saved_model": _load_saved_model}

    def __init__(self, kind, artifact, requests, timed=()):
        self._answer, self._signatures = self.loaders[kind](str(artifact))
        self._requests, self._timed = requests, timed

    def answers(self):
        outputs = [self._answer(*request) for request in self._requests]
        compared = [{name: artifact_program.select_compared(values) for name, values in one.items()} for one in outputs]
        return Answers(compared, 0.0, [0.0] * len(self._timed), self._signatures)

    def close(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.fixture
def in_this_process(monkeypatch):
    """Run artifacts in this process instead of a new one."""
    monkeypatch.setattr(parity_check, "FreshProcess", InThisProcess)
    return
