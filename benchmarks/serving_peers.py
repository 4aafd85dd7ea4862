"""Start one of the servers that `bert-keras serve` is compared with, until Ctrl-C or SIGTERM.

    python -m benchmarks.serving_peers fastapi CHECKPOINT --python PEERS/bin/python [--port 8000] [--threads 2]
    python -m benchmarks.serving_peers litserve CHECKPOINT --python PEERS/bin/python
    python -m benchmarks.serving_peers triton REPOSITORY --site-packages TRITON/lib/python3.11/site-packages

Prints the address and the process for `serving_load.py` when the server is ready. CHECKPOINT is a folder that
transformers reads, REPOSITORY a model repository of Triton. The environments:

    python -m venv PEERS
    PEERS/bin/pip install fastapi uvicorn litserve transformers torch==2.13.0
    python -m venv TRITON
    TRITON/bin/pip install --no-deps nvidia-pytriton
    TRITON/bin/pip install "numpy<2"

fastapi: transformers' pipeline in a synchronous endpoint (`serving_peer_fastapi.py`); `--protocol tei` of the load.
litserve: transformers' model in batches (`serving_peer_litserve.py`); `--protocol tei`, one text per request.

triton: nvidia-pytriton contains Triton's server with its backend for models in Python, and no other backend. The
backend runs the system's Python (Debian: libpython3.11) and not that of the environment, so `model.py` has to begin
with `import sys; sys.path.insert(0, SITE_PACKAGES)`: a folder of packages for the same version of Python, with numpy 1.
With numpy 2 the process of the model crashes at the first request ("Stub process is not healthy"). The request is Open
Inference Protocol at /v2/models/NAME/infer: `--protocol oip`.
"""

import argparse
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from typing import NamedTuple

HERE = pathlib.Path(__file__).parent
SCRIPTS = {name: HERE / f"serving_peer_{name}.py" for name in ("fastapi", "litserve")}
START_SECONDS = 120.0
STOP_SECONDS = 40.0  # Triton waits up to 30 s for requests in progress
POLL_SECONDS = 0.2


class Peer(NamedTuple):
    """A server that is ready.

    Attributes:
        url: address of the server without a path.
        pid: its first process; the others are its descendants.
    """

    url: str
    pid: int


@contextlib.contextmanager
def run_python_peer(
    name: str, checkpoint: pathlib.Path, *, python: str, port: int = 8000, num_threads: int | None = None
) -> Iterator[Peer]:
    """Run "fastapi" or "litserve" with a checkpoint folder, at /predict.

    Args:
        name: key of `SCRIPTS`.
        checkpoint: folder of a classifier that transformers reads.
        python: interpreter of the environment with the server.
        port: port on 127.0.0.1.
        num_threads: threads of PyTorch per process; all cores by default.
    """
    command = [python, str(SCRIPTS[name]), str(checkpoint), str(port)]
    threads = {"OMP_NUM_THREADS": str(num_threads)} if num_threads else {}
    with _run(command, {"HF_HUB_OFFLINE": "1", **threads}, f"http://127.0.0.1:{port}", "/health") as peer:
        yield peer


@contextlib.contextmanager
def run_triton(
    repository: pathlib.Path, *, site_packages: pathlib.Path, port: int = 8000, options: Sequence[str] = ()
) -> Iterator[Peer]:
    """Run Triton with a model repository, at /v2/models/NAME/infer.

    Args:
        repository: folder with NAME/config.pbtxt, which has `backend: "python"`, and NAME/1/model.py.
        site_packages: folder of an environment that contains nvidia-pytriton.
        port: port on 127.0.0.1.
        options: more options of tritonserver.
    """
    triton = site_packages / "pytriton" / "tritonserver"
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder:
        backends = make_triton_backends(triton, pathlib.Path(folder) / "backends")
        command = [str(triton / "bin" / "tritonserver"), f"--model-repository={repository}"]
        command += [f"--backend-directory={backends}", "--http-address=127.0.0.1", f"--http-port={port}"]
        command += ["--allow-grpc=false", "--allow-metrics=false", *options]
        libraries = str(site_packages / "nvidia_pytriton.libs")
        with _run(command, {"LD_LIBRARY_PATH": libraries}, url, "/v2/health/ready") as peer:
            yield peer


def make_triton_backends(triton: pathlib.Path, out: pathlib.Path, version: str | None = None) -> pathlib.Path:
    """Write the folder of backends that tritonserver expects, and return it.

    nvidia-pytriton has the library of the Python backend in one folder, and in another the stub: the program that runs
    `model.py`, once per Python version. Triton expects both in `python/`.

    Args:
        triton: folder `pytriton/tritonserver`.
        out: folder to write.
        version: version of Python, such as "3.11"; that of this process by default.
    """
    version = version or f"{sys.version_info.major}.{sys.version_info.minor}"
    stub = triton / "python_backend_stubs" / version / "triton_python_backend_stub"
    if not stub.exists():
        versions = ", ".join(sorted(path.name for path in (triton / "python_backend_stubs").glob("*")))
        raise FileNotFoundError(f"{triton} has no stub for Python {version}, but for: {versions or 'none'}")
    shutil.copytree(triton / "backends" / "python", out / "python")
    target = pathlib.Path(shutil.copy(stub, out / "python"))
    target.chmod(0o755)
    return out


@contextlib.contextmanager
def _run(command: Sequence[str], environment: dict[str, str], url: str, health_path: str) -> Iterator[Peer]:
    """Start a server, wait until it is ready, and stop it with its descendants at the end."""
    process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=sys.stderr, start_new_session=True)
    try:
        wait_until_ready(process, url + health_path)
        yield Peer(url, process.pid)
    finally:
        stop(process)


def wait_until_ready(process: subprocess.Popen, url: str, seconds: float = START_SECONDS) -> None:
    """Wait until an address answers with status 200.

    Raises:
        RuntimeError: the process ended.
        TimeoutError: there is no such answer after a number of seconds.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"the server exited with status {process.returncode}; see its messages above")
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(POLL_SECONDS)
    raise TimeoutError(f"{url} did not answer with status 200 in {seconds:.0f} s; see the messages above")


def stop(process: subprocess.Popen) -> None:
    """End a server with SIGTERM, and kill what remains of its process group."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # start_new_session made it the leader of its group
    process.wait()


def main(argv: Sequence[str] | None = None) -> int:
    """Run a server until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=[*SCRIPTS, "triton"])
    parser.add_argument("path", type=pathlib.Path, help="checkpoint folder, or model repository of Triton")
    parser.add_argument("--port", type=int, default=8000, help="port on 127.0.0.1 (default: 8000)")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the environment with the server")
    parser.add_argument("--threads", type=int, help="threads of PyTorch per process (default: all cores)")
    parser.add_argument("--site-packages", type=pathlib.Path, help="folder of the environment with nvidia-pytriton")
    arguments = parser.parse_args(argv)
    if arguments.name == "triton":
        if not arguments.site_packages:
            parser.error("triton needs --site-packages, the folder of the environment with nvidia-pytriton")
        running = run_triton(arguments.path, site_packages=arguments.site_packages, port=arguments.port)
    else:
        options = {"python": arguments.python, "port": arguments.port, "num_threads": arguments.threads}
        running = run_python_peer(arguments.name, arguments.path, **options)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # stop the server then too
    with running as peer, contextlib.suppress(KeyboardInterrupt):
        print(f"{peer.url} is ready, process {peer.pid}; Ctrl-C stops it", flush=True)
        while True:
            time.sleep(POLL_SECONDS)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
