"""Parity check of ONNX files: every kind of model passes in onnxruntime, and wrong files fail."""

import json

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import bert_keras as bk
from bert_keras.errors import InputError, ParityError
from bert_keras.export.onnx import to_onnx
from bert_keras.export.onnx.onnx_artifact import start_onnx_check, write_smoothed_onnx
from bert_keras.export.onnx.to_onnx import write_onnx
from bert_keras.export.parity.probe_inputs import THOROUGH_PROBES
from bert_keras.export.targets import check_export_target
from bert_keras.export.verify import verify
from tests.export.conftest import KINDS
from tests.export.parity.test_parity_check import with_tanh_gelu
from tests.marks import slow_except

SINGLE = [
    kind for kind in KINDS if kind not in ("windowed_classifier", "null_answerer")
]  # the other kinds have the same outputs for ids
TOLERANCE = 2e-5  # measured: 8.3e-6 for logits over the vocabulary, 5.5e-6 for other outputs


@pytest.mark.parametrize("kind", slow_except(SINGLE, quick=["pair_classifier", "embedder"]))
def test_every_model_passes_the_parity_check_in_onnxruntime(kind, references, onnx_file, in_this_process):
    report = start_onnx_check(references(kind), onnx_file(kind)).report()
    assert report["passed"], report
    assert (report["measure"], report["num_inputs"]) == ("max", 24)
    assert max(output["max"] for output in report["outputs"].values()) < TOLERANCE
    assert report["signatures"][""]["inputs"]["token_type_ids"] == ["int64", ["batch", "sequence"]]
    if kind == "embedder":
        assert set(report["outputs"]) == {"ids/sentence_embedding", "ids/last_hidden_state"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SINGLE)
def test_every_model_passes_the_thorough_check_in_a_fresh_process(kind, references, onnx_file):
    report = start_onnx_check(references(kind), onnx_file(kind), THOROUGH_PROBES).report()
    assert (report["passed"], report["num_inputs"]) == (True, 200)
    assert max(output["max"] for output in report["outputs"].values()) < TOLERANCE


def change_weights(change):
    """Return a function that replaces each weight of a file with `change(name, array)`."""

    def apply(file):
        for tensor in file.graph.initializer:
            array = numpy_helper.to_array(tensor)
            if array.dtype == np.float32:
                tensor.CopyFrom(numpy_helper.from_array(change(tensor.name, array), tensor.name))

    return apply


def rename_inputs(names):
    """Return a function that renames the inputs of a file."""

    def apply(file):
        for node in file.graph.node:
            node.input[:] = [names.get(name, name) for name in node.input]

    return apply


def zero_input(name):
    """Return a function that replaces an input of a file with zeros."""

    def apply(file):
        node = helper.make_node("Sub", [name, name], ["zeros"])
        rename_inputs({name: "zeros"})(file)
        file.graph.node.insert(0, node)

    return apply


SWAPPED = {"attention_mask": "token_type_ids", "token_type_ids": "attention_mask"}
WRONG = {
    "biases dropped": change_weights(lambda _, array: 0 * array if array.shape == (40,) else array),
    "one bias dropped": change_weights(
        lambda name, array: 0 * array if name.endswith("layer.1.attention.self.query.bias") else array
    ),
    "half precision": change_weights(lambda _, array: array.astype("float16").astype("float32")),
    "positions off by one in the second half": change_weights(
        lambda name, array: np.concatenate([array[:9], array[8:-1]]) if "position_embeddings" in name else array
    ),
    "mask and segments swapped": rename_inputs(
        {"attention_mask": "token_type_ids", "token_type_ids": "attention_mask"}
    ),
    "segments zeroed": zero_input("token_type_ids"),
}
# quantization changes the outputs more than the other faults do
VISIBLE_IN_8_BITS = ("mask and segments swapped", "segments zeroed")


@pytest.mark.parametrize(
    ("fault", "is_quantized"),
    slow_except(
        [*((fault, False) for fault in WRONG), *((fault, True) for fault in VISIBLE_IN_8_BITS)],
        quick=[("one bias dropped", False), ("half precision", False), ("segments zeroed", True)],
    ),
)
def test_wrong_file_is_rejected(fault, is_quantized, references, onnx_file, tmp_path, in_this_process):
    file = onnx.load(onnx_file("pair_classifier"))
    before = file.SerializeToString()
    WRONG[fault](file)
    assert file.SerializeToString() != before
    onnx.save(file, tmp_path / "model.onnx")
    if is_quantized:
        write_smoothed_onnx(references("pair_classifier"), tmp_path / "model.onnx", tmp_path / "model.onnx")
    report = start_onnx_check(references("pair_classifier"), tmp_path / "model.onnx").report()
    assert (report["passed"], report["measure"]) == (False, "mean_relative" if is_quantized else "max"), report


@pytest.mark.slow  # TFLite has a quick test
def test_wrong_activation_is_rejected(references, tmp_path, monkeypatch, in_this_process):
    reference = references("pair_classifier")
    write_onnx(with_tanh_gelu(monkeypatch, reference).model, tmp_path / "model.onnx")
    assert not start_onnx_check(reference, tmp_path / "model.onnx").report()["passed"]


def test_wrong_export_is_not_published(references, onnx_file, tmp_path, monkeypatch, in_this_process):
    reference = references("pair_classifier")
    file = onnx.load(onnx_file("pair_classifier"))
    WRONG["mask and segments swapped"](file)

    def write_wrong(model, path):
        path.parent.mkdir()
        onnx.save(file, path)

    monkeypatch.setattr(to_onnx, "write_onnx", write_wrong)
    bk.save(reference.model, reference.tokenizer, tmp_path / "pairs", task=reference.task.settings())
    with pytest.raises(ParityError, match=r"onnx/onnx/model.onnx differs from .*pairs, and nothing was published"):
        bk.export_model(tmp_path / "pairs", tmp_path / "out", formats=["onnx"])
    assert not (tmp_path / "out").exists()


def test_folder_is_published_and_can_be_verified(references, tmp_path):
    reference = references("classifier")
    bk.save(reference.model, reference.tokenizer, tmp_path / "classifier", task=reference.task.settings())
    parity = bk.export_model(tmp_path / "classifier", tmp_path / "out", formats=["onnx"])
    names = ["onnx/onnx/model.onnx", "onnx/onnx/model_quantized.onnx"]
    assert list(parity["artifacts"]) == names
    assert [parity["artifacts"][name]["measure"] for name in names] == ["max", "mean_relative"]
    config = json.loads((tmp_path / "out/onnx/config.json").read_text("utf-8"))
    assert config["id2label"] == {"0": "rot", "1": "grün", "2": "blau"}
    assert (tmp_path / "out/onnx/tokenizer.json").exists()
    [report] = verify(tmp_path / "out/onnx/onnx/model_quantized.onnx", tmp_path / "classifier").values()
    assert (report["passed"], report["measure"]) == (True, "mean_relative")
    differences = {"texts": 16, "differ": 1}  # the text of unassigned characters
    assert report["tokenizer_json"] == parity["artifacts"][names[0]]["tokenizer_json"] == differences
    with pytest.raises(InputError, match=r"out/onnx exists and is not empty"):
        bk.export_model(tmp_path / "classifier", tmp_path / "out", formats=["onnx"])
    model = json.loads((tmp_path / "out/onnx/model.json").read_text("utf-8"))
    sizes = {file["path"]: (file["quantization"], file["bytes"]) for file in model["files"]}
    kinds = {"onnx/model_quantized.onnx": "int8", "onnx/model.onnx": "float32"}
    assert sizes == {path: (kind, (tmp_path / "out/onnx" / path).stat().st_size) for path, kind in kinds.items()}
    assert list(sizes) == sorted(sizes, key=lambda path: sizes[path][1])
    predictor = bk.Predictor.from_artifact(tmp_path / "out/onnx")  # as before: one more file in the folder
    answers = predictor([probe["texts"][0] for probe in model["probes"]])
    assert [probe["answer"]["label"] for probe in model["probes"]] == [answer["label"] for answer in answers]
    check_export_target(tmp_path / "out", ["onnx"], overwrite=True)


@pytest.mark.slow
def test_overwrite_replaces_the_folder(references, tmp_path):
    reference = references("classifier")
    bk.save(reference.model, reference.tokenizer, tmp_path / "classifier", task=reference.task.settings())
    for _ in range(2):
        bk.export_model(tmp_path / "classifier", tmp_path / "out", formats=["onnx"], overwrite=True)
    assert (tmp_path / "out/onnx/onnx/model.onnx").is_file()


def test_file_in_another_format_is_rejected(references, tmp_path):
    (tmp_path / "cut.onnx").write_bytes(b"\x08\x01\x12\xff")
    with pytest.raises(InputError, match=r"cut.onnx is not a complete ONNX file"):
        start_onnx_check(references("classifier"), tmp_path / "cut.onnx")
