"""The documentation: its Python blocks run and return what their comments say; links lead to files."""

import ast
import pathlib
import re

import pytest
import tensorflow as tf

REPOSITORY = pathlib.Path(__file__).parents[1]
DOCS = REPOSITORY / "docs"
PAGES = [REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(DOCS.rglob("*.md"))
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
VALUE = re.compile(
    r"  # (\([\d, ]*\)|\[[\d, \[\]]*\]|[\d.]+)(?:$|:)"
)  # a shape, a list or a number, and an explanation


def test_links_lead_to_files():
    broken = [
        f"{page.relative_to(REPOSITORY)}: {link}"
        for page in PAGES
        for link in LINK.findall(page.read_text(encoding="utf-8"))
        if not link.startswith("http") and not (page.parent / link).exists()
    ]
    assert broken == []


def test_every_page_is_reached_from_the_index():
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    linked = {(DOCS / link).resolve() for link in LINK.findall(index)}
    assert {page for page in DOCS.rglob("*.md") if page.name != "index.md"} <= linked


def test_the_readme_fits_on_two_screens():
    assert len((REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()) <= 130


def plain(value):
    """Return a shape as a tuple and a tensor or array as a list."""
    if isinstance(value, tf.TensorShape):
        return tuple(value)
    value = value.numpy() if hasattr(value, "numpy") else value
    return value.tolist() if hasattr(value, "tolist") else value


def test_the_life_of_a_batch_has_the_shapes_and_values_of_its_page():
    page = (DOCS / "design/life_of_a_batch.md").read_text(encoding="utf-8")
    names: dict = {}
    checked = 0
    for block in re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        exec(compile(block, "life_of_a_batch.md", "exec"), names)
        for statement in ast.parse(block).body:
            line = block.splitlines()[statement.end_lineno - 1]
            if isinstance(statement, ast.Expr) and (comment := VALUE.search(line)):
                value = eval(compile(ast.Expression(statement.value), "life_of_a_batch.md", "eval"), names)
                assert plain(value) == ast.literal_eval(comment[1]), line
                checked += 1
    assert checked == 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_commands_on_a_page_are_known(page):
    from bert_keras.cli.main import COMMANDS

    commands = re.findall(r"^\$? ?bert-keras ([a-z][a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(commands) <= set(COMMANDS)
