"""Artifacts are pushed under the names that clients expect, if the parity report says that they equal the model."""

import json
import shutil

import pytest

from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.errors import InputError
from bert_keras.export.pushing.pushed_files import find_artifact_files
from bert_keras.files import compute_digest, read_json, write_json

ARTIFACTS = ("onnx/onnx/model.onnx", "onnx/onnx/model_quantized.onnx", "tflite/model_float32.tflite")
SAVED_MODELS = ("saved_model/2", "saved_model/10")


@pytest.fixture
def checkpoint(folder):
    return read_checkpoint(folder)


@pytest.fixture
def out(folder, tmp_path):
    """The output folder of an export; the artifacts are texts."""
    out = tmp_path / "artifacts"
    for place in ("onnx", "tflite", *(f"{name}/assets.extra/model" for name in SAVED_MODELS)):
        (out / place).mkdir(parents=True)
        for name in ("config.json", "vocab.txt", "tokenizer_config.json"):
            shutil.copy(folder / name, out / place / name)
    (out / "onnx/onnx").mkdir()
    reports = {}
    for name in ARTIFACTS:
        (out / name).write_text(name)
        reports[name] = {"passed": True, "bytes": len(name)}
    for name in SAVED_MODELS:
        (out / name / "saved_model.pb").write_text(name)
        size = sum(path.stat().st_size for path in (out / name).rglob("*") if path.is_file())
        reports[name] = {"passed": True, "bytes": size}
        (out / name / ".bert_keras.json").write_text("{}")  # these two are written after the check
        (out / name / "assets.extra/parity.json").write_text("{}")
    (out / "tflite/README.md").write_text("# on devices")
    (out / "tflite/mine.txt").write_text("private")
    (out / "deploy").mkdir()
    (out / "deploy/values.yaml").write_text("private")
    write_json(out / "parity.json", {"checkpoint": "/home/me/secret/place", "artifacts": reports})
    return out


def change_report(out, name, **values):
    report = read_json(out / "parity.json")
    report["artifacts"][name] |= values
    write_json(out / "parity.json", report)


def test_onnx_and_tflite_files_get_the_names_that_clients_expect(out, checkpoint):
    found = find_artifact_files(out, checkpoint)
    places = {"onnx/model.onnx": 0, "onnx/model_quantized.onnx": 1, "tflite/model_float32.tflite": 2}
    assert {name: found.files[name].read_text() for name in places} == {
        name: ARTIFACTS[number] for name, number in places.items()
    }
    assert set(found.files) == {*places, "tflite/README.md", "tflite/vocab.txt", "parity.json"}
    assert found.artifacts == sorted(places)
    assert found.left_out == sorted(SAVED_MODELS)
    report = json.loads(found.files["parity.json"])
    assert sorted(report["artifacts"]) == sorted(places)
    assert "secret" not in found.files["parity.json"].decode()


def test_the_newest_saved_model_is_pushed_on_request(out, checkpoint):
    found = find_artifact_files(out, checkpoint, with_saved_model=True)
    assert found.files["saved_model/10/saved_model.pb"] == out / "saved_model/10/saved_model.pb"
    assert "saved_model/10/assets.extra/parity.json" in found.files
    assert not any(name.startswith("saved_model/2/") or "/." in name for name in found.files)
    assert found.left_out == ["saved_model/2"]


def test_a_saved_model_that_is_not_there_is_not_left_out_silently(out, checkpoint):
    for name in SAVED_MODELS:
        shutil.rmtree(out / name)
    assert find_artifact_files(out, checkpoint).artifacts
    with pytest.raises(
        InputError, match=r"artifacts has no SavedModel with a parity report; expected saved_model/VERSION"
    ):
        find_artifact_files(out, checkpoint, with_saved_model=True)


def test_artifacts_without_a_parity_report_are_refused(out, checkpoint, tmp_path):
    with pytest.raises(InputError, match="nothing does not exist; expected an output folder of bert-keras export"):
        find_artifact_files(tmp_path / "nothing", checkpoint)
    report = read_json(out / "parity.json")
    del report["artifacts"][ARTIFACTS[1]]
    write_json(out / "parity.json", report)
    with pytest.raises(InputError, match=r"parity\.json has no report of onnx/onnx/model_quantized\.onnx"):
        find_artifact_files(out, checkpoint)
    (out / "parity.json").unlink()
    with pytest.raises(InputError, match=r"has no parity\.json, so nothing shows that its artifacts equal"):
        find_artifact_files(out, checkpoint)


@pytest.mark.parametrize("passed", [False, None, "yes"])
def test_artifacts_that_failed_the_parity_check_are_refused(out, checkpoint, passed):
    change_report(out, ARTIFACTS[2], passed=passed)
    with pytest.raises(InputError, match=r"says that tflite/model_float32\.tflite differs from the checkpoint"):
        find_artifact_files(out, checkpoint)


def test_an_artifact_that_was_changed_after_its_check_is_refused(out, checkpoint):
    (out / ARTIFACTS[0]).write_text("other weights")
    with pytest.raises(InputError, match=r"model\.onnx has 13 bytes, and 20 when it was compared with the checkpoint"):
        find_artifact_files(out, checkpoint)


def test_artifacts_of_other_weights_are_refused(out, checkpoint, folder):
    weights = compute_digest(folder / "model.safetensors")["sha256"]
    change_report(out, ARTIFACTS[0], weights_sha256=weights)
    change_report(out, ARTIFACTS[1], weights_sha256=None)  # of an export of release 0.1
    find_artifact_files(out, checkpoint)
    change_report(out, ARTIFACTS[2], weights_sha256="0" * 64)
    with pytest.raises(InputError, match=r"model_float32\.tflite was exported from other weights than those of"):
        find_artifact_files(out, checkpoint)


def test_artifacts_of_a_checkpoint_with_another_vocabulary_are_refused(out, checkpoint):
    words = (out / "onnx/vocab.txt").read_text().replace("##a", "##b")
    (out / "onnx/vocab.txt").write_text(words)
    with pytest.raises(InputError, match=r"model\.onnx has another vocabulary than .*: export the checkpoint again"):
        find_artifact_files(out, checkpoint)


def test_a_trimmed_vocabulary_is_pushed_only_with_tflite_which_has_its_own(out, checkpoint):
    (out / "tflite/vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]))
    change_report(out, ARTIFACTS[2], trimmed_vocabulary={})
    assert find_artifact_files(out, checkpoint).files["tflite/vocab.txt"] == out / "tflite/vocab.txt"
    shutil.copy(out / "tflite/vocab.txt", out / "onnx/vocab.txt")
    change_report(out, ARTIFACTS[0], trimmed_vocabulary={})
    with pytest.raises(InputError, match="because it was exported with --trim-vocabulary"):
        find_artifact_files(out, checkpoint)


def test_a_folder_without_files_to_push_is_refused(out, checkpoint):
    shutil.rmtree(out / "onnx")
    shutil.rmtree(out / "tflite")
    with pytest.raises(InputError, match="has no ONNX or TFLite file to push"):
        find_artifact_files(out, checkpoint)
