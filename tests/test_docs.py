"""The documentation: links lead to files; the life of a batch has the shapes that its page says."""

import pathlib
import re

from tests.code_blocks import read_blocks
from tests.running_blocks import PageRunner

REPOSITORY = pathlib.Path(__file__).parents[1]
DOCS = REPOSITORY / "docs"
PAGES = [REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(DOCS.rglob("*.md"))
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")


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


def test_the_life_of_a_batch_has_the_shapes_and_values_of_its_page(tmp_path, capsys, monkeypatch):
    with PageRunner(tmp_path, capsys, monkeypatch) as runner:
        for block in read_blocks("docs/design/life_of_a_batch.md"):
            if block.is_run:
                runner.run(block)
    assert runner.num_checked == 10
