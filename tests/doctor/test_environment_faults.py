"""Faults of an installation, seeded as metadata of packages, variables and files, are found and their fix is named."""

import importlib.metadata
import json
import re

import pytest

from bert_keras.doctor.versions import Environment, check_conflicts, read_keras_settings
from bert_keras.extras import Processor

from .conftest import run_doctor, write_distribution

FAULTS = {  # name: pattern of the line of the fault, with its fix
    "tensorflow-text 2.21.0": r"2\.21\.0: this release cannot be imported \| pip install 'tensorflow-text>=2\.21\.1,<2",
    "wrong version": r"tensorflow-text: 2\.21\.0  is outside the supported >=2\.21\.1,<2\.22 \| pip install",
    "mismatch": r"tensorflow 2\.20\.1 with tensorflow-text 2\.21\.0, .* \| pip install '?tensorflow>=2\.21,<2\.22'? ",
    "protobuf": r"protobuf: tensorflow 2\.20\.1 requires protobuf<4, and [\d.]+ is installed \| pip install",
    "numpy 1": r"numpy 1\.26\.4 is installed, .* \| pip install 'numpy>=2\.0,<3'",
    "keras 2": r"keras 2\.15\.0 is installed, .* \| pip install 'keras>=3\.12,<3\.16'",
    "missing package": r"frobnicate: missing  \(>=1\) \| pip install 'frobnicate>=1'",
    "missing dependency": r"quux: tokenizers 0\.22\.1 requires quux>=2, and is missing \| pip install 'tokenizers>=0",
    "two distributions": r"tensorflow and tf-nightly are installed .* \| pip uninstall tensorflow tf-nightly  and then",
    "Python": r"Python: 3\.\d+\.\S+  is outside the supported >=3\.99 \| install Python >=3\.99, and bert-keras in it",
    "legacy Keras": r"TF_USE_LEGACY_KERAS is '1': .* \| unset TF_USE_LEGACY_KERAS",
    "backend": r"KERAS_BACKEND is 'torch'; expected tensorflow or jax.* \| set KERAS_BACKEND=tensorflow",
    "floatx": r"sets floatx to 'float64'.* \| set \"floatx\" to \"float32\"",
    "module": r"keras\.py: in the current folder, hides the package keras .* \| rename keras\.py, or start Python in",
    "package": r"tokenizers/: in the current folder, hides the package tokenizers .* \| rename tokenizers/, or",
    "clone": r"bert_keras/: in the current folder, hides the package bert_keras .* in a clone, run  pip install -e \.",
    "PYTHONPATH": r"~/packages hides other versions: .*numpy 1\.26\.4 instead of .* \| unset PYTHONPATH",
}


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """The report of an environment with all of `FAULTS`, in the home folder of a user."""
    home = tmp_path_factory.mktemp("home") / "mallory"
    packages = home / "packages"
    write_distribution(packages, "tensorflow-text", "2.21.0")
    write_distribution(packages, "tensorflow", "2.20.1", "protobuf<4")
    write_distribution(packages, "tf-nightly", "2.22.0.dev1")
    write_distribution(packages, "numpy", "1.26.4")
    write_distribution(packages, "keras", "2.15.0")
    write_distribution(packages, "tokenizers", "0.22.1", "quux>=2", "invalid requirement !")
    requires = [*importlib.metadata.requires("bert-keras"), "frobnicate>=1", "nothing>=1; extra == 'onnx'"]
    write_distribution(packages, "bert-keras", "0.2.0", *requires)
    with open(packages / "bert_keras-0.2.0.dist-info/METADATA", "a") as file:
        file.write("Provides-Extra: onnx\nRequires-Python: >=3.99\n")
    (home / "keras.json").write_text(json.dumps({"floatx": "float64"}))
    for name in ("keras.py", "random.py", "tokenizers/__init__.py", "bert_keras/__init__.py", "numpy/notes.txt"):
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).touch()
    secrets = {"HF_TOKEN": "abracadabra", "PIP_INDEX_PASSWORD": "sesame-open"}
    paths = f"{packages}:/srv/abracadabra/lib"
    variables = {"PYTHONPATH": paths, "TF_USE_LEGACY_KERAS": "1", "KERAS_BACKEND": "torch", "KERAS_HOME": str(home)}
    return run_doctor("--no-self-test", "--json", cwd=home, HOME=str(home), **variables, **secrets), home


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_and_its_fix_is_named(fault, broken):
    report, _ = broken
    assert report.status == 1, report.stderr
    found = [line for line in report.faults if re.search(FAULTS[fault], line)]
    assert len(found) == 1, "\n".join(report.faults)


def test_the_message_counts_the_faults(broken):
    report, _ = broken
    assert report.stderr == f"bert-keras doctor: found {len(report.faults)} faults: see the lines marked FAULT\n"
    assert json.loads(report.stdout)["num_faults"] == len(report.faults)


def test_notes_are_no_faults(broken):
    report, _ = broken
    notes = [f"{item['name']}: {item['text']}" for item in report.items if item["mark"] == "note"]
    assert "[onnx] nothing: missing: pip install 'bert-keras[onnx]'" in notes
    assert any(note.startswith("random.py: in the current folder, hides Python's own random") for note in notes)
    assert not any("notes.txt" in line or "numpy/" in line for line in report.faults)


def test_a_report_has_no_private_names(broken):
    report, home = broken
    assert "~/packages" in report.stdout
    for private in (str(home), "mallory", "abracadabra", "sesame-open"):
        assert private not in report.stdout


def test_a_healthy_environment_has_no_fault(tmp_path):
    names = ("PYTHONPATH", "KERAS_BACKEND", "TF_USE_LEGACY_KERAS")
    report = run_doctor("--no-self-test", "--json", cwd=tmp_path, KERAS_HOME=str(tmp_path), **dict.fromkeys(names))
    assert report.faults == []
    assert (report.status, report.stderr) == (0, "")
    versions = {item["name"]: item["text"] for item in report.items}
    assert versions["tensorflow"].startswith(importlib.metadata.version("tensorflow"))


@pytest.fixture
def make_environment():
    def make(variables=None, settings=None, features=()):
        return Environment(variables or {}, settings or {}, Processor("a processor", features))

    return make


def test_a_backend_in_keras_json_is_found(make_environment, tmp_path, monkeypatch):
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    (tmp_path / "keras.json").write_text('{"backend": "jax"}')
    settings = read_keras_settings({"KERAS_HOME": str(tmp_path)})
    [fault] = check_conflicts(make_environment({"KERAS_HOME": str(tmp_path)}, settings)).items
    assert (fault.mark, fault.text) == ("FAULT", f"{tmp_path}/keras.json sets the backend to 'jax'")
    assert "set KERAS_BACKEND=tensorflow" in fault.fix
    [item] = check_conflicts(make_environment({"KERAS_BACKEND": "tensorflow"}, settings)).items
    assert item.mark == "ok"


def test_only_the_given_variables_are_checked(make_environment, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    [item] = check_conflicts(make_environment()).items
    assert item.mark == "ok"
    monkeypatch.delenv("KERAS_BACKEND")
    [fault] = check_conflicts(make_environment({"KERAS_BACKEND": "torch"})).items
    assert fault.text.startswith("KERAS_BACKEND is 'torch'; expected tensorflow or jax")


@pytest.mark.parametrize("content", [None, "{", "[]"])
def test_keras_json_that_keras_ignores_is_ignored(content, tmp_path):
    if content is not None:
        (tmp_path / "keras.json").write_text(content)
    assert read_keras_settings({"KERAS_HOME": str(tmp_path)}) == {}


@pytest.mark.parametrize(("features", "is_found"), [(("AVX2", "AMX"), True), (("AVX2",), False)])
def test_old_onnxruntime_is_found_on_processors_with_amx(features, is_found, make_environment, tmp_path, monkeypatch):
    from bert_keras.doctor import versions

    write_distribution(tmp_path, "onnxruntime", "1.23.1")
    monkeypatch.syspath_prepend(tmp_path)
    versions.read_version.cache_clear()
    try:
        items = check_conflicts(make_environment(features=features)).items
    finally:
        versions.read_version.cache_clear()
    faults = [item for item in items if item.name == "onnxruntime and AMX"]
    assert len(faults) == is_found
    assert all("8-bit numbers wrongly" in item.text and "pip install" in item.fix for item in faults)
