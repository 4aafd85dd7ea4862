"""Parity check of TFLite files in LiteRT, the exported folder, and the quantization search."""

import json
import re

import flatbuffers
import numpy as np
import pytest

import bert_keras as bk
from bert_keras.engines.predictor import Predictor
from bert_keras.errors import InputError
from bert_keras.export.artifacts import check_can_be_scored
from bert_keras.export.parity import parity_check
from bert_keras.export.parity.probe_inputs import THOROUGH_PROBES
from bert_keras.export.parity.reference import Reference
from bert_keras.export.quantization_search import (
    convert_to_points,
    load_tflite_runner,
    score_file,
    search_quantization,
)
from bert_keras.export.settings import QUANTIZATIONS, ExportSettings
from bert_keras.export.targets import check_export_target
from bert_keras.export.tflite import tflite_artifact
from bert_keras.export.tflite.tflite_file import IDENTIFIER, parse_tflite, schema
from bert_keras.export.tflite.to_tflite import SIGNATURE, write_tflite
from bert_keras.export.verify import verify
from bert_keras.heads.classify.task import TextExample
from tests.export.conftest import KINDS, LENGTH, InThisProcess
from tests.export.parity.test_parity_check import GRAPHS, with_tanh_gelu
from tests.export.tflite.metadata_reader import read_metadata
from tests.marks import slow_except

SINGLE = [
    kind for kind in KINDS if kind not in ("windowed_classifier", "null_answerer")
]  # the other kinds have the same outputs for ids
TOLERANCE = 2e-5  # measured: 3.6e-6
ROUNDED = {"float16": 0.005, "dynamic_int8": 0.1}  # relative to the standard deviation; measured: 0.0009 and 0.021


@pytest.mark.parametrize("kind", slow_except(SINGLE, quick=["pair_classifier"]))
def test_every_model_passes_the_parity_check_in_litert(kind, references, tflite_file, in_this_process):
    report = tflite_artifact.start_tflite_file_check(references(kind), tflite_file(kind)).report()
    assert report["passed"], report
    assert (report["measure"], report["num_inputs"]) == ("max", 24)
    assert max(output["max"] for output in report["outputs"].values()) < TOLERANCE
    assert report["signatures"][SIGNATURE]["inputs"]["token_type_ids"] == ["int32", [1, LENGTH]]


@pytest.mark.slow
@pytest.mark.parametrize("kind", SINGLE)
def test_every_model_passes_the_thorough_check_in_a_fresh_process(kind, references, tflite_file):
    report = tflite_artifact.start_tflite_file_check(references(kind), tflite_file(kind), THOROUGH_PROBES).report()
    assert (report["passed"], report["num_inputs"]) == (True, 200)
    assert max(output["max"] for output in report["outputs"].values()) < TOLERANCE


def change_constants(change):
    """Return a function that replaces each float32 array of a file with `change(array)`."""

    def apply(file):
        for graph in file.subgraphs:
            for tensor in graph.tensors:
                buffer = file.buffers[tensor.buffer]
                if buffer.data is not None and tensor.type == schema.TensorType.FLOAT32 and len(tensor.shape):
                    array = np.frombuffer(bytes(buffer.data), "float32").reshape(tensor.shape)
                    buffer.data = np.frombuffer(change(array).astype("float32").tobytes(), np.uint8)

    return apply


def swap_inputs(file):
    """Swap the names of two inputs of a file."""
    names = {b"attention_mask": b"token_type_ids", b"token_type_ids": b"attention_mask"}
    for entry in file.signatureDefs[0].inputs:
        entry.name = names.get(entry.name, entry.name)


def equalize_segments(array):
    """Make both segment embeddings equal, as if all segment ids were 0."""
    return np.stack([array[0], array[0]]) if array.shape == (2, 36) else array


WRONG = {
    "biases dropped": change_constants(lambda array: 0 * array if array.shape == (40,) else array),
    "half precision": change_constants(lambda array: array.astype("float16")),
    "segments zeroed": change_constants(equalize_segments),
    "mask and segments swapped": swap_inputs,
}


@pytest.mark.parametrize("fault", slow_except(WRONG, quick=["half precision", "mask and segments swapped"]))
def test_wrong_file_is_rejected(fault, references, tflite_file, tmp_path, in_this_process):
    report = check_broken(WRONG[fault], references, tflite_file("pair_classifier"), tmp_path / "model.tflite")
    assert not report["passed"], report


@pytest.mark.slow  # ONNX has a quick test
@pytest.mark.parametrize("fault", ["segments zeroed", "mask and segments swapped"])
def test_wrong_quantized_file_is_rejected(fault, references, tflite_file, tmp_path, in_this_process):
    path = tflite_file("pair_classifier", "dynamic_int8")  # small matrices, such as segment embeddings, stay float32
    report = check_broken(WRONG[fault], references, path, tmp_path / "model.tflite")
    assert (report["passed"], report["measure"]) == (False, "mean_relative")


def check_broken(change, references, path, broken_path):
    file = schema.ModelT.InitFromObj(parse_tflite(path.read_bytes()))
    change(file)
    builder = flatbuffers.Builder()
    builder.Finish(file.Pack(builder), IDENTIFIER)
    broken_path.write_bytes(builder.Output())
    assert broken_path.read_bytes() != path.read_bytes()
    return tflite_artifact.start_tflite_file_check(references("pair_classifier"), broken_path).report()


def test_wrong_activation_is_rejected(references, tmp_path, monkeypatch, in_this_process):
    reference = references("pair_classifier")
    write_tflite(with_tanh_gelu(monkeypatch, reference).model, tmp_path / "model.tflite", length=LENGTH)
    assert not tflite_artifact.start_tflite_file_check(reference, tmp_path / "model.tflite").report()["passed"]


@pytest.fixture(scope="module")
def exported(references, tmp_path_factory):
    """Folder of a classifier and its float32 files, with one sequence length and with two."""
    folder = tmp_path_factory.mktemp("tflite")
    reference = references("classifier")
    bk.save(reference.model, reference.tokenizer, folder / "classifier", task=reference.task.settings())
    settings = {"tflite_lengths": (7, LENGTH), "quantizations": ("float32",), "model_name": "bunt"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parity_check, "FreshProcess", InThisProcess)
        bk.export_model(folder / "classifier", folder / "out", formats=["tflite"], **settings)
    return folder


def test_a_quantization_gets_a_file_with_one_length_and_one_with_several(exported):
    check_files(exported / "out", ("float32",))


@pytest.mark.slow
def test_three_quantizations_are_written_by_default(exported, tmp_path):
    bk.export_model(exported / "classifier", tmp_path / "out", formats=["tflite"], tflite_lengths=(7, LENGTH))
    check_files(tmp_path / "out", ("float32", "float16", "dynamic_int8"))
    path = tmp_path / "out/tflite/model_dynamic_int8_lengths.tflite"
    [report] = verify(path, exported / "classifier").values()
    assert (report["passed"], report["measure"]) == (True, "mean_relative")
    assert read_metadata(tmp_path / "out/tflite/model_dynamic_int8.tflite").labels == ("rot", "grün", "blau")


def test_default_setting_contains_three_quantizations():
    assert ExportSettings().quantizations == ("float32", "float16", "dynamic_int8")


def check_files(out, quantizations):
    parity = json.loads((out / "parity.json").read_text())["artifacts"]
    names = [f"model_{kind}{ending}.tflite" for kind in quantizations for ending in ("", "_lengths")]
    assert sorted(parity) == sorted(f"tflite/{name}" for name in names)
    assert all(report["passed"] for report in parity.values())
    for kind, limit in ROUNDED.items():
        if kind in quantizations:
            outputs = parity[f"tflite/model_{kind}.tflite"]["outputs"].values()
            assert 0 < max(output["mean_relative"] for output in outputs) < limit
    assert set(parity["tflite/model_float32_lengths.tflite"]["signatures"]) == {"length_7", f"length_{LENGTH}"}
    vocabulary = (out / "tflite/vocab.txt").read_text("utf-8").split("\n")[:-1]
    assert vocabulary[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert (out / "tflite/labels.txt").read_text("utf-8") == "rot\ngrün\nblau\n"


def test_files_can_be_verified_and_are_not_replaced_without_overwrite(exported):
    [report] = verify(exported / "out/tflite/model_float32_lengths.tflite", exported / "classifier").values()
    assert (report["passed"], report["measure"]) == (True, "max")
    with pytest.raises(InputError, match=r"out/tflite exists and is not empty"):
        bk.export_model(exported / "classifier", exported / "out", formats=["tflite"])


def test_folder_describes_its_files_for_app_teams(exported):
    folder = exported / "out/tflite"
    names = ["README.md", "labels.txt", "model.json", "model_float32.tflite", "model_float32_lengths.tflite"]
    assert [path.name for path in sorted(folder.glob("[!.]*"))] == [*names, "parity.json", "vocab.txt"]
    model = json.loads((folder / "model.json").read_text("utf-8"))
    described = {file["path"]: file for file in model["files"]}
    assert list(described) == sorted(described, key=lambda name: (folder / name).stat().st_size)
    assert all(file["bytes"] == (folder / name).stat().st_size for name, file in described.items())
    assert described["model_float32.tflite"]["signatures"] == {SIGNATURE: LENGTH}
    assert described["model_float32_lengths.tflite"]["signatures"] == {"length_7": 7, f"length_{LENGTH}": LENGTH}
    assert {tuple(one["shape"]) for one in model["inputs"]} == {(1, LENGTH)}
    parity = json.loads((folder / "parity.json").read_text("utf-8"))
    whole = json.loads((exported / "out/parity.json").read_text("utf-8"))
    assert {f"tflite/{name}": report for name, report in parity["artifacts"].items()} == whole["artifacts"]


def test_folder_of_one_format_is_no_target_of_an_export(exported):
    with pytest.raises(InputError, match=r"out/tflite contains the artifacts of one format; expected a folder for"):
        check_export_target(exported / "out/tflite", ["onnx"])
    check_export_target(exported / "out", ["tflite"], overwrite=True)


def test_files_supported_by_mediapipe_have_metadata(exported):
    metadata = read_metadata(exported / "out/tflite/model_float32.tflite")
    assert (metadata.name, metadata.labels) == ("bunt", ("rot", "grün", "blau"))
    with pytest.raises(InputError, match="has no metadata"):
        read_metadata(exported / "out/tflite/model_float32_lengths.tflite")


SCORED = ("windowed_classifier", "multi_label", "token_classifier", "question_answerer", "embedder")


@pytest.mark.parametrize("kind", slow_except(SCORED, quick=["token_classifier"]))
def test_predictions_of_a_file_equal_its_checkpoint(kind, references, tflite_file):
    reference = references(kind)
    run = load_tflite_runner(tflite_file(kind), reference.model, LENGTH, is_token_level=reference.task.is_token_level)
    predictor = Predictor(reference.model, reference.tokenizer, reference.task)
    texts = ["the cat sat on a mat and every dog ran off with its red hat . " * 2, "", "a dog"]
    inputs = [(text, texts[0]) for text in texts] if kind == "question_answerer" else texts
    examples = [reference.task.make_example(*([one] if isinstance(one, str) else one)) for one in inputs]
    encoded = reference.task.encode(reference.tokenizer, examples)
    got, expected = reference.task.decode(encoded, run(encoded), examples), predictor.answer(examples)
    for one, other in zip(got, expected, strict=True):
        assert_close(one, other)


def assert_close(one, other):
    assert type(one) is type(other)
    if isinstance(one, dict | list):
        assert len(one) == len(other)
        for key in one if isinstance(one, dict) else range(len(one)):
            assert_close(one[key], other[key])
    elif isinstance(one, float | np.ndarray):
        np.testing.assert_allclose(one, other, atol=1e-4)
    else:
        assert one == other


@pytest.mark.parametrize(("scores", "num_tried"), [((90.0, 91.25, 91.0), 2), ((91.0, 0, 0), 1), ((80, 81, 82), 3)])
def test_quantization_search_returns_the_smallest_file_within_the_tolerance(scores, num_tried, tmp_path):
    def write(quantization):
        path = tmp_path / quantization
        path.write_bytes(bytes({"dynamic_int8": 1, "float16": 2, "float32": 4}[quantization]))
        return path

    score_by_name = dict(zip(("dynamic_int8", "float16", "float32"), scores, strict=True))
    candidates = search_quantization(write, lambda path: score_by_name[path.name], 91.5, 0.5)
    names = [candidate.quantization for candidate in candidates]
    assert names == ["dynamic_int8", "float16", "float32"][:num_tried]
    assert candidates[-1].bytes == {1: 1, 2: 2, 3: 4}[num_tried]
    assert candidates[0].drop == pytest.approx(91.5 - scores[0])


def test_scores_are_converted_to_points(references):
    answers, classes = references("question_answerer").task, references("classifier").task
    assert convert_to_points(answers, {"exact": 30.0, "f1": 47.9}) == 47.9  # SQuAD's script returns percent
    assert convert_to_points(classes, {"accuracy": 0.479}) == pytest.approx(47.9)


@pytest.mark.slow  # the next tests and `test_quantization_search_*` test its parts
def test_auto_exports_one_file_and_reports_the_candidates(exported, references, in_this_process):
    reference = references("classifier")
    texts = ["the cat sat", "every dog ran", "a red hat", "its mat .", "off with its hat ,", "Ünknown cat"] * 5
    labels = [answer["label"] for answer in Predictor(reference.model, reference.tokenizer, reference.task)(texts)]
    examples = [TextExample(text, label=label) for text, label in zip(texts, labels, strict=True)]
    settings = {"quantizations": ("auto",), "examples": examples, "tolerance": 20.0}
    parity = bk.export_model(exported / "classifier", exported / "auto", formats=["tflite"], **settings)
    [(name, report)] = parity["artifacts"].items()
    assert name == f"tflite/model_{report['scores']['tried'][-1]['quantization']}.tflite"
    assert report["scores"]["checkpoint"] == 100.0
    assert report["scores"]["file"] >= 80.0
    kept = name.removeprefix("tflite/")
    names = ["README.md", "labels.txt", "model.json", kept, "parity.json", "vocab.txt"]
    assert [path.name for path in sorted((exported / "auto/tflite").glob("[!.]*"))] == names
    model = json.loads((exported / "auto/tflite/model.json").read_text("utf-8"))
    assert [file["path"] for file in model["files"]] == [kept]
    readme = (exported / "auto/tflite/README.md").read_text("utf-8")
    assert set(re.findall(r"model_\w+\.tflite", readme)) == {kept}


def test_file_is_also_scored_with_the_mediapipe_tokenizer(references, exported):
    reference = references("classifier")
    texts = ["ÉVERY dog ran", "the mât sat on a rëd hât", "cat", "á dóg", "thé", "ŕan off"] * 3
    phone = reference.tokenizer.for_mediapipe()
    ours, theirs = (
        [answer["label"] for answer in Predictor(reference.model, tokenizer, reference.task)(texts)]
        for tokenizer in (reference.tokenizer, phone)
    )
    examples = [TextExample(text, label=label) for text, label in zip(texts, ours, strict=True)]
    path = exported / "out/tflite/model_float32.tflite"
    assert score_file(reference, path, LENGTH, examples) == 100
    expected = 100 * np.mean([one == other for one, other in zip(ours, theirs, strict=True)])
    assert score_file(reference, path, LENGTH, examples, phone) == pytest.approx(expected)
    assert expected < 100


@pytest.mark.slow  # `test_wrong_file_is_rejected` changes files in the same ways
@pytest.mark.parametrize("quantization", QUANTIZATIONS)
@pytest.mark.parametrize("fault", ["segments zeroed", "mask and segments swapped"])
def test_file_with_a_wrong_graph_is_rejected(fault, quantization, references, tmp_path, monkeypatch):
    reference = references("pair_classifier")
    GRAPHS[fault](monkeypatch, None)
    write_tflite(reference.model, tmp_path / "model.tflite", length=LENGTH, quantization=quantization)
    monkeypatch.undo()
    report = tflite_artifact.start_tflite_file_check(reference, tmp_path / "model.tflite").report()
    assert (report["passed"], report["measure"]) == (False, "max" if quantization == "float32" else "mean_relative")


@pytest.mark.parametrize(
    ("formats", "settings", "message"),
    [
        (["tflite"], {"pairs": True}, "pairs is only used by the format saved_model, and the formats are tflite"),
        (["tflite"], {"min_serving": "2.20"}, "min_serving is only used by the format saved_model"),
        (
            ["saved_model", "onnx"],
            {"tflite_length": 9},
            "formats are saved_model, onnx: leave it out, or add tflite",
        ),
        (["onnx"], {"tflite_lengths": (8, 9)}, "tflite_lengths is only used by the format tflite"),
        (["saved_model"], {"quantizations": ("float32",)}, "quantizations is only used by the format tflite or onnx"),
        (["saved_model"], {"examples": []}, "examples is only used by the format tflite"),
    ],
)
def test_settings_of_formats_that_are_not_exported_are_rejected(formats, settings, message, tmp_path):
    with pytest.raises(InputError, match=message):
        bk.export_model(tmp_path / "missing", tmp_path / "out", formats=formats, **settings)


def test_tolerance_is_rejected_without_the_quantization_search():
    with pytest.raises(InputError, match=r"a tolerance of 1.0 points was given, which only the quantization auto uses"):
        ExportSettings(tolerance=1.0, examples=[])
    assert ExportSettings(tolerance=1.0, examples=[], quantizations=("auto",)).tolerance == 1.0


def test_bad_settings_are_rejected(references, tmp_path):
    with pytest.raises(InputError, match="auto excludes others and needs labelled examples"):
        ExportSettings(quantizations=("auto",))
    reference = references("electra")
    with pytest.raises(InputError, match="ElectraPretrainer has no task to be scored in"):
        check_can_be_scored(reference, ExportSettings(examples=[]))
    with pytest.raises(InputError, match=f"length of TFLite files is 99; expected 3 to {LENGTH}"):
        ExportSettings(tflite_lengths=(8, 99)).check_lengths(reference.config.max_sequence_length)
    assert not tflite_artifact.runs_in_mediapipe(references("pair_classifier"))
    assert tflite_artifact.runs_in_mediapipe(references("embedder"))
    other = bk.BertTokenizer(["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]", "a"])
    assert not tflite_artifact.runs_in_mediapipe(Reference(references("embedder").model, other, None))
