"""Versions of a model change while clients send requests, and nothing that happens to a version reaches the clients."""

import json
import os
import shutil
import threading
import time

import pytest

from benchmarks.http_load import LoadSettings, run_load
from tests.marks import slow

from .running_server import RunningServer

TEXT = "the cat sat on a mat ."
WAIT_SECONDS = 60
OPTIONS = ("--poll", "0.1", "--threads", "1", "--instances", "1", "--no-grpc")


def publish(source, target):
    """Copy a folder so that it appears complete."""
    shutil.copytree(source, f"{target}.copying")
    os.rename(f"{target}.copying", target)


def wait_until(is_true, what):
    end = time.monotonic() + WAIT_SECONDS
    while not is_true():
        assert time.monotonic() < end, f"{what} did not happen"
        time.sleep(0.05)


def get_states(server):
    statuses = server.get("/v1/models/model").json()["model_version_status"]
    return {int(one["version"]): one["state"] for one in statuses}


def get_newest(server):
    """Return the number of the version that answers."""
    [newest] = [number for number, state in get_states(server).items() if state == "AVAILABLE"]
    return newest


def is_new(server):
    """Return whether the second of the two models answers."""
    return server.post("/classify", {"text": TEXT}).json()["label"].startswith("new ")


@pytest.fixture(scope="module")
def two_models(artifacts, tmp_path_factory):
    """The folders of two models with different answers: three classes in other orders."""
    folder = tmp_path_factory.mktemp("two_models")
    first, second = folder / "first", folder / "second"
    for folder in (first, second):
        shutil.copytree(artifacts["classifier"], folder)
    config = json.loads((second / "config.json").read_text())
    names = {label: f"new {label}" for label in config["id2label"].values()}
    config["id2label"] = {number: names[label] for number, label in config["id2label"].items()}
    config["label2id"] = {names[label]: number for label, number in config["label2id"].items()}
    task = config["bert_keras"]["task"]
    task["labels"] = [names[label] for label in task["labels"]]
    (second / "config.json").write_text(json.dumps(config))
    return first, second


@pytest.fixture
def model(two_models, tmp_path):
    """A folder of versions with one version."""
    (tmp_path / "model").mkdir()
    publish(two_models[0], tmp_path / "model" / "1")
    return tmp_path / "model"


@pytest.fixture(scope="module")
def changing(two_models, tmp_path_factory):
    """A server and the folder of its model, to which tests add versions; even versions are the second of the models."""
    folder = tmp_path_factory.mktemp("versions") / "model"
    folder.mkdir()
    publish(two_models[0], folder / "1")
    with RunningServer({"model": folder}, *OPTIONS) as server:
        yield server, folder


def change_versions(server, model, folders, num_changes, first=2):
    """Publish versions from `first` on and remove the oldest, each after the one before has taken over."""
    for number in range(first, first + num_changes):
        publish(folders[number % 2 == 0], model / str(number))
        wait_until(lambda number=number: get_states(server).get(number) == "AVAILABLE", f"version {number}")
        wait_until(lambda number=number: get_states(server)[number - 1] == "END", f"the end of version {number - 1}")
        shutil.rmtree(model / str(number - 1))


def send_while(server, work, **settings):
    """Send requests in a loop until `work` is done; return the result of the load."""
    results, is_done = [], threading.Event()
    body = json.dumps({"text": TEXT}).encode()

    def send():
        while not is_done.is_set():
            load = LoadSettings(f"{server.url}/classify", [body], num_clients=4, duration_seconds=0.5, **settings)
            results.append(run_load(load))

    thread = threading.Thread(target=send)
    thread.start()
    try:
        work()
    finally:
        is_done.set()
        thread.join()
    outcomes = {outcome for result in results for outcome in result.outcomes}
    return sum(len(result.outcomes) for result in results), outcomes


def test_a_new_version_takes_over_without_a_failed_request(changing, two_models):
    server, folder = changing
    old, labels = get_newest(server), set()

    def remember(_, answer):
        labels.add(json.loads(answer)["label"].startswith("new "))
        return True

    def work():
        wait_until(lambda: labels, "an answer of the old version")
        change_versions(server, folder, two_models, 1, old + 1)
        wait_until(lambda: labels == {False, True}, "an answer of the new version")

    num_requests, outcomes = send_while(server, work, check_answer=remember)
    assert outcomes == {200}
    assert num_requests > 0
    assert is_new(server) == (old % 2 == 1)
    assert get_states(server) == {**dict.fromkeys(range(1, old + 1), "END"), old + 1: "AVAILABLE"}
    wait_until(lambda: len(server.list_workers()) == 1, "the end of old workers")


@pytest.mark.slow
def test_fifty_versions_take_over_without_a_failed_request_or_more_memory(model, two_models):
    with RunningServer({"model": model}, *OPTIONS) as server:
        memory = []

        def work():
            for first in range(2, 52, 10):
                change_versions(server, model, two_models, 10, first)
                memory.append(read_memory(server.process.pid))

        num_requests, outcomes = send_while(server, work)
        assert outcomes == {200}
        assert num_requests > 5_000
        assert len(server.list_workers()) == 1
        assert memory[-1] < 1.1 * memory[0], memory


def read_memory(pid):
    """Return the resident memory of a process in bytes."""
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("is_copied_slowly", [False, *slow(True)])
def test_a_damaged_or_half_written_version_changes_nothing_until_it_is_complete(
    changing, two_models, is_copied_slowly, tmp_path
):
    server, folder = changing
    old = get_newest(server)
    number, source = old + 1, two_models[old % 2]
    version = folder / str(number)
    if is_copied_slowly:
        (version / "onnx").mkdir(parents=True)
        shutil.copy(source / "config.json", version)
        wait_until(lambda: get_states(server).get(number) == "END", f"the report of version {number}")
    whole = (source / "onnx/model.onnx").read_bytes()
    shutil.copytree(source, tmp_path / "half")
    (tmp_path / "half/onnx/model.onnx").write_bytes(whole[: len(whole) // 2])
    if is_copied_slowly:
        shutil.copytree(tmp_path / "half", version, dirs_exist_ok=True)
    else:
        publish(tmp_path / "half", version)
    wait_until(lambda: "is not a complete ONNX file" in server.get("/v1/models/model").text, "the reason")
    assert get_states(server) == {**dict.fromkeys(range(1, old), "END"), old: "AVAILABLE", number: "END"}
    assert is_new(server) == (old % 2 == 0)
    assert server.get("/health/ready").status_code == 200
    assert f"version {number} cannot be loaded" in server.read_log()
    (version / "onnx" / "model.onnx").write_bytes(whole)
    wait_until(lambda: get_states(server).get(number) == "AVAILABLE", f"version {number}")
    assert is_new(server) == (number % 2 == 0)
    wait_until(lambda: get_states(server)[old] == "END", f"the end of version {old}")


def test_files_of_a_folder_without_versions_can_be_replaced(two_models, tmp_path):
    model = tmp_path / "unversioned"
    publish(two_models[0], model)
    with RunningServer({"model": model}, *OPTIONS) as server:
        assert get_states(server) == {1: "AVAILABLE"}
        shutil.copytree(two_models[1], model, dirs_exist_ok=True)
        wait_until(lambda: get_states(server).get(2) == "AVAILABLE", "the new files")
        assert server.post("/classify", {"text": TEXT}).json()["label"].startswith("new ")


@pytest.mark.slow  # other tests use a server with two versions and a label
def test_labels_and_several_versions(model, two_models):
    publish(two_models[1], model / "7")
    publish(two_models[0], model / "5")
    with RunningServer({"model": model}, *OPTIONS, "--versions", "2", "--label", "stable=1") as server:
        assert get_states(server) == {7: "AVAILABLE", 5: "AVAILABLE", 1: "AVAILABLE"}
        body = {"instances": [TEXT]}
        labels = {
            place: server.post(f"/v1/models/model{place}:predict", body).json()["predictions"][0]["label"]
            for place in ("", "/versions/7", "/versions/5", "/labels/stable")
        }
        is_new = {place: label.startswith("new ") for place, label in labels.items()}
        assert is_new == {"": True, "/versions/7": True, "/versions/5": False, "/labels/stable": False}
        assert server.post("/v1/models/model/versions/6:predict", body).status_code == 404
