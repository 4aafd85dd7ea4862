"""`--quantize auto` keeps the fastest 8-bit ONNX file that scores well and passes the parity check, and reports all."""

import dataclasses
import shutil

import onnx
import pytest

import bert_keras as bk
from bert_keras.errors import InputError
from bert_keras.export.export_job import ExportJob
from bert_keras.export.onnx import onnx_artifact, to_onnx
from bert_keras.export.onnx.onnx_artifact import search_onnx
from bert_keras.export.onnx.to_onnx import FLOAT32, INT8, write_onnx_folder
from bert_keras.export.settings import ExportSettings
from bert_keras.heads.classify.task import TextExample

NAMES = ["float32", "smoothed", "static", "per_token"]


@pytest.fixture(scope="module")
def examples(references):
    """Texts with the labels that the checkpoint gives them."""
    reference = references("classifier")
    ask = bk.Predictor(reference.model, reference.tokenizer, reference.task)
    texts = [f"number {number} of the texts" for number in range(40)]
    return [TextExample(text, label=answer["label"]) for text, answer in zip(texts, ask(texts), strict=True)]


@pytest.fixture
def copied(onnx_file, monkeypatch):
    """Let an export copy the ONNX file of `onnx_file`."""

    def copy(model, path):
        path.parent.mkdir(exist_ok=True)
        shutil.copy(onnx_file("classifier"), path)

    monkeypatch.setattr(to_onnx, "write_onnx", copy)


@pytest.fixture
def folder(references, tmp_path, copied):
    reference = references("classifier")
    write_onnx_folder(reference.model, reference.tokenizer, tmp_path, task=reference.task.settings())
    return tmp_path


def make_job(reference, examples, **settings):
    """Return an export whose search needs nothing but the checkpoint and the settings."""
    settings = ExportSettings(quantizations=("auto",), examples=examples, **settings)
    nothing = dict.fromkeys(("out", "stages", "checks", "publishing", "overwrite"))
    return ExportJob(reference=reference, settings=settings, **nothing)


def set_candidates(monkeypatch, **changes):
    """Replace the measured drop and time of candidates."""
    try_files = onnx_artifact._try_files

    def try_and_change(*arguments):
        return [dataclasses.replace(one, **changes[one.quantization]) for one in try_files(*arguments)]

    monkeypatch.setattr(onnx_artifact, "_try_files", try_and_change)


def find_int8_operators(folder):
    return {node.op_type for node in onnx.load(folder / INT8).graph.node}


def set_times(monkeypatch, times):
    set_candidates(
        monkeypatch, **{name: {"drop": drop, "ms_per_example": time} for name, (drop, time) in times.items()}
    )


def test_the_fastest_file_within_the_tolerance_is_kept(references, folder, examples, monkeypatch, in_this_process):
    times = {"float32": (0.0, 4.0), "smoothed": (0.4, 2.0), "static": (0.9, 1.0), "per_token": (0.1, 3.0)}
    set_times(monkeypatch, times)
    report = search_onnx(make_job(references("classifier"), examples), folder)
    assert (report["kept"], report["score"], report["checkpoint"]) == ("smoothed", "accuracy", 100)
    assert [(one["quantization"], one["passed"]) for one in report["tried"]] == [
        ("float32", None),
        ("smoothed", True),
        ("static", None),
        ("per_token", None),
    ]
    files = sorted(path.name for path in (folder / "onnx").iterdir())
    assert files == ["model.onnx", "model_quantized.onnx"]
    assert "DynamicQuantizeLinear" in find_int8_operators(folder)  # the fixed scales of "static" need none


def test_a_file_that_fails_the_parity_check_is_passed_over(references, folder, examples, monkeypatch, in_this_process):
    """The ranges of a few equal texts are too narrow for random ids: a mean difference of 0.4 standard deviations."""
    set_times(monkeypatch, {"float32": (0, 4.0), "smoothed": (0, 3.0), "static": (0, 1.0), "per_token": (0, 2.0)})
    report = search_onnx(make_job(references("classifier"), examples), folder)
    assert report["kept"] == "per_token"
    passed = {one["quantization"]: one["passed"] for one in report["tried"]}
    assert passed == {"float32": None, "smoothed": None, "static": False, "per_token": True}


def test_float32_is_kept_if_no_faster_file_passes(references, folder, examples, monkeypatch, in_this_process):
    set_times(monkeypatch, {"float32": (0, 2.0), "smoothed": (0, 3.0), "static": (0, 1.0), "per_token": (0, 4.0)})
    report = search_onnx(make_job(references("classifier"), examples), folder)
    assert report["kept"] == "float32"
    assert not (folder / INT8).exists()


def test_no_8_bit_file_is_written_if_none_scores_well_enough(references, folder, examples, monkeypatch):
    changes = {name: {"drop": 1.0, "ms_per_example": 1.0} for name in NAMES}
    set_candidates(monkeypatch, **changes)
    report = search_onnx(make_job(references("classifier"), examples), folder)
    assert report["kept"] == "float32"
    assert not (folder / INT8).exists()
    assert (folder / FLOAT32).exists()


def test_scores_and_sizes_are_those_of_the_files(references, folder, examples):
    report = search_onnx(
        make_job(references("classifier"), examples, calibration=examples[:5], tolerance=100.0), folder
    )
    float32, *others = report["tried"]
    assert (float32["score"], float32["drop"]) == (100, 0)
    assert float32["bytes"] == (folder / FLOAT32).stat().st_size
    assert all(one["bytes"] < float32["bytes"] and one["ms_per_example"] > 0 for one in others)
    assert all(one["drop"] == 100 - one["score"] for one in others)


def test_an_automatic_export_reports_its_candidates(references, examples, tmp_path, copied, in_this_process):
    reference = references("classifier")
    bk.save(reference.model, reference.tokenizer, tmp_path / "classifier", task=reference.task.settings())
    settings = {"quantizations": ("auto",), "examples": examples, "calibration": examples[:9], "tolerance": 100.0}
    report = bk.export_model(tmp_path / "classifier", tmp_path / "out", ["onnx"], **settings)
    scores = next(one["scores"] for one in report["artifacts"].values() if "scores" in one)
    assert [one["quantization"] for one in scores["tried"]] == NAMES


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"calibration": [1]}, "texts to calibrate on were given, which only the quantization auto uses"),
        (
            {"calibration": [], "quantizations": ("auto",), "examples": [1]},
            "there are no texts to calibrate on; expected",
        ),
        (
            {"quantizations": ("float16",)},
            "the quantization of onnx is 'float16'; expected auto: an ONNX folder always",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        ExportSettings(**settings).check_formats(["onnx"])
