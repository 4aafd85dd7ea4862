"""Create an expensive, read-only file or folder once per session, for all test processes."""

import fcntl
import os
import pathlib
from collections.abc import Callable


def made_once(tmp_path_factory, name: str, make: Callable[[pathlib.Path], object]) -> pathlib.Path:
    """Return a path that one of the test processes of this session creates, while the others wait for it.

    Args:
        tmp_path_factory: pytest's fixture.
        name: a unique name; calls with the same name share the content.
        make: function that writes a file or folder at a path. If it fails, the next process tries again.

    Example:
        >>> path = made_once(tmp_path_factory, "tiny.onnx", lambda path: write_onnx(model, path))
    """
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent  # shared by all workers
    folder = root / "made_once"
    folder.mkdir(exist_ok=True)
    path = folder / name
    with open(folder / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            unfinished = folder / f"{os.getpid()}.{name}"
            make(unfinished)
            os.rename(unfinished, path)
    return path
