"""Assign tests to processes and order them, so that no process needs much memory.

Tests that import torch run in one process, because torch and its models need 0.4 to 0.7 GB per process. Tests that
train run first: they briefly need up to 1.3 GB, in addition to what earlier tests left.
"""

import collections

import pytest
from xdist.scheduler import LoadFileScheduling

WITH_TORCH = (
    *(
        "tests/checkpoints/",
        "tests/heads/",
        "tests/engines/",
        "tests/architectures/distillation/",
        "tests/cli/commands/test_distill.py",
    ),
    *("tests/pipelines/text/test_tokenizer_folder.py", "tests/test_benchmarks.py"),
)
FIRST = "tests/training/"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort: first the tests that train, then the groups with the most tests, so that the last groups are short."""
    sizes = collections.Counter(process_group(item.nodeid) for item in items)
    items.sort(key=lambda item: (not item.nodeid.startswith(FIRST), -sizes[process_group(item.nodeid)]))


def pytest_xdist_make_scheduler(config, log):
    """Replace `--dist loadfile`, which runs the tests of a file in one process."""
    return TorchInOneProcess(config, log) if config.getoption("dist") == "loadfile" else None


def process_group(nodeid: str) -> str:
    """Return the group of a test, which runs in one process: "torch", or its file."""
    return "torch" if nodeid.startswith(WITH_TORCH) else nodeid.split("::")[0]


class TorchInOneProcess(LoadFileScheduling):
    """Scheduler that runs the tests of a group in one process."""

    def _split_scope(self, nodeid: str) -> str:
        return process_group(nodeid)
