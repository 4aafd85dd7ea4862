"""Measure how many mistakes the quick test suite catches, with random single-line mutations of the shipped code.

    pip install coverage pytest-cov                        # not a dependency of the project
    python -m pytest -n 2 --dist loadfile -m "not slow" --cov --cov-context=test --cov-report=
    python benchmarks/mutations.py choose --seed 0 --number 80 > benchmarks/mutations.jsonl
    python benchmarks/mutations.py run CHECKOUT .coverage benchmarks/mutations.jsonl --out results.jsonl

`choose` samples lines inside functions from every package, at least three and in proportion to its size. In each line
it changes one operator, constant or condition, or removes an argument. `run` applies the mutations one by one to
CHECKOUT, a separate clone with its own environment, and runs the tests that execute the line until one fails. If none
fails, it runs the other quick tests in the same files and in the mirrored folder. With `--slow`, it runs the slow tests
of these folders for mutations that a previous run did not catch. CHECKOUT is restored afterwards. Without coverage
data, a mutation can list the tests that execute its line under the key `tests`.

`mutations.jsonl` and `mutation_results.jsonl` are a record of commit f119ea8: files, lines and tests have the names of
that date. `run` needs a CHECKOUT of that commit, or newly chosen mutations.
"""

import argparse
import ast
import collections
import copy
import json
import pathlib
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator

ROOTS = ("bert_keras", "pipelines", "export")
MIN_PER_PACKAGE = 3
NUM_FIRST_TESTS = 40
MAX_SECONDS = 900
COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
}  # without "/", which also joins paths


def main() -> None:
    """Run one of the two commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    choosing = commands.add_parser("choose")
    choosing.add_argument("--seed", type=int, default=0)
    choosing.add_argument("--number", type=int, default=80)
    running = commands.add_parser("run")
    running.add_argument("checkout", type=pathlib.Path)
    running.add_argument("coverage", type=pathlib.Path)
    running.add_argument("mutations", type=pathlib.Path)
    running.add_argument("--out", type=pathlib.Path, required=True)
    running.add_argument(
        "--slow", action="store_true", help="run the slow tests for mutations that --out lists as not caught"
    )
    arguments = parser.parse_args()
    if arguments.command == "choose":
        for mutation in choose(pathlib.Path.cwd(), arguments.number, arguments.seed):
            print(json.dumps(mutation, ensure_ascii=False))
    else:
        run(arguments)


def choose(root: pathlib.Path, number: int, seed: int) -> list[dict]:
    """Sample `number` mutations from all packages."""
    generator = random.Random(seed)
    by_package = collections.defaultdict(list)
    for path in sorted(path for folder in ROOTS for path in (root / folder).rglob("*.py")):
        name = path.relative_to(root)
        by_package[str(name.parent)] += find_mutations(path, str(name))
    sizes = {package: len(found) for package, found in by_package.items() if len(found) >= MIN_PER_PACKAGE}
    counts = {
        package: max(MIN_PER_PACKAGE, round(number * size / sum(sizes.values()))) for package, size in sizes.items()
    }
    while sum(counts.values()) > number:
        counts[max(counts, key=counts.get)] -= 1
    chosen = []
    for package, count in sorted(counts.items()):
        files = collections.defaultdict(list)
        for mutation in by_package[package]:
            files[mutation["file"]].append(mutation)
        for file in generator.sample(sorted(files), min(count, len(files))) * -(-count // len(files)):
            if count:
                count -= 1
                chosen.append(files[file].pop(generator.randrange(len(files[file]))))
    return chosen


def find_mutations(path: pathlib.Path, name: str) -> list[dict]:
    """Return all single-line mutations of the functions in a file."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    found = []
    for function in (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)):
        for node in (node for statement in function.body for node in ast.walk(statement)):
            if not hasattr(node, "lineno") or node.lineno != node.end_lineno or isinstance(node, ast.stmt):
                continue
            if "Error(" in lines[node.lineno - 1] or lines[node.lineno - 1].lstrip().startswith(('f"', '"')):
                continue  # part of a message
            for changed in make_changes(node):
                line = lines[node.lineno - 1].encode()
                after = line[: node.col_offset] + ast.unparse(changed).encode() + line[node.end_col_offset :]
                found.append({"file": name, "line": node.lineno, "before": line.decode(), "after": after.decode()})
    return [dict(items) for items in dict.fromkeys(tuple(mutation.items()) for mutation in found)]


def make_changes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield changed copies of an expression."""
    changed = copy.deepcopy(node)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
        changed.ops = [COMPARISONS[type(node.ops[0])]()]
        yield changed
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC and not isinstance(node.left, ast.Constant):
        changed.op = ARITHMETIC[type(node.op)]()
        yield changed
    elif isinstance(node, ast.BoolOp):
        changed.op = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
        yield changed
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        changed.value = not node.value if isinstance(node.value, bool) else node.value + 1
        yield changed
    elif isinstance(node, ast.IfExp):
        changed.body, changed.orelse = node.orelse, node.body
        yield changed
    elif isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
            changed.func.id = {"min": "max", "max": "min"}[node.func.id]
            yield changed
        for place, keyword in enumerate(node.keywords):
            if keyword.arg is not None:
                shorter = copy.deepcopy(node)
                del shorter.keywords[place]
                yield shorter


def run(arguments: argparse.Namespace) -> None:
    """Test each mutation without a result, and append the result to `--out`."""
    mutations = [json.loads(line) for line in arguments.mutations.read_text(encoding="utf-8").splitlines()]
    results = [json.loads(line) for line in arguments.out.read_text().splitlines()] if arguments.out.exists() else []
    done = {get_key(result) for result in results if not arguments.slow or result["caught_by"] or result.get("slow")}
    tests = find_covering_tests(arguments.coverage)
    for number, mutation in enumerate(mutations, 1):
        if get_key(mutation) in done:
            continue
        started = time.monotonic()
        caught_by = apply_and_test(arguments.checkout, mutation, tests, slow=arguments.slow)
        result = {
            **mutation,
            "caught_by": caught_by,
            "slow": arguments.slow,
            "seconds": round(time.monotonic() - started),
        }
        with arguments.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result, ensure_ascii=False) + "\n")
        print(
            f"{number} of {len(mutations)}: {mutation['file']}:{mutation['line']} {caught_by or 'NOT CAUGHT'}",
            flush=True,
        )


def get_key(mutation: dict) -> tuple:
    """Return the key that identifies a mutation."""
    return mutation["file"], mutation["line"], mutation["after"]


def find_covering_tests(path: pathlib.Path) -> dict[tuple[str, int], list[str]]:
    """Return the tests that execute each line, keyed by file and line."""
    import coverage

    data = coverage.CoverageData(str(path))
    data.read()
    tests = collections.defaultdict(list)
    for file in data.measured_files():
        name = re.search(rf"(?:^|/)((?:{'|'.join(ROOTS)})/.*)$", file.replace("/bert_keras/src", ""))
        for line, contexts in data.contexts_by_lineno(file).items() if name else ():
            tests[name[1], line] += sorted({context.split("|")[0] for context in contexts if context})
    return tests


def apply_and_test(checkout: pathlib.Path, mutation: dict, tests: dict, *, slow: bool) -> str | None:
    """Apply a mutation, and return the first test that fails, or None."""
    path = checkout / mutation["file"]
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    assert lines[mutation["line"] - 1] == mutation["before"], f"{path} has changed since the mutations were sampled"
    lines[mutation["line"] - 1] = mutation["after"]
    path.write_text("\n".join(lines), encoding="utf-8")
    try:
        for chosen in plan_runs(checkout, mutation, tests, slow=slow):
            if failed := find_first_failure(checkout, chosen):
                return failed
        return None
    finally:
        path.write_text(text, encoding="utf-8")


def plan_runs(checkout: pathlib.Path, mutation: dict, tests: dict, *, slow: bool) -> Iterator[list[str]]:
    """Yield arguments of pytest: the tests that execute the line, then their files and the mirrored folder."""
    covering = mutation.get("tests") or tests.get((mutation["file"], mutation["line"]), [])
    package = pathlib.PurePosixPath(mutation["file"].removeprefix("bert_keras/")).parent
    mirrored = f"tests/{package}" if str(package) != "." else "tests/test_*.py"
    files = sorted({test.split("::")[0] for test in covering})
    folders = sorted({str(pathlib.PurePosixPath(file).parent) for file in files} | {mirrored})
    if slow:
        yield ["-m", "slow", *[str(path) for folder in folders for path in find_paths(checkout, folder)]]
        return
    one_each = {test.split("[")[0]: test for test in reversed(covering)}  # one case of each test first
    if first := [*one_each.values(), *(test for test in covering if test not in one_each.values())][:NUM_FIRST_TESTS]:
        yield ["-m", "not slow", *first]
    yield ["-m", "not slow", *dict.fromkeys([*files, *map(str, find_paths(checkout, mirrored))])]


def find_paths(checkout: pathlib.Path, pattern: str) -> list[pathlib.Path]:
    """Return the paths in a checkout that match a pattern."""
    return [path.relative_to(checkout) for path in sorted(checkout.glob(pattern))]


def find_first_failure(checkout: pathlib.Path, arguments: list[str]) -> str | None:
    """Run pytest; return the first failing test, another reason for the failure, or None."""
    command = [str(checkout / ".venv/bin/python"), "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *arguments]
    try:
        done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=MAX_SECONDS)
    except subprocess.TimeoutExpired:
        return "time limit"
    if done.returncode in (0, 5):  # 5: no test was selected
        return None
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return failed[0] if failed else f"pytest failed ({done.returncode}): {done.stdout[-300:]}{done.stderr[-300:]}"


if __name__ == "__main__":
    sys.exit(main())
