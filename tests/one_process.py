"""The tests that import torch run in one test process: torch takes half a gigabyte, and its twins as much again."""

from xdist.scheduler import LoadFileScheduling

WITH_TORCH = ("tests/checkpoints/", "tests/tasks/", "tests/pipelines/test_tokenizer_folder.py")


def pytest_xdist_make_scheduler(config, log):
    """Replace `--dist loadfile`, which gives the tests of one file to one process."""
    return TorchInOneProcess(config, log) if config.getoption("dist") == "loadfile" else None


class TorchInOneProcess(LoadFileScheduling):
    """Gives the tests of a file to one process, and those of `WITH_TORCH` together to one."""

    def _split_scope(self, nodeid: str) -> str:
        return "torch" if nodeid.startswith(WITH_TORCH) else super()._split_scope(nodeid)
