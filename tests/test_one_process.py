"""Tests that import torch form one group, and those of every other file their own."""

import pathlib

from tests.one_process import WITH_TORCH, process_group

REPOSITORY = pathlib.Path(__file__).parents[1]


def test_files_with_torch_form_one_group():
    assert {process_group(f"{path}::test_it") for path in WITH_TORCH} == {"torch"}
    assert process_group("tests/test_files.py::test_it[1]") == "tests/test_files.py"


def test_the_listed_files_exist():
    assert not [path for path in WITH_TORCH if not (REPOSITORY / path).exists()]
