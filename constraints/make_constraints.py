"""Write the versions that pip would install today for one Python, so that they can be installed later.

    python3.12 constraints/make_constraints.py

writes `constraints/python3.12.txt`. Run it with each Python after the suite has passed. Nothing is installed.
"""

import datetime
import json
import pathlib
import re
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).parents[1]
EXTRAS = "all,docs,test"


def resolve() -> dict[str, str]:
    """Return the version of each package of the project with all extras, keyed by its normalized name."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--use-pep517"]
    done = subprocess.run(
        [*command, "--report", "-", f"{REPOSITORY}[{EXTRAS}]"], stdout=subprocess.PIPE, check=True, text=True
    )
    packages = [item["metadata"] for item in json.loads(done.stdout)["install"]]
    # a local version, such as that of a build of torch, is not on PyPI
    versions = {re.sub(r"[-_.]+", "-", one["name"]).lower(): one["version"].split("+")[0] for one in packages}
    del versions["bert-keras"]
    return versions


def main() -> None:
    """Write the file of this Python."""
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    path = REPOSITORY / "constraints" / f"{python}.txt"
    lines = [
        f"# What pip installed for bert-keras[{EXTRAS}] on Linux (x86-64) with Python {python.removeprefix('python')}",
        f"# on {datetime.date.today()}:  pip install 'bert-keras[all]' -c {path.name}",
        "# Written by make_constraints.py.",
    ]
    lines += [f"{name}=={version}" for name, version in sorted(resolve().items())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"wrote {path}: {len(lines) - 3} packages")


if __name__ == "__main__":
    main()
