"""A model is downloaded from the Hub with the real client: only the files that we read, once; errors are a sentence."""

import json
import os
import pathlib
import subprocess
import sys
import types

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.errors import InputError, MissingExtraError
from bert_keras.hub import downloading
from bert_keras.hub.downloading import ONNX_FLOAT32, ONNX_INT8, choose_files
from bert_keras.hub.names import parse_hub_name
from tests.checkpoints.tiny_folders import write_classifier
from tests.hub.hub_server import TOKEN, HubServer, Repository

ROOT = pathlib.Path(__file__).parents[2]
OTHERS = ["pytorch_model.bin", "tf_model.h5", "flax_model.msgpack", "rust_model.ot", "model.onnx", "onnx/model.onnx"]
OTHERS += [
    "optimizer.pt",
    "training_args.bin",
    "checkpoint-500/model.safetensors",
    ".gitattributes",
    "coreml/m.mlmodel",
]
OTHERS += [
    "coreml/m.mlmodel",
    "openvino/openvino_model.xml",
    "modeling.py",
    "logs/events.out.tfevents",
    "a.safetensors.bak",
]
READ = """
import json, sys
from bert_keras.checkpoints.reading import read_checkpoint, read_tokenizer_settings
from bert_keras.errors import InputError
found = {}
for name in sys.argv[1:]:
    try:
        if name.startswith("tokenizer:"):
            found[name] = len(read_tokenizer_settings(name.removeprefix("tokenizer:"))["vocabulary"])
        else:
            checkpoint = read_checkpoint(name)
            found[name] = [checkpoint.source, str(checkpoint), len(checkpoint.weights)]
    except InputError as error:
        found[name] = str(error)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def hub():
    with HubServer() as server:
        yield server


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_classifier(tmp_path_factory.mktemp("hub") / "classifier")


def read_files(folder):
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def read_in_process(*names, **environment):
    """Read models in a process without TensorFlow; return a description or the error of each."""
    command = [sys.executable, "-c", READ, *names]
    done = subprocess.run(command, env={**os.environ, **environment}, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# files of a folder of each kind, and others beside them
FOLDERS = {
    "transformers": ("config.json model.safetensors vocab.txt tokenizer.json README.md SHA256SUMS", "x.safetensors"),
    "ELECTRA": ("config.json model.safetensors generator/config.json generator/model.safetensors", ""),
    "shards": ("config.json model.safetensors.index.json model-1-of-2.safetensors model-2-of-2.safetensors", ""),
    "sentence-transformers": ("modules.json 1_Pooling/config.json 0_BERT/config.json 0_BERT/model.safetensors", ""),
    "Google": ("bert_config.json bert.ckpt.index bert.ckpt.data-00000-of-00001 vocab.txt", "bert.ckpt.meta"),
    "KerasHub": ("config.json metadata.json task.json model.weights.h5 assets/tokenizer/vocabulary.txt", ""),
}


@pytest.mark.parametrize("kind", FOLDERS)
def test_only_the_files_that_we_read_are_chosen(kind):
    chosen, others = (names.split() for names in FOLDERS[kind])
    assert sorted(choose_files(parse_hub_name("hf://me/model"), [*chosen, *OTHERS, *others])) == sorted(chosen)
    inside = [f"sub/{file}" for file in chosen]
    found = choose_files(parse_hub_name("hf://me/model/sub"), [*inside, "config.json", "model.safetensors"])
    assert sorted(found) == sorted(inside)


def test_a_tokenizer_is_chosen_without_weights_and_onnx_only_on_request():
    name, small = parse_hub_name("hf://me/model"), ["config.json", "vocab.txt"]
    files = [*small, "model.safetensors", "onnx/model.onnx"]
    assert choose_files(name, files, with_weights=False) == small
    assert choose_files(name, files, with_weights=False, onnx=ONNX_FLOAT32) == [*small, "onnx/model.onnx"]


def test_one_onnx_file_is_chosen_with_the_files_of_its_weights():
    data = ["onnx/model.onnx_data", "onnx/model.onnx_data_1", "onnx/model_quantized.onnx_data", "onnx/model_fp16.onnx"]
    files = ["config.json", "onnx/model.onnx", "onnx/model_quantized.onnx", "onnx/model_q4.onnx", *data]

    def choose(wanted, files=files):
        return choose_files(parse_hub_name("hf://me/model"), files, with_weights=False, onnx=wanted)[1:]

    assert choose(ONNX_FLOAT32) == ["onnx/model.onnx", "onnx/model.onnx_data", "onnx/model.onnx_data_1"]
    assert choose(ONNX_INT8) == ["onnx/model_quantized.onnx", "onnx/model_quantized.onnx_data"]
    assert choose(ONNX_FLOAT32, [*files, "model.onnx", "model.onnx.data"]) == ["model.onnx", "model.onnx.data"]
    with pytest.raises(
        InputError, match=r"has only the ONNX files onnx/model\.onnx; expected onnx/model_quantized\.onnx"
    ):
        choose(ONNX_INT8, files[:2])
    with pytest.raises(InputError, match=r"has no ONNX file; expected onnx/model\.onnx: push it with --artifacts"):
        choose(ONNX_FLOAT32, ["config.json", "model.safetensors"])


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["config.json", "pytorch_model.bin"], r"has its weights in pytorch_model\.bin, which can run code"),
        (["README.md", "config.json"], r"has only README\.md, config\.json; expected model\.safetensors"),
        ([], r"has no files: check the name"),
    ],
)
def test_a_repository_without_a_model_that_we_read_is_refused_before_a_download(files, message):
    with pytest.raises(InputError, match=rf"^hf://me/model {message}"):
        choose_files(parse_hub_name("hf://me/model"), files)


def test_a_model_is_downloaded_once_without_other_files_and_then_read_offline(hub, folder, tmp_path, monkeypatch):
    files = read_files(folder)
    hub.repositories["me/classifier"] = Repository({**files, **dict.fromkeys(OTHERS, b"not ours")})
    name = "hf://me/classifier"
    environment = hub.environment(tmp_path)
    [source, shown, num_weights] = read_in_process(name, **environment)[name]
    assert (shown, num_weights) == (name, len(read_checkpoint(folder).weights))
    assert read_files(pathlib.Path(source)) == files
    num_requests = len(hub.requests)
    assert read_in_process(name, **environment)[name] == [source, shown, num_weights]
    assert not any("resolve" in path for _, path, _ in hub.requests[num_requests:]), "files were downloaded again"
    nobody = {**environment, "HF_ENDPOINT": "http://127.0.0.1:9"}
    assert read_in_process(name, **nobody)[name] == [source, shown, num_weights]
    constants = pytest.importorskip("huggingface_hub.constants")
    assert constants.HF_HUB_OFFLINE
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    batch = {"token_ids": np.array([[2, 6, 7, 3]]), "padding_mask": np.ones((1, 4), "int32")}
    loaded, original = bk.load(name)(batch), bk.load(folder)(batch)
    np.testing.assert_array_equal(loaded["logits"], original["logits"])
    assert bk.load_tokenizer(name).vocabulary == bk.load_tokenizer(folder).vocabulary
    assert bk.Predictor.from_checkpoint(name)(["a b"]) == bk.Predictor.from_checkpoint(folder)(["a b"])


def test_a_subfolder_and_a_branch_with_a_slash_are_read_offline_if_their_weights_are_in_the_cache(
    hub, folder, tmp_path
):
    files = read_files(folder)
    hub.repositories["me/folders"], hub.repositories["me/half"] = repository, _ = Repository(), Repository(files)
    repository.branches["feature/v2"] = []
    inside = {f"sub/{name}": content for name, content in files.items()}
    repository.commit("feature/v2", {"config.json": b"of another model", **inside}, "v2")
    names = ["hf://me/folders@feature%2Fv2/sub", "tokenizer:hf://me/half"]
    environment = hub.environment(tmp_path)
    online = read_in_process(*names, **environment)
    assert online[names[0]][1:] == [names[0], len(read_checkpoint(folder).weights)]
    assert read_files(pathlib.Path(online[names[0]][0])) == files
    found = read_in_process(*names, "hf://me/half", **{**environment, "HF_HUB_OFFLINE": "1"})
    assert found.pop("hf://me/half").startswith("hf://me/half is only partly in the cache, and HF_HUB_OFFLINE is set; ")
    assert found == online


def test_a_cache_that_cannot_be_read_is_reported_and_not_blamed_on_the_hub(hub, folder, tmp_path):
    hub.repositories["me/cached"] = Repository(read_files(folder))
    (tmp_path / "hub/models--me--cached").mkdir(parents=True)
    snapshots = tmp_path / "hub/models--me--cached/snapshots"
    snapshots.write_text("")
    found = read_in_process("hf://me/cached", **hub.environment(tmp_path))["hf://me/cached"]
    assert found.startswith(f"hf://me/cached: {snapshots} cannot be read or written (Not a directory); expected")


def test_errors_of_the_hub_are_one_sentence_without_the_token(hub, folder, tmp_path):
    files = read_files(folder)
    hub.repositories["me/open"] = Repository(files)
    hub.repositories["me/secret"] = Repository(files, private=True)
    hub.repositories["me/gated"] = Repository(files, gated=True)
    hub.repositories["me/pickle"] = Repository({"config.json": b"{}", "pytorch_model.bin": b"pickle"})
    names = ["hf://me/open@v9", "hf://me/none", "hf://me/secret", "hf://me/gated", "hf://me/pickle", "hf://me/open"]
    found = read_in_process(*names, "tokenizer:hf://me/open", **hub.environment(tmp_path, token=None))
    assert "hf://me/open@v9 has no such revision" in found["hf://me/open@v9"]
    for name in ("hf://me/none", "hf://me/secret"):
        assert found[name].startswith(f"{name} is not a model on the Hugging Face Hub, or it is private; expected")
        assert found[name].endswith("check the name, or log in with  hf auth login  or set HF_TOKEN")
    assert found["hf://me/gated"].startswith("hf://me/gated is gated: its owners allow access to users who asked")
    assert "pytorch_model.bin" in found["hf://me/pickle"]
    assert len(found["hf://me/open"]) == 3
    assert found["tokenizer:hf://me/open"] == 13
    found = read_in_process(*names, "hf://you/x", **hub.environment(tmp_path / "2", token=TOKEN[:-1] + "!"))
    assert len(found["hf://me/open"]) == 3  # public
    assert "use a token that may read it" in found["hf://me/secret"]
    assert TOKEN[:-1] not in json.dumps(found)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_hub_that_is_down_is_reported(hub, folder, tmp_path, method):
    hub.repositories["me/down"] = Repository(read_files(folder))
    hub.fail.append((method, "/me/down", 503))
    try:
        found = read_in_process("hf://me/down", **hub.environment(tmp_path))["hf://me/down"]
    finally:
        hub.fail.clear()
    assert "the Hugging Face Hub cannot be reached" in found


@pytest.mark.slow
def test_a_private_model_is_read_with_the_token(hub, folder, tmp_path):
    hub.repositories["me/mine"] = Repository(read_files(folder), private=True)
    assert len(read_in_process("hf://me/mine", **hub.environment(tmp_path))["hf://me/mine"]) == 3


@pytest.mark.slow
def test_requests_name_no_other_package_unless_the_user_allows_it(hub, folder, tmp_path):
    hub.repositories["me/agents"] = Repository(read_files(folder))
    hub.user_agents.clear()
    read_in_process("hf://me/agents", **hub.environment(tmp_path))
    assert any("bert-keras/" in agent for agent in hub.user_agents)
    assert not any("torch/" in agent for agent in hub.user_agents), hub.user_agents
    hub.user_agents.clear()
    read_in_process("hf://me/agents", **hub.environment(tmp_path / "2"), HF_HUB_DISABLE_TELEMETRY="0")
    assert any("torch/" in agent for agent in hub.user_agents), "the test would not notice"


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr("bert_keras.extras.is_installed", lambda package: False)
    with pytest.raises(MissingExtraError, match=r"loading hf://me/model needs .*pip install 'bert-keras\[hub\]'"):
        read_checkpoint("hf://me/model")


def test_a_path_is_read_without_the_client(folder, monkeypatch):
    monkeypatch.setattr(downloading, "open_hub", types.SimpleNamespace)  # not callable with an argument
    assert read_checkpoint(folder).hub_name is None
