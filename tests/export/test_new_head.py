"""A head that defines only its record and its classes is exported in all formats; nothing in `export/` knows it."""

import dataclasses
import json
from typing import ClassVar

import keras
import pytest

import bert_keras as bk
from bert_keras.export import artifacts
from bert_keras.export.parity.expected_answers import CheckpointRun
from bert_keras.export.parity.reference import Reference
from bert_keras.export.saved_model.answers.text_function import TextFunction
from bert_keras.heads import known_heads
from bert_keras.heads.head import Head
from bert_keras.modeling.base import INPUT_SHAPES
from bert_keras.modeling.heads import HeadModel
from bert_keras.pipelines.batches.encoding import encode
from bert_keras.pipelines.batches.packing import encode_in_graph
from bert_keras.tasks.base import Task
from bert_keras.tasks.signatures import TensorSpec
from tests.marks import slow_except


class ClaimChecker(HeadModel):
    """Two logits of a text."""

    def __init__(self, encoder):
        super().__init__(encoder)
        self.dense = keras.layers.Dense(2)
        self.dense.build((None, encoder.config.hidden_dim))
        self.build(INPUT_SHAPES)

    def call(self, inputs, training=None):
        return {"logits": self.dense(self.encode(inputs, training)["sequence_output"][:, 0])}


@dataclasses.dataclass(frozen=True)
class ClaimChecking(Task):
    """A number that says whether a claim is true."""

    name: ClassVar[str] = "check"
    model_class: ClassVar[str] = "ClaimChecker"
    example_class: ClassVar[type] = tuple
    main_score: ClassVar[str] = "accuracy"
    input_names: ClassVar[tuple[str, ...]] = ("claim",)

    def make_example(self, text, second_text=None, line=None):
        return (text,)

    def encode(self, tokenizer, examples):
        texts = [text for (text,) in examples]
        return encode(tokenizer, texts, max_sequence_length=self.max_sequence_length)

    def decode(self, sequences, outputs, examples):
        return [{"truth": float(logits[0])} for logits in outputs["logits"]]

    def describe_signature(self, num_dimensions):
        return [TensorSpec("truth", "float32", (-1,))]

    add_labels = score = compute_signature = None  # an export without labelled examples does not call them


def build_answers(run, tokenizer, task, length):
    def answer(claim):
        tokens = [tokenizer.tokenize(claim)]
        batch = encode_in_graph(tokenizer, tokens, max_sequence_length=task.max_sequence_length)
        return {"truth": run(batch.features)["logits"][:, 0]}

    return TextFunction(task.input_names, answer)


def expect_truth(reference, texts):
    expected = CheckpointRun.of_texts(reference, texts).decode()

    def compare(comparison, answers):
        for one, answer in zip(expected, answers, strict=True):
            comparison.compare_floats("truth", one["truth"], answer.get("truth"))

    return compare


@pytest.fixture
def checkpoint(config, tokenizer, tmp_path, monkeypatch):
    """Checkpoint whose model has the new head; folders of new heads are none of this test's business."""
    head = Head(
        name="check",
        model=f"{__name__}:ClaimChecker",
        task=f"{__name__}:ClaimChecking",
        is_finetuned=True,
        pipeline_tag="text-classification",
        outputs=("logits",),
        graph=f"{__name__}:build_answers",
        comparison=f"{__name__}:expect_truth",
        has="a head for claims",
        use="It says whether a claim is true.",
    )
    monkeypatch.setattr(known_heads, "HEADS", (*known_heads.HEADS, head))
    monkeypatch.setitem(known_heads._BY_MODEL, head.model_name, head)
    monkeypatch.setitem(known_heads._BY_TASK, head.name, head)
    encoder = bk.BertEncoder(config, pooler=False)
    reference = Reference(ClaimChecker(encoder), tokenizer, ClaimChecking(max_sequence_length=16))
    monkeypatch.setattr(artifacts, "load_reference", lambda *_, **__: reference)
    bk.save(encoder, tokenizer, tmp_path / "claims")
    return tmp_path / "claims"


@pytest.mark.parametrize("kind", slow_except(["saved_model", "tflite", "onnx"], quick=["saved_model"]))
def test_a_new_head_is_exported_without_changes(kind, checkpoint, tmp_path, in_this_process):
    reports = bk.export_model(checkpoint, tmp_path / "out", formats=[kind])["artifacts"]
    assert all(report["passed"] and "ids/logits" in report["outputs"] for report in reports.values())
    if kind == "saved_model":
        assert "truth" in reports["saved_model/1"]["outputs"]
        request = json.loads((tmp_path / "out/serving/request_serving_default.json").read_text("utf-8"))
        assert list(request["inputs"]) == ["claim"]
        return
    model = json.loads((tmp_path / "out" / kind / "model.json").read_text("utf-8"))
    assert model["task"] == {"name": "check", "max_sequence_length": 16, "window_overlap": None}
    assert list(model["probes"][0]["answer"]) == ["truth"]
    if kind == "tflite":
        readme = (tmp_path / "out/tflite/README.md").read_text("utf-8")
        assert "It says whether a claim is true. The files run in LiteRT" in readme
        assert "No reference client runs this model" in readme
    else:
        request = json.loads((tmp_path / "out/deploy/request.json").read_text("utf-8"))
        assert [entry["name"] for entry in request["inputs"]] == ["claim"]
