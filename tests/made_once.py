"""What is expensive to make and only read by tests: made once a session, for all test processes."""

import fcntl
import os
import pathlib
from collections.abc import Callable


def made_once(tmp_path_factory, name: str, make: Callable[[pathlib.Path], object]) -> pathlib.Path:
    """Returns a path that one of the test processes of this session made; the others wait for it.

    Args:
        tmp_path_factory: pytest's fixture.
        name: a name of its own for what is made; the same everywhere means the same content.
        make: writes a file or a folder at the path that it is given. If it fails, the next one tries again.

    Example:
        >>> path = made_once(tmp_path_factory, "tiny.onnx", lambda path: write_onnx(model, path))
    """
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent  # of all workers
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
