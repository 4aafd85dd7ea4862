"""Tests that import torch form one group, and those of every other file their own."""

import ast
import pathlib

from tests.one_process import WITH_TORCH, process_group

REPOSITORY = pathlib.Path(__file__).parents[1]


def test_files_with_torch_form_one_group():
    assert {process_group(f"{path}::test_it") for path in WITH_TORCH} == {"torch"}
    assert process_group("tests/test_files.py::test_it[1]") == "tests/test_files.py"


def test_the_listed_files_exist():
    assert not [path for path in WITH_TORCH if not (REPOSITORY / path).exists()]


def test_no_test_file_imports_torch_when_it_is_collected():
    """Every process collects all files."""
    found = []
    for path in sorted((REPOSITORY / "tests").rglob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            packages = {name.partition(".")[0] for name in names}
            if packages & {"torch", "transformers", "sentence_transformers", "peft"}:
                found.append(f"{path.relative_to(REPOSITORY)}:{node.lineno}")
    assert found == []
