"""The ONNX folder as an artifact: all kinds of models pass their verdict in onnxruntime, wrong ones do not."""

import json

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import bert_keras as bk
from bert_keras.errors import InputError, ParityError
from bert_keras.export.artifacts import check_export_target
from bert_keras.export.onnx import onnx_artifact, onnx_folder
from bert_keras.export.onnx.onnx_artifact import start_onnx_check
from bert_keras.export.onnx.onnx_int8 import write_int8_onnx
from bert_keras.export.onnx.to_onnx import write_onnx
from bert_keras.export.parity.probe_inputs import THOROUGH
from bert_keras.export.verify import verify
from tests.export.conftest import KINDS
from tests.export.parity.test_parity_check import with_tanh_gelu
from tests.marks import slow_except

SINGLE = [kind for kind in KINDS if kind not in ("windowed_classifier", "null_answerer")]  # alike on rows of ids
TOLERANCE = 2e-5  # measured: 8.3e-6 in logits over the vocabulary, 5.5e-6 in others


@pytest.mark.parametrize("kind", slow_except(SINGLE, quick=["pair_classifier", "embedder"]))
def test_every_model_passes_its_verdict_in_onnxruntime(kind, references, onnx_file, in_this_process):
    verdict = start_onnx_check(references(kind), onnx_file(kind)).report()
    assert verdict["passed"], verdict
    assert (verdict["measure"], verdict["num_inputs"]) == ("max", 24)
    assert max(seen["max"] for seen in verdict["outputs"].values()) < TOLERANCE
    assert verdict["signatures"][""]["inputs"]["token_type_ids"] == ["int64", ["batch", "sequence"]]
    if kind == "embedder":
        assert set(verdict["outputs"]) == {"ids/sentence_embedding", "ids/last_hidden_state"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SINGLE)
def test_every_model_passes_all_probes_in_a_fresh_process(kind, references, onnx_file):
    verdict = start_onnx_check(references(kind), onnx_file(kind), THOROUGH).report()
    assert (verdict["passed"], verdict["num_inputs"]) == (True, 200)
    assert max(seen["max"] for seen in verdict["outputs"].values()) < TOLERANCE


def changed_weights(change):
    """Returns a breaker of a file: `change` is given each array with its name."""

    def broken(file):
        for tensor in file.graph.initializer:
            array = numpy_helper.to_array(tensor)
            if array.dtype == np.float32:
                tensor.CopyFrom(numpy_helper.from_array(change(tensor.name, array), tensor.name))

    return broken


def renamed(names):
    """Returns a breaker that gives the inputs of a file each other's names."""

    def broken(file):
        for node in file.graph.node:
            node.input[:] = [names.get(name, name) for name in node.input]

    return broken


def zeroed(name):
    """Returns a breaker that reads zeros for an input."""

    def broken(file):
        node = helper.make_node("Sub", [name, name], ["zeros"])
        renamed({name: "zeros"})(file)
        file.graph.node.insert(0, node)

    return broken


WRONG = {
    "biases dropped": changed_weights(lambda _, array: 0 * array if array.shape == (40,) else array),
    "one bias dropped": changed_weights(
        lambda name, array: 0 * array if name.endswith("layer.1.attention.self.query.bias") else array
    ),
    "half precision": changed_weights(lambda _, array: array.astype("float16").astype("float32")),
    "positions off by one beyond the half": changed_weights(
        lambda name, array: np.concatenate([array[:9], array[8:-1]]) if "position_embeddings" in name else array
    ),
    "mask and segments swapped": renamed({"attention_mask": "token_type_ids", "token_type_ids": "attention_mask"}),
    "segments zeroed": zeroed("token_type_ids"),
}


VISIBLE_IN_8_BITS = ("mask and segments swapped", "segments zeroed")  # others change as little as 8 bits do


@pytest.mark.parametrize(
    ("how", "has_8_bits"), [*((how, False) for how in WRONG), *((how, True) for how in VISIBLE_IN_8_BITS)]
)
def test_a_wrong_file_is_refused(how, has_8_bits, references, onnx_file, tmp_path, in_this_process):
    file = onnx.load(onnx_file("pair_classifier"))
    before = file.SerializeToString()
    WRONG[how](file)
    assert file.SerializeToString() != before
    onnx.save(file, tmp_path / "model.onnx")
    if has_8_bits:
        write_int8_onnx(tmp_path / "model.onnx", tmp_path / "model.onnx")
    verdict = start_onnx_check(references("pair_classifier"), tmp_path / "model.onnx").report()
    assert (verdict["passed"], verdict["measure"]) == (False, "mean_relative" if has_8_bits else "max"), verdict


def test_a_wrong_activation_is_refused(references, tmp_path, monkeypatch, in_this_process):
    reference = references("pair_classifier")
    write_onnx(with_tanh_gelu(monkeypatch, reference).model, tmp_path / "model.onnx")
    assert not start_onnx_check(reference, tmp_path / "model.onnx").report()["passed"]


def test_a_wrong_export_is_not_published(references, onnx_file, tmp_path, monkeypatch, in_this_process):
    reference = references("pair_classifier")
    file = onnx.load(onnx_file("pair_classifier"))
    WRONG["mask and segments swapped"](file)

    def write_wrong(model, path):
        path.parent.mkdir()
        onnx.save(file, path)

    monkeypatch.setattr(onnx_folder, "write_onnx", write_wrong)
    bk.save(reference.model, reference.tokenizer, tmp_path / "pairs", task=reference.task.settings())
    with pytest.raises(ParityError, match=r"onnx/onnx/model.onnx differs from .*pairs, and nothing was published"):
        bk.export_model(tmp_path / "pairs", tmp_path / "out", formats=["onnx"])
    assert not (tmp_path / "out").exists()


def test_the_folder_is_published_whole_and_can_be_verified(references, tmp_path):
    reference = references("classifier")
    bk.save(reference.model, reference.tokenizer, tmp_path / "classifier", task=reference.task.settings())
    parity = bk.export_model(tmp_path / "classifier", tmp_path / "out", formats=["onnx"])
    names = ["onnx/onnx/model.onnx", "onnx/onnx/model_quantized.onnx"]
    assert list(parity["artifacts"]) == names
    assert [parity["artifacts"][name]["measure"] for name in names] == ["max", "mean_relative"]
    config = json.loads((tmp_path / "out/onnx/config.json").read_text("utf-8"))
    assert config["id2label"] == {"0": "rot", "1": "grün", "2": "blau"}
    assert (tmp_path / "out/onnx/tokenizer.json").exists()
    [verdict] = verify(tmp_path / "out/onnx/onnx/model_quantized.onnx", tmp_path / "classifier").values()
    assert (verdict["passed"], verdict["measure"]) == (True, "mean_relative")
    with pytest.raises(InputError, match=r"out/onnx exists and is not empty"):
        bk.export_model(tmp_path / "classifier", tmp_path / "out", formats=["onnx"])
    check_export_target(tmp_path / "out", ["onnx"], overwrite=True)


@pytest.mark.slow
def test_what_is_there_is_replaced_where_that_is_asked_for(references, tmp_path):
    reference = references("classifier")
    bk.save(reference.model, reference.tokenizer, tmp_path / "classifier", task=reference.task.settings())
    for _ in range(2):
        bk.export_model(tmp_path / "classifier", tmp_path / "out", formats=["onnx"], overwrite=True)
    assert (tmp_path / "out/onnx/onnx/model.onnx").is_file()


def test_what_is_no_onnx_file_is_told(references, tmp_path):
    (tmp_path / "cut.onnx").write_bytes(b"\x08\x01\x12\xff")
    with pytest.raises(InputError, match=r"cut.onnx is no whole ONNX file"):
        onnx_artifact.start_onnx_check(references("classifier"), tmp_path / "cut.onnx")
