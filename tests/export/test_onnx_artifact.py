"""The ONNX folder as an artifact: all kinds of models pass their verdict in onnxruntime, wrong ones do not."""

import json

import pytest

import bert_keras as bk
from bert_keras.errors import InputError, VerdictError
from bert_keras.export import onnx_artifact, to_onnx
from bert_keras.export.onnx_artifact import start_onnx_check
from bert_keras.export.to_onnx import write_onnx
from bert_keras.export.verify import verify
from tests.export.conftest import KINDS
from tests.export.test_verdict import with_tanh_gelu, with_weights

SINGLE = [kind for kind in KINDS if kind not in ("windowed_classifier", "null_answerer")]  # alike on rows of ids
TOLERANCE = 2e-5  # measured: 8.3e-6 in logits over the vocabulary, 5.5e-6 in others


@pytest.mark.parametrize("kind", SINGLE)
def test_every_model_passes_its_verdict_in_onnxruntime(kind, references, tmp_path):
    write_onnx(references(kind).model, tmp_path / "model.onnx")
    verdict = start_onnx_check(references(kind), tmp_path / "model.onnx").verdict()
    assert verdict["passed"], verdict
    assert (verdict["measure"], verdict["num_inputs"]) == ("max", 24)
    assert max(seen["max"] for seen in verdict["outputs"].values()) < TOLERANCE
    assert verdict["signatures"][""]["inputs"]["token_type_ids"] == ["int64", ["batch", "sequence"]]
    if kind == "embedder":
        assert set(verdict["outputs"]) == {"ids/sentence_embedding", "ids/last_hidden_state"}


WRONG = {
    "tanh for erf": with_tanh_gelu,
    "biases dropped": with_weights(lambda weights: [0 * w if w.shape == (40,) else w for w in weights]),
}


@pytest.mark.parametrize("how", list(WRONG))
def test_a_wrong_file_is_refused(how, references, tmp_path):
    reference = references("pair_classifier")
    write_onnx(WRONG[how](None, reference.model), tmp_path / "model.onnx")
    assert not start_onnx_check(reference, tmp_path / "model.onnx").verdict()["passed"]


@pytest.mark.parametrize(
    "swapped", [{"segment_ids": "padding_mask", "padding_mask": "segment_ids"}, {"segment_ids": None}]
)
def test_inputs_that_changed_places_are_refused(swapped, references, tmp_path, monkeypatch):
    reference, answers = references("pair_classifier"), to_onnx._answers

    def broken(model, features):
        other = {name: 0 * features[name] if source is None else features[source] for name, source in swapped.items()}
        kept = 0 * sum(features.values())  # so that the converter keeps all inputs
        return answers(model, {name: values + kept for name, values in {**features, **other}.items()})

    monkeypatch.setattr(to_onnx, "_answers", broken)
    bk.save(reference.model, reference.tokenizer, tmp_path / "pairs", task=reference.task.settings())
    with pytest.raises(VerdictError, match=r"onnx/onnx/model.onnx differs from .*pairs, and nothing was published"):
        bk.export(tmp_path / "pairs", tmp_path / "out", formats=["onnx"])
    assert not (tmp_path / "out").exists()


def test_the_folder_is_published_whole_and_can_be_verified(references, tmp_path):
    reference = references("classifier")
    bk.save(reference.model, reference.tokenizer, tmp_path / "classifier", task=reference.task.settings())
    parity = bk.export(tmp_path / "classifier", tmp_path / "out", formats=["onnx"])
    names = ["onnx/onnx/model.onnx", "onnx/onnx/model_quantized.onnx"]
    assert list(parity["artifacts"]) == names
    assert [parity["artifacts"][name]["measure"] for name in names] == ["max", "mean_relative"]
    config = json.loads((tmp_path / "out/onnx/config.json").read_text("utf-8"))
    assert config["id2label"] == {"0": "rot", "1": "grün", "2": "blau"}
    assert (tmp_path / "out/onnx/tokenizer.json").exists()
    [verdict] = verify(tmp_path / "out/onnx/onnx/model_quantized.onnx", tmp_path / "classifier").values()
    assert (verdict["passed"], verdict["measure"]) == (True, "mean_relative")
    with pytest.raises(InputError, match=r"out/onnx exists and is not empty"):
        bk.export(tmp_path / "classifier", tmp_path / "out", formats=["onnx"])
    bk.export(tmp_path / "classifier", tmp_path / "out", formats=["onnx"], overwrite=True)


def test_what_is_no_onnx_file_is_told(references, tmp_path):
    (tmp_path / "cut.onnx").write_bytes(b"\x08\x01\x12\xff")
    with pytest.raises(InputError, match=r"cut.onnx is no whole ONNX file"):
        onnx_artifact.start_onnx_check(references("classifier"), tmp_path / "cut.onnx")
