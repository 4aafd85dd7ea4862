"""`deploy/`: which files it contains, their names and commands, and how `export` publishes it."""

import json
import pathlib
import re
import subprocess
import sys

import pytest

import bert_keras as bk
from bert_keras.errors import InputError
from bert_keras.export.deployment_bundle import make_dns_name
from bert_keras.export.settings import ExportSettings
from tests.commands import run_cli
from tests.export.conftest import KINDS
from tests.export.deployment.conftest import NAME
from tests.marks import slow_except

IDS_FILES = {"README.md", "docker/triton.Dockerfile", "request_ids.json", f"triton/{NAME}_ids/config.pbtxt"}
TEXT_FILES = {"docker/Dockerfile", "kubernetes.yaml", "kserve.yaml", "request.json"}
TEXT_FILES |= {f"triton/{NAME}/config.pbtxt", f"triton/{NAME}/1/model.py"}
WITHOUT_TASK = ("encoder", "pretrainer", "electra")  # which `bert-keras serve` cannot serve
QUICK = ["classifier", "encoder"]


def list_files(folder: pathlib.Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("kind", slow_except(KINDS, quick=QUICK))
def test_files_for_texts_exist_if_the_server_can_answer_them(kind, deployed):
    files = list_files(deployed(kind) / "deploy")
    assert files == (IDS_FILES if kind in WITHOUT_TASK else IDS_FILES | TEXT_FILES)


@pytest.mark.parametrize("kind", WITHOUT_TASK[:1])
def test_the_server_cannot_serve_a_model_without_files_for_texts(kind, deployed):
    with pytest.raises(InputError, match=r"has no task head"):
        bk.Predictor.from_artifact(deployed(kind) / "onnx")


@pytest.mark.parametrize("kind", QUICK)
def test_readme_lists_every_file_and_its_commands_name_existing_files(kind, deployed):
    out = deployed(kind)
    readme = (out / "deploy/README.md").read_text("utf-8")
    first_cells = re.findall(r"^\| (`.+?`) \|", readme, re.MULTILINE)
    listed = {name for cell in first_cells for name in re.findall(r"`([^`]+)`", cell)}
    files = list_files(out / "deploy") - {"README.md"}
    assert all(any(file == name or file.startswith(name) for name in listed) for file in files)
    assert all((out / "deploy" / name).exists() for name in listed)
    named = re.findall(r"(?:-f |-d @)(deploy/\S+)", readme)
    assert named
    assert all((out / name).is_file() for name in named)
    assert "$" not in readme


def test_files_contain_no_local_paths(deployed):
    out = deployed("classifier")
    for path in (out / "deploy").rglob("*.*"):
        if path.is_file():
            text = path.read_text("utf-8")
            assert not any(str(folder) in text for folder in (out, pathlib.Path.cwd(), pathlib.Path.home()))


@pytest.mark.parametrize(
    "kind",
    slow_except(
        ["classifier", "pair_classifier", "null_answerer", "masked_lm"], quick=["classifier", "pair_classifier"]
    ),
)
def test_example_request_has_the_inputs_of_the_task(kind, deployed):
    request = json.loads((deployed(kind) / "deploy/request.json").read_text("utf-8"))
    predictor = bk.Predictor.from_artifact(deployed(kind) / "onnx")
    columns = {entry["name"]: entry["data"] for entry in request["inputs"]}
    assert tuple(columns) == predictor.task.input_names
    assert all((entry["datatype"], entry["shape"]) == ("BYTES", [2, 1]) for entry in request["inputs"])
    texts = list(zip(*columns.values(), strict=True))
    assert len(predictor([text if len(text) > 1 else text[0] for text in texts])) == 2


def test_example_request_with_ids_has_the_inputs_of_the_file(deployed):
    request = json.loads((deployed("classifier") / "deploy/request_ids.json").read_text("utf-8"))
    assert [entry["name"] for entry in request["inputs"]] == ["input_ids", "attention_mask", "token_type_ids"]
    assert all((entry["datatype"], entry["shape"]) == ("INT64", [2, 3]) for entry in request["inputs"])
    assert all(len(entry["data"]) == 6 for entry in request["inputs"])


@pytest.mark.parametrize(
    ("name", "dns_name"),
    [
        ("reviews", "reviews"),
        ("My_Model.v2", "my-model-v2"),
        ("2nd", "model-2nd"),
        ("a--b_", "a-b"),
        ("x" * 39 + "-yz", "x" * 39),
    ],
)
def test_names_are_valid_in_kubernetes(name, dns_name):
    assert make_dns_name(name) == dns_name
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", dns_name)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "-a", "ä"])
def test_model_name_must_be_valid_in_a_url(name):
    with pytest.raises(InputError, match=rf"model's name is {name!r}; expected letters"):
        ExportSettings(model_name=name)


def test_written_python_has_no_lint(deployed, tmp_path):
    command = [sys.executable, "-m", "ruff"]
    file = str(deployed("classifier") / f"deploy/triton/{NAME}/1/model.py")
    for verb in (
        ["check", "--select", "B,C4,E,F,I,UP,W", "--config", "lint.isort.known-first-party=['bert_keras']"],
        ["format", "--check"],
    ):
        done = subprocess.run(
            [*command, *verb, "--line-length", "120", "--no-cache", file], capture_output=True, text=True, cwd=tmp_path
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_export_writes_deploy_with_the_name_of_the_model(references, tmp_path):
    reference = references("classifier")
    bk.save(reference.model, reference.tokenizer, tmp_path / "classifier", task=reference.task.settings())
    bk.export_model(tmp_path / "classifier", tmp_path / "out", formats=["onnx"], model_name="bunt")
    assert (tmp_path / "out/deploy/triton/bunt/1/model.py").is_file()
    listing = json.loads((tmp_path / "out/deploy/.bert_keras.json").read_text())
    assert listing["written_by"] == "export"
    with pytest.raises(InputError, match=r"out/onnx exists and is not empty"):
        bk.export_model(tmp_path / "classifier", tmp_path / "out", formats=["onnx"])
    (tmp_path / "out/deploy/notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"deploy holds notes.txt, which export did not write"):
        bk.export_model(tmp_path / "classifier", tmp_path / "out", formats=["onnx"], overwrite=True)
    (tmp_path / "out/deploy/notes.txt").unlink()
    bk.export_model(tmp_path / "classifier", tmp_path / "out", formats=["onnx"], overwrite=True)
    assert (tmp_path / "out/deploy/triton/classifier/1/model.py").is_file()
    assert not (tmp_path / "out/deploy/triton/bunt").exists()


@pytest.mark.slow
def test_command_names_the_readme(references, tmp_path):
    reference = references("encoder")
    bk.save(reference.model, reference.tokenizer, tmp_path / "encoder")
    done = run_cli("export", "encoder", "out", "--to", "onnx", "--model-name", "bunt", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "commands to serve it: out/deploy/README.md" in done.stdout + done.stderr
    assert (tmp_path / "out/deploy/README.md").read_text("utf-8").startswith("# Deploying bunt\n")
