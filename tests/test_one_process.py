"""Tests that import torch are kept together, and those of every other file by themselves."""

import pathlib

from tests.one_process import WITH_TORCH, process_group

REPOSITORY = pathlib.Path(__file__).parents[1]


def test_files_with_torch_are_one_group_and_others_are_not():
    assert {process_group(f"{path}::test_it") for path in WITH_TORCH} == {"torch"}
    assert process_group("tests/test_files.py::test_it[1]") == "tests/test_files.py"


def test_a_renamed_file_does_not_leave_the_list():
    assert not [path for path in WITH_TORCH if not (REPOSITORY / path).exists()]
