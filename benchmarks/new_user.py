"""Follow docs/start.md as a new user would, in a clean environment, and print what they see and how long it takes.

    make distributions
    python benchmarks/new_user.py dist/*.whl docs/start.md --python python3.12

The commands are the `bash` blocks of the page. They run in a temporary folder, with an empty home folder, in one shell.
The package is installed from the wheel instead of from the clone.
"""

import argparse
import os
import pathlib
import re
import subprocess
import tempfile
import time


def read_commands(page: pathlib.Path) -> list[str]:
    """Return the commands in the `bash` blocks of a page, one per line."""
    blocks = re.findall(r"^```bash\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line]


class Shell:
    """A bash that keeps its variables and its folder from command to command. Use it as a context manager."""

    _END = "end-of-the-command"

    def __init__(self, folder: pathlib.Path, environment: dict[str, str]):
        self._process = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __enter__(self) -> "Shell":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.write("kill $(jobs -p) 2>/dev/null; wait\n")
        self._process.stdin.close()
        self._process.wait()

    def run(self, command: str) -> tuple[str, float]:
        """Run a command; return its output and its seconds.

        Raises:
            RuntimeError: it failed.
        """
        start = time.monotonic()
        # a line of its own for the end: the output of `curl` has no line break
        self._process.stdin.write(f"{command}\nstatus=$?; echo; echo {self._END} $status\n")
        self._process.stdin.flush()
        lines = []
        for line in self._process.stdout:
            if line.startswith(self._END):
                break
            lines.append(line)
        output = "".join(lines).removesuffix("\n")
        if line.split()[1] != "0":
            raise RuntimeError(f"{command}\n{output}")
        return output, time.monotonic() - start


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=pathlib.Path)
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("--python", default="python3")
    arguments = parser.parse_args()
    total = 0.0
    with tempfile.TemporaryDirectory() as folder:
        environment = {"PATH": os.environ["PATH"], "HOME": folder, "PIP_CONFIG_FILE": os.devnull, "LANG": "C.UTF-8"}
        environment |= {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "PYENV"))}
        with Shell(pathlib.Path(folder), environment) as shell:
            for command in read_commands(arguments.page):
                real = command.replace("'.[", f"'{arguments.wheel.resolve()}[")
                real = real.replace("python3 ", f"{arguments.python} ")
                output, seconds = shell.run(real)
                total += seconds
                print(f"$ {command}    # {seconds:.1f} s\n{output.replace(folder, '~')}", flush=True)
    print(f"{total / 60:.1f} minutes in all")


if __name__ == "__main__":
    main()
