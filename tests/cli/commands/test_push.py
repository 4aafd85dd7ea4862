"""`push` with the real client and a stand-in for the Hub: what it receives, and that the token is in no output."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import yaml

import bert_keras as bk
from tests.checkpoints.tiny_folders import write_classifier
from tests.hub.hub_server import TOKEN, HubServer, Repository
from tests.marks import slow

REPOSITORY = pathlib.Path(__file__).parents[3]
TWICE = """
import json, os, sys
opened = []
sys.addaudithook(lambda event, values: opened.append(os.path.basename(str(values[0]))) if event == "open" else None)
from bert_keras.cli.main import main
counts = []
for options in (["--dry-run"], []):
    opened.clear()
    status = main(["push", sys.argv[1], "me/reviews", *options])
    counts.append([status, opened.count("README.md")])
print(json.dumps(counts))
"""
MODEL_FILES = {"config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json"}
WRONG_TOKEN = "hf_" + "notTheTokenOfTests" * 2


@pytest.fixture
def hub():
    with HubServer() as server:
        yield server


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = write_classifier(tmp_path_factory.mktemp("pushed") / "classifier")
    for name in ("customers.csv", ".env", "optimizer.pt"):
        (folder / name).write_text("private")
    return folder


@pytest.fixture
def push(hub, folder, tmp_path):
    """Function that runs `bert-keras push` and returns its result; no output may contain a token."""

    def push(*arguments, token=TOKEN, environment=()):
        variables = {**os.environ, **hub.environment(tmp_path / "home", token=token), **dict(environment)}
        command = [sys.executable, "-m", "bert_keras.cli.main", "push", str(folder), *arguments]
        done = subprocess.run(command, cwd=REPOSITORY, env=variables, capture_output=True, text=True)
        for secret in (TOKEN, WRONG_TOKEN):
            assert secret not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return push


def test_without_a_token_nothing_is_requested(hub, push):
    done = push("me/reviews", token=None)
    assert (done.returncode, done.stdout) == (2, "")
    assert "push needs a token of the Hugging Face Hub with write access, and there is none: log in with" in done.stderr
    assert "hf auth login" in done.stderr
    assert "HF_TOKEN" in done.stderr
    assert hub.requests == []


def test_the_hub_receives_exactly_the_files_of_the_model_in_one_commit(hub, folder, push, tmp_path):
    options = "--license mit --language en --dataset stanfordnlp/imdb --base-model google-bert/bert-base-uncased"
    done = push("me/reviews", *options.split(), "--message", "First version", "--json")
    assert done.returncode == 0, done.stderr
    repository = hub.repositories["me/reviews"]
    card = repository.files["README.md"].decode()
    assert repository.files == {
        **{name: (folder / name).read_bytes() for name in MODEL_FILES},
        "README.md": card.encode(),
    }
    assert repository.messages == ["initial commit", "First version"]
    assert hub.cards == [card]
    metadata = yaml.safe_load(card.split("---")[1])
    assert metadata["pipeline_tag"] == "text-classification"
    assert (metadata["license"], metadata["language"], metadata["datasets"]) == ("mit", "en", ["stanfordnlp/imdb"])
    assert metadata["base_model"] == "google-bert/bert-base-uncased"
    result = json.loads(done.stdout)
    assert result["url"] == f"{hub.url}/me/reviews"
    assert result["files"] == {name: len(content) for name, content in sorted(repository.files.items())}
    assert result["left_out"] == [".env", "customers.csv", "optimizer.pt"]
    assert re.search(r"left out +\.env, customers\.csv, optimizer\.pt", done.stderr)
    assert re.search(r"repository +me/reviews", done.stderr)
    assert all(authorization == f"Bearer {TOKEN}" or "/objects/" in path for _, path, authorization in hub.requests)
    check_is_the_model(hub, folder, tmp_path)


def check_is_the_model(hub, folder, tmp_path):
    """Check that the pushed model gives the same answers after it was downloaded."""
    code = "import sys; from bert_keras.checkpoints.reading import find_folder; print(find_folder(sys.argv[1]))"
    command = [sys.executable, "-c", code, "hf://me/reviews"]
    environment = {**os.environ, **hub.environment(tmp_path / "reader", token=None)}
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True)
    downloaded = pathlib.Path(done.stdout.strip())
    batch = {"token_ids": np.array([[2, 6, 7, 3]]), "padding_mask": np.ones((1, 4), "int32")}
    np.testing.assert_array_equal(bk.load(downloaded)(batch)["logits"], bk.load(folder)(batch)["logits"])
    assert bk.Predictor.from_checkpoint(downloaded)(["a b"]) == bk.Predictor.from_checkpoint(folder)(["a b"])


def test_a_dry_run_prints_files_and_card_without_a_token_or_a_request(hub, push):
    done = push("me/reviews", "--dry-run", "--license", "mit", token=None)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^ +[\d,]+  model\.safetensors$", done.stdout, re.MULTILINE)
    assert "license: mit\n" in done.stdout
    assert "customers.csv" in done.stderr
    assert "customers.csv" not in done.stdout
    assert hub.requests == []


def test_a_push_makes_its_plan_once(hub, folder, tmp_path):
    copy = tmp_path / "classifier"
    shutil.copytree(folder, copy)
    (copy / "README.md").write_text("# Card")
    environment = {**os.environ, **hub.environment(tmp_path / "home")}
    command = [sys.executable, "-c", TWICE, str(copy)]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    planned, pushed = json.loads(done.stdout.splitlines()[-1])
    assert planned == pushed == [0, 1]
    assert "# Card" in hub.repositories["me/reviews"].files["README.md"].decode()


@pytest.mark.parametrize(
    ("method", "part", "status"),
    [("POST", "/commit/main", 500), *slow(("PUT", "/objects/", 403), ("POST", "/repos/create", 500))],
)
def test_a_failed_push_leaves_nothing_visible_and_no_token_in_its_output(hub, push, method, part, status):
    hub.repositories["me/reviews"] = Repository({"old.txt": b"old"})
    hub.fail.append((method, part, status))
    done = push("me/reviews")
    assert (done.returncode, done.stdout) == (2, "")
    assert "the Hugging Face Hub" in done.stderr.splitlines()[-1]
    assert hub.repositories["me/reviews"].files == {"old.txt": b"old"}


@pytest.mark.parametrize("token", [WRONG_TOKEN, *slow(f"{WRONG_TOKEN}é", f"{WRONG_TOKEN} {TOKEN}")])
def test_a_wrong_token_is_refused_without_being_shown(hub, push, token):
    done = push("me/reviews", token=token)
    assert (done.returncode, done.stdout) == (2, "")
    assert "token" in done.stderr.splitlines()[-1]
    assert "me/reviews" not in hub.repositories
    if token != WRONG_TOKEN:
        assert hub.requests == []


def test_a_private_push_never_goes_to_a_public_repository(hub, push):
    hub.repositories["me/public"] = Repository()
    done = push("me/public", "--private")
    assert done.returncode == 2
    assert "me/public exists and is public, and the upload is to be private; nothing was uploaded" in done.stderr
    assert hub.repositories["me/public"].files == {}


@pytest.mark.slow
def test_a_private_push_creates_a_private_repository(hub, push):
    assert push("me/new", "--private").returncode == 0
    assert hub.repositories["me/new"].private


@pytest.mark.slow
def test_a_branch_or_a_pull_request_leaves_the_main_branch_as_it_is(hub, push):
    hub.repositories["me/reviews"] = Repository({"old.txt": b"old"})
    done = push("me/reviews", "--revision", "v2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"{hub.url}/me/reviews/tree/v2\n")
    assert "kept in the repository, from before: old.txt" in done.stderr
    assert set(hub.repositories["me/reviews"].branches["v2"][-1][1]) > MODEL_FILES
    hub.repositories["you/reviews"] = Repository({"old.txt": b"old"})
    done = push("you/reviews", "--create-pr")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"{hub.url}/you/reviews/discussions/1\n")
    assert set(hub.repositories["you/reviews"].pull_requests[0]) > MODEL_FILES
    for name in ("me/reviews", "you/reviews"):
        assert hub.repositories[name].files == {"old.txt": b"old"}


@pytest.mark.slow
def test_a_second_push_of_the_same_files_makes_no_commit(hub, push):
    assert push("me/reviews").returncode == 0
    assert push("me/reviews").returncode == 0
    assert len(hub.repositories["me/reviews"].messages) == 2


def test_help_and_errors_before_the_push_need_no_package_of_the_hub():
    code = "import sys; from bert_keras.cli.main import main\ntry: main(['push', '--help'])\nexcept SystemExit: pass\n"
    code += "sys.exit('huggingface_hub' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
