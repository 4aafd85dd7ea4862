"""Execute the notebooks, and write them with their outputs to `docs/notebooks/`.

    python examples/notebooks/run.py
    python examples/notebooks/run.py search --out my/notebooks --set PRETRAINING_STEPS=20
    python examples/notebooks/run.py search --text-only

Each `NAME.py` in this folder is a notebook in the percent format of jupytext: `# %%` begins a cell of code and
`# %% [markdown]` a cell of text. It runs in an empty temporary folder, with the Python that runs this script.
`# %% alt="..."` describes the pictures of a cell to readers who cannot see them.
"""

import argparse
import contextlib
import getpass
import os
import pathlib
import re
import resource
import socket
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence

import jupytext
import nbformat

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE.parents[1] / "docs/notebooks"
NAMES = sorted(path.stem for path in HERE.glob("*.py") if path != pathlib.Path(__file__).resolve())
MAX_BYTES = 300_000

_PICTURE = "image/png"
# lines of TensorFlow's C++ about devices, which no setting switches off: "I0000 00:00:1795802163.577365 ..."
_LOG_LINE = re.compile(
    r"^(?:[IWEF]\d{4} \d\d:\d\d:|WARNING: All log messages before absl::InitializeLog).*\n?", re.MULTILINE
)


def read_notebook(name: str, settings: Mapping[str, str] | None = None) -> nbformat.NotebookNode:
    """Return a notebook without outputs, from its script.

    Args:
        name: the name of the script, without its ending.
        settings: values of the notebook's settings (`NAME = value` at the beginning of a line) to replace.

    Raises:
        ValueError: the script has no such setting.
    """
    text = (HERE / f"{name}.py").read_text(encoding="utf-8")
    for setting, value in (settings or {}).items():
        line = re.search(rf"^{re.escape(setting)} = .*$", text, re.MULTILINE)
        if line is None:
            raise ValueError(f"{name}.py has no setting {setting}; expected a line `{setting} = ...`")
        text = f"{text[: line.start()]}{setting} = {value}{text[line.end() :]}"
    notebook = jupytext.reads(text, fmt="py:percent")
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:02}"  # jupytext draws random ids
        cell.metadata.pop("lines_to_next_cell", None)  # jupytext's note on blank lines in the script
    notebook.metadata = nbformat.NotebookNode(
        kernelspec={"display_name": "Python 3", "language": "python", "name": "python3"},
        language_info={"name": "python"},
    )
    return notebook


def execute(notebook: nbformat.NotebookNode, folder: pathlib.Path, *, timeout_seconds: int = 1200) -> dict[int, float]:
    """Execute a notebook in an empty folder, with this Python; nothing is written to the user's home.

    Args:
        notebook: the notebook, which gets the outputs.
        folder: the notebook runs in its subfolder `work`, next to the kernel's own files.
        timeout_seconds: the longest time of a cell.

    Returns:
        The seconds of each cell of code, keyed by its index.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell raised an error.
    """
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient

    work, kernel = folder / "work", folder / "kernel"
    work.mkdir()
    kernel.mkdir()
    specs = KernelSpecManager(kernel_dirs=[])  # no installed kernels: "python3" is then this interpreter
    manager = AsyncKernelManager(
        kernel_spec_manager=specs, transport="ipc", connection_file=str(kernel / "connection.json")
    )
    client = NotebookClient(
        notebook,
        km=manager,
        timeout=timeout_seconds,
        record_timing=False,
        store_widget_state=False,
        resources={"metadata": {"path": str(work)}},
        on_cell_execute=lambda cell, cell_index: starts.append((time.monotonic(), cell_index)),
    )
    client.owns_km = True  # so that it ends the kernel
    own = {"IPYTHONDIR": str(kernel), "JUPYTER_RUNTIME_DIR": str(kernel), "PYTHONHASHSEED": "0"}
    commands = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # finds bert-keras
    starts: list[tuple[float, int]] = []
    client.execute(env={**os.environ, **own, "PATH": commands})
    ends = [start for start, _ in starts[1:]] + [time.monotonic()]
    return {index: end - start for (start, index), end in zip(starts, ends, strict=True)}


def clean(notebook: nbformat.NotebookNode) -> None:
    """Join pieces of printed text, describe pictures by the `alt` of their cells, and remove TensorFlow's log lines."""
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        outputs: list[nbformat.NotebookNode] = []
        for output in cell.outputs:
            is_text = output.output_type == "stream"
            if is_text and output.name == "stderr" and not _LOG_LINE.sub("", output.text).strip():
                continue
            if is_text and outputs and outputs[-1].get("name") == output.name:
                outputs[-1].text += output.text
                continue
            if _PICTURE in output.get("data", {}):
                output.metadata = {_PICTURE: {**output.metadata.get(_PICTURE, {}), "alt": cell.metadata.get("alt", "")}}
            outputs.append(output)
        cell.outputs = outputs


def find_problems(notebook: nbformat.NotebookNode, *, private: Sequence[str] = ()) -> list[str]:
    """Return a sentence for each reason not to publish an executed notebook.

    Args:
        notebook: the notebook.
        private: texts that it must not contain, such as names of folders.
    """
    content = nbformat.writes(notebook)
    problems = [f"it contains {text!r}" for text in private if text in content]
    if len(content.encode()) > MAX_BYTES:
        problems.append(f"it has {len(content.encode()):,} bytes; expected at most {MAX_BYTES:,}")
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if output.output_type == "error" or output.get("name") == "stderr":
                problems.append(f"{cell.id} has an error or text on standard error: {str(output)[:300]}")
            picture = output.get("data", {}).get(_PICTURE)
            if picture is not None and not output.metadata.get(_PICTURE, {}).get("alt"):
                problems.append(f'{cell.id} has a picture without description: begin the cell with # %% alt="..."')
    return problems


def list_private_texts(folder: str | os.PathLike) -> list[str]:
    """Return what would tell about this machine: its folders, its name and its user."""
    texts = [str(folder), str(HERE.parents[1]), sys.prefix, os.path.expanduser("~") + "/", socket.gethostname()]
    with contextlib.suppress(KeyError, OSError, ImportError):  # a container's user number without a name
        user = getpass.getuser()
        texts += [f"/{user}/", f"{user}@"]
    return [text for text in texts if len(text) > 3]


def run(name: str, out: pathlib.Path, settings: Mapping[str, str] | None = None) -> dict[int, float]:
    """Execute a notebook and write it to `out`; return the seconds of each cell.

    Raises:
        ValueError: it has outputs that cannot be published; it is written nevertheless.
    """
    notebook = read_notebook(name, settings)
    with tempfile.TemporaryDirectory() as folder:
        private = list_private_texts(folder)
        seconds = execute(notebook, pathlib.Path(folder))
    clean(notebook)
    out.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, out / f"{name}.ipynb")
    if problems := find_problems(notebook, private=private):
        raise ValueError(f"{name}: " + "; ".join(problems))
    return seconds


def update_text(name: str, out: pathlib.Path) -> None:
    """Replace the text of a published notebook by that of its script, and keep the outputs.

    Raises:
        ValueError: the code differs, so that the notebook has to be executed.
    """
    notebook, published = read_notebook(name), nbformat.read(out / f"{name}.ipynb", as_version=4)
    code, published_code = ([cell for cell in one.cells if cell.cell_type == "code"] for one in (notebook, published))
    if [cell.source for cell in code] != [cell.source for cell in published_code]:
        raise ValueError(f"the code of {name}.py was changed since {out / name}.ipynb was made: execute it again")
    for cell, executed in zip(code, published_code, strict=True):
        cell.outputs, cell.execution_count = executed.outputs, executed.execution_count
    clean(notebook)
    nbformat.write(notebook, out / f"{name}.ipynb")


def main(argv: Sequence[str] | None = None) -> int:
    """Execute the notebooks of the command line, and print their time and size."""
    arguments = parse_arguments(argv)
    for name in arguments.names:
        if arguments.text_only:
            update_text(name, arguments.out)
            continue
        started, cpu_started = time.monotonic(), measure_cpu_seconds()
        cells = run(name, arguments.out, arguments.set)
        seconds, cpu_seconds = time.monotonic() - started, measure_cpu_seconds() - cpu_started
        size = (arguments.out / f"{name}.ipynb").stat().st_size
        print(f"{name}: {seconds:.0f} s, {cpu_seconds:.0f} s of one core, {size / 1000:.0f} kB")
        slowest = sorted(cells.items(), key=lambda cell: -cell[1])[:5]
        print("  slowest cells: " + ", ".join(f"{index}: {seconds:.0f} s" for index, seconds in slowest), flush=True)
    return 0


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse and check the command line: `names` are all notebooks to run, and `set` is a dict of their settings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], help=f"notebooks (default: {', '.join(NAMES)})")
    parser.add_argument("--out", type=pathlib.Path, default=OUT, help="output folder (default docs/notebooks)")
    parser.add_argument("--text-only", action="store_true", help="update the text and keep the outputs")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="settings of the notebook to change")
    arguments = parser.parse_args(argv)
    arguments.names = arguments.names or NAMES
    for setting in arguments.set:
        if "=" not in setting:
            parser.error(f"--set is {setting!r}; expected NAME=VALUE: add the value")
    arguments.set = dict(setting.split("=", 1) for setting in arguments.set)
    if arguments.set and arguments.out.resolve() == OUT:
        parser.error("--set would change the published notebooks: choose another folder with --out")
    try:
        for name in arguments.names:  # before the first one runs for minutes
            read_notebook(name, arguments.set)
    except ValueError as error:
        parser.error(str(error))
    return arguments


def measure_cpu_seconds() -> float:
    """Return the processor time of the processes that this one started and that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    raise SystemExit(main())
