"""The quick tests that import torch run in one test process: torch and its models take 0.4 to 0.7 GB in each."""

from xdist.scheduler import LoadFileScheduling

WITH_TORCH = ("tests/checkpoints/", "tests/tasks/", "tests/pipelines/test_tokenizer_folder.py")


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
