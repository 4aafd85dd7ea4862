"""The pages in `docs/migration/`: each pair of snippets computes the same, and every block runs or says why not.

The blocks under "Before" of three pages ran in other environments: `record_migration.py` recorded their results.
"""

import json
import pathlib
import re
import shutil
import warnings

import pytest

from tests.docs.migration_compared import COMPARED, LIVE_SECTIONS, NOT_COMPARED, RECORDED, RECORDED_PAGES
from tests.docs.migration_hub import write_hub_variables
from tests.docs.migration_pages import PAGES, find_difference, hash_blocks, read_blocks, run_blocks
from tests.made_once import made_once

pages = pytest.mark.parametrize("page", COMPARED)


def select(page: str, side: str) -> list:
    """Return the blocks of one side that are run."""
    return [block for block in read_blocks(page) if block.side == side and block.reason is None]


def recorded(page: str) -> dict:
    return json.loads(RECORDED.read_text(encoding="utf-8"))[page]


def test_every_page_is_compared():
    assert {path.stem for path in PAGES.glob("*.md")} == set(COMPARED)


@pages
def test_a_page_begins_with_its_table(page):
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    assert re.search(r"^## (.+)$", text, re.MULTILINE)[1] == "There and here"
    assert re.findall(r"^## (.+)$", text, re.MULTILINE)[-1] == "What you lose, what differs"


@pages
def test_every_pair_is_compared_or_says_why_not(page):
    sides = {block.section: set() for block in read_blocks(page)}
    for block in read_blocks(page):
        sides[block.section].add(block.side)
    pairs = {section for section, both in sides.items() if both == {"before", "after"}}
    not_compared = {section for name, section in NOT_COMPARED if name == page}
    assert pairs == set(COMPARED[page]) | not_compared


@pages
def test_blocks_that_are_not_run_are_few(page):
    blocks = read_blocks(page)
    assert sum(block.reason is not None for block in blocks) <= 1, "run the snippets, that is what the page promises"
    assert {block.language for block in blocks} <= {"python", "bash"}


@pytest.mark.parametrize("page", RECORDED_PAGES)
def test_recorded_results_belong_to_the_blocks_of_the_page(page):
    assert recorded(page)["hash"] == hash_blocks(select(page, "before")), "run tests/docs/record_migration.py again"


def test_a_difference_is_found_with_its_place():
    same = {"a": [1.0, 2.0], "b": "x"}
    assert find_difference(same, same)[0] == 0.0
    assert find_difference(same, {"a": [1.0, 2.5], "b": "x"}) == (0.5, "value['a'][1]")
    assert find_difference(same, {"a": [1.0, 2.0], "b": "y"})[0] == float("inf")
    assert find_difference(same, {"a": [1.0], "b": "x"})[0] == float("inf")
    assert find_difference([1.0, 2.0, 3.0], [1.0, float("nan"), 3.0]) == (float("inf"), "value[1]")


@pytest.fixture
def enter_folder(tmp_path_factory, tmp_path, monkeypatch):
    """A function that makes a folder with the models and files that the pages name the current one."""
    from tests.docs.migration_folders import write_folders

    made = made_once(tmp_path_factory, "migration_folders", write_folders)

    def enter(name):
        shutil.copytree(made, tmp_path / name)
        monkeypatch.chdir(tmp_path / name)

    return enter


def run_command(words: list[str]) -> None:
    """Run `bert-keras` in this process: an import of TensorFlow would take longer than the command."""
    from bert_keras.cli.main import main

    assert words[0] == "bert-keras", f"{words[0]}: only bert-keras is run here"
    assert main(words[1:]) == 0, words


def run_before(page: str) -> dict:
    """Return the results of the blocks under "Before": recorded ones, and those of libraries that are installed."""
    blocks = select(page, "before")
    if page not in RECORDED_PAGES:
        return run_blocks(blocks, COMPARED[page], run_command)
    live = [block for block in blocks if (page, block.section) in LIVE_SECTIONS]
    return {**recorded(page)["values"], **run_blocks(live, COMPARED[page], run_command)}


@pytest.mark.slow
@pages
def test_before_and_after_compute_the_same(page, enter_folder):
    enter_folder("before")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of other libraries; the blocks under "After" must have none
        before = run_before(page)
    enter_folder("after")
    if page == "tf_hub":
        write_hub_variables(pathlib.Path(), recorded(page)["hub_variables"])
    after = run_blocks(select(page, "after"), COMPARED[page], run_command)
    for section, tolerances in COMPARED[page].items():
        for name, tolerance in tolerances.items():
            difference, place = find_difference(before[section][name], after[section][name], name)
            assert difference <= tolerance, f"{page}, {section}: {place}: {difference}"
