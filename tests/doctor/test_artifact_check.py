"""Damaged artifacts: every fault is found, with its fix."""

import json
import re
import shutil

import onnx
import pytest

import bert_keras as bk
from bert_keras.doctor.examination import examine_path
from bert_keras.publishing import publish_folder
from tests.made_once import made_once


def write_onnx(path):
    """Write an ONNX file that returns its input."""
    ids = onnx.helper.make_tensor_value_info("input_ids", onnx.TensorProto.INT32, [1])
    out = onnx.helper.make_tensor_value_info("logits", onnx.TensorProto.INT32, [1])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["input_ids"], ["logits"])], "g", [ids], [out])
    path.parent.mkdir(parents=True)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9), path)


@pytest.fixture
def artifacts(tmp_path_factory, tmp_path):
    """A copy of a folder as export writes it for an ONNX file, with a graph that takes no time."""

    def make(out):
        out.mkdir()
        with publish_folder(out / "onnx", "export") as folder:
            write_onnx(folder / "onnx/model.onnx")
            (folder / "vocab.txt").write_text("[PAD]\n")
            num_bytes = (folder / "onnx/model.onnx").stat().st_size
            files = [{"path": "onnx/model.onnx", "bytes": num_bytes}]
            description = {"format": 1, "files": files, "tokenizer": {"vocabulary": "vocab.txt"}}
            (folder / "model.json").write_text(json.dumps(description))
        reports = {"onnx/onnx/model.onnx": {"passed": True, "bytes": num_bytes, "num_inputs": 24}}
        (out / "parity.json").write_text(json.dumps({"artifacts": reports}))

    shutil.copytree(made_once(tmp_path_factory, "doctor_artifacts", make), tmp_path / "out")
    return tmp_path / "out"


def edit_report(folder, **changes):
    report = json.loads((folder / "parity.json").read_text())
    report["artifacts"]["onnx/onnx/model.onnx"].update(changes)
    (folder / "parity.json").write_text(json.dumps(report))


def damage(path):
    """Overwrite the middle of a file; its size stays the same."""
    content = bytearray(path.read_bytes())
    content[8:-8] = b"\xff" * (len(content) - 16)
    path.write_bytes(content)


FAULTS = {
    "no parity.json": (
        lambda folder: (folder / "parity.json").unlink(),
        [r"model\.onnx: no parity\.json has a report .* \| run  bert-keras verify .*model\.onnx CHECKPOINT  or "],
    ),
    "parity failed": (
        lambda folder: edit_report(folder, passed=False),
        [r"model\.onnx: out/parity\.json says that it differs .* \| do not use it; export the checkpoint again"],
    ),
    "other file": (
        lambda folder: edit_report(folder, bytes=7),
        [r"model\.onnx: it has [\d,]+ bytes; out/parity\.json is of a file with 7 \| copy it again"],
    ),
    "damaged file": (
        lambda folder: damage(folder / "onnx/onnx/model.onnx"),
        [r"model\.onnx: .* does not run in a fresh process: .* \| copy it again from its source, or export"],
    ),
    "deleted vocabulary": (
        lambda folder: (folder / "onnx/vocab.txt").unlink(),
        [
            r"files: .*onnx lacks 1 file that export wrote: vocab\.txt \| copy the whole folder again, or run  bert-",
            r"model\.json: .*vocab\.txt is missing, .*: copy the whole folder again",
        ],
    ),
    "deleted artifact": (
        lambda folder: (folder / "onnx/onnx/model.onnx").unlink(),
        [
            r"files: .*onnx lacks 1 file that export wrote: onnx/model\.onnx \| copy",
            r"artifact: .*contains no artifact; expected",
            r"model\.json: .*model\.onnx is missing; .*copy the whole folder again",
        ],
    ),
    "newer model.json": (
        lambda folder: (folder / "onnx/model.json").write_text('{"format": 2}'),
        [r"model\.json: .*has the format 2; expected 1: export the checkpoint again"],
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_an_artifact_is_found_and_its_fix_is_named(fault, artifacts, find_faults):
    seed, patterns = FAULTS[fault]
    seed(artifacts)
    faults = find_faults(artifacts)
    assert len(faults) == len(patterns), faults
    for pattern, line in zip(patterns, faults, strict=True):
        assert re.search(pattern, line), line


@pytest.mark.parametrize("part", [".", "onnx", "onnx/onnx/model.onnx"])
def test_a_sound_artifact_is_opened_in_its_runtime(part, artifacts):
    [section] = examine_path(artifacts / part)
    assert {item.mark for item in section.items} == {"ok"}, section.items
    texts = [item.text for item in section.items]
    assert any(text.startswith("parity check passed on 24 inputs") for text in texts)
    assert any(re.fullmatch(r"opens in [\d.]+ s, inputs input_ids", text) for text in texts)


def test_the_output_of_another_command_is_checked_by_its_list_of_files(tmp_path, find_faults):
    with publish_folder(tmp_path / "page", "inspect") as folder:
        (folder / "index.html").write_text("")
    assert find_faults(tmp_path / "page") == []
    (tmp_path / "page/index.html").unlink()
    [fault] = find_faults(tmp_path / "page")
    assert "run  bert-keras inspect  again" in fault


@pytest.mark.slow
def test_damaged_files_of_a_real_export_are_found(make_model, tmp_path, find_faults):
    words = [f"w{number}" for number in range(92)]
    tokenizer = bk.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])
    bk.save(make_model("classifier"), tokenizer, tmp_path / "model")
    out = tmp_path / "out"
    bk.export_model(tmp_path / "model", out, formats=["saved_model", "tflite", "onnx"])
    [section] = examine_path(out)
    assert {item.mark for item in section.items} == {"ok"}, section.items
    damage(out / "tflite/model_float32.tflite")
    damage(out / "saved_model/1/saved_model.pb")
    faults = find_faults(out)
    assert [line.split(":")[0] for line in faults] == ["saved_model/1", "tflite/model_float32.tflite"]
    assert all("does not run in a fresh process" in line and "copy it again" in line for line in faults)
