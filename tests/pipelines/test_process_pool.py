"""Results come in order, items are read just in time, and worker processes end with their parent."""

import os
import signal
import subprocess
import sys
import time

import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.process_pool import map_in_order
from tests.marks import slow_except


def make_doubler(offset, *, num_threads=None):
    """Return a function that doubles numbers; 13 is bad input, and 17 ends the process."""

    def double(number):
        if number == 13:
            raise InputError("13 is not valid")
        if number == 17:
            os._exit(3)
        return 2 * number + offset, os.getpid(), num_threads

    return double


def keyed(numbers):
    return ((f"key {number}", number) for number in numbers)


@pytest.mark.parametrize("num_workers", [1, 2, 3])
def test_results_keep_the_order_of_the_items_and_none_stays_none(num_workers):
    items = [("a", 1), ("b", None), ("c", 3), ("d", None), ("e", None), ("f", 6), ("g", 7), ("h", None)]
    results = list(map_in_order(iter(items), make_doubler, (100,), num_workers=num_workers, task="makes records"))
    assert [key for key, _ in results] == list("abcdefgh")
    assert [result and result[0] for _, result in results] == [102, None, 106, None, None, 112, 114, None]
    processes = {result[1] for _, result in results if result}
    assert len(processes) == min(num_workers, 2)  # an item of None counts as one of the items that are read ahead
    assert (os.getpid() in processes) == (num_workers == 1)
    assert {result[2] for _, result in results if result} == {None if num_workers == 1 else 1}


def test_a_single_item_runs_in_this_process():
    [(_, (_, process, _))] = map_in_order(keyed([4]), make_doubler, (0,), num_workers=3, task="makes records")
    assert process == os.getpid()
    assert list(map_in_order(iter([]), make_doubler, (0,), num_workers=3, task="makes records")) == []


def test_items_are_read_at_most_num_workers_ahead():
    taken = []

    def items():
        for number in range(20, 40):
            taken.append(number)
            yield number, number

    for count, _ in enumerate(map_in_order(items(), make_doubler, (0,), num_workers=2, task="makes records"), start=1):
        assert len(taken) <= count + 2
    assert count == 20


def test_an_input_error_of_a_worker_is_raised_unchanged():
    with pytest.raises(InputError, match=r"^13 is not valid$"):
        list(map_in_order(keyed([1, 13, 2, 3]), make_doubler, (0,), num_workers=2, task="makes records"))


def test_a_worker_that_dies_is_reported_with_the_fix():
    with pytest.raises(InputError, match=r"process that makes records ended before .*or free memory"):
        list(map_in_order(keyed([1, 17, 2, 3]), make_doubler, (0,), num_workers=2, task="makes records"))


SCRIPT = """
import os, sys, time
sys.path.insert(0, {folder!r})
from bert_keras.pipelines.process_pool import map_in_order
from helper import make_slow
if __name__ == "__main__":
    items = ((n, n) for n in range(1000))
    for key, process in map_in_order(items, make_slow, (), num_workers=2, task="makes records"):
        print(process, flush=True)
"""
HELPER = """
import os, time
def make_slow(*, num_threads=None):
    def slow(number):
        time.sleep(0.01)
        return os.getpid()
    return slow
"""


def is_running(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="processes are looked up in /proc")
@pytest.mark.parametrize("how", slow_except([signal.SIGKILL, signal.SIGINT], quick=[signal.SIGKILL]))
def test_worker_processes_end_with_their_parent(tmp_path, how):
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "script.py").write_text(SCRIPT.format(folder=str(tmp_path)))
    parent = subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py")], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    workers = {int(parent.stdout.readline()) for _ in range(20)}
    assert len(workers) == 2
    parent.send_signal(how)
    parent.wait(timeout=30)
    parent.stdout.close()
    deadline = time.monotonic() + 20
    while any(map(is_running, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_running, workers))
