"""Which test process runs what, and in what order, so that no process needs much memory.

Tests that import torch run in one process: torch and its models take 0.4 to 0.7 GB in each. Tests that train run first:
they need up to 1.3 GB for a moment, on top of what the files before them left.
"""

import collections

import pytest
from xdist.scheduler import LoadFileScheduling

WITH_TORCH = ("tests/checkpoints/", "tests/tasks/", "tests/pipelines/text/test_tokenizer_folder.py")
FIRST = "tests/training/"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests that train first, then the groups with the most tests, so that the last ones are short."""
    sizes = collections.Counter(process_group(item.nodeid) for item in items)
    items.sort(key=lambda item: (not item.nodeid.startswith(FIRST), -sizes[process_group(item.nodeid)]))


def pytest_xdist_make_scheduler(config, log):
    """Replace `--dist loadfile`, which gives the tests of one file to one process."""
    return TorchInOneProcess(config, log) if config.getoption("dist") == "loadfile" else None


def process_group(nodeid: str) -> str:
    """Return what the tests of one process have in common: their file, or that they import torch."""
    return "torch" if nodeid.startswith(WITH_TORCH) else nodeid.split("::")[0]


class TorchInOneProcess(LoadFileScheduling):
    """Gives the tests of a group to one process."""

    def _split_scope(self, nodeid: str) -> str:
        return process_group(nodeid)
