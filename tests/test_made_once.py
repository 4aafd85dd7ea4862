"""One process creates what `made_once` returns; if it fails, another process tries again."""

import threading
import time

import pytest

from tests.made_once import made_once


class Factory:
    """Replaces pytest's `tmp_path_factory` of a worker."""

    def __init__(self, root, worker):
        self.folder = root / worker
        self.folder.mkdir(exist_ok=True)

    def getbasetemp(self):
        return self.folder


def test_two_workers_share_one_result(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    makers, seen, barrier = [], [], threading.Barrier(2)

    def work(worker):
        def make(path):
            makers.append(worker)
            path.mkdir()
            time.sleep(0.2)  # long enough for the other worker to see an incomplete folder
            (path / "content").write_text(worker)

        barrier.wait(60)
        seen.append((made_once(Factory(tmp_path, worker), "thing", make) / "content").read_text())

    workers = [threading.Thread(target=work, args=[worker]) for worker in ("gw0", "gw1")]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert len(makers) == 1
    assert seen == makers * 2


def test_failure_is_retried(tmp_path, monkeypatch):
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)

    def fail(path):
        path.write_text("half")
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        made_once(Factory(tmp_path, "one"), "file", fail)
    assert made_once(Factory(tmp_path, "one"), "file", lambda path: path.write_text("whole")).read_text() == "whole"
    assert made_once(Factory(tmp_path, "one"), "file", fail).read_text() == "whole"
