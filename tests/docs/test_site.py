"""The built site: complete, without broken links, and independent of other hosts."""

import html
import json
import re

import pytest

import bert_keras as bk
from bert_keras.cli.main import COMMANDS

from .built_pages import BuiltPage, find_broken_links, find_loads_from_other_hosts, read_pages
from .conftest import REPOSITORY, build

pytestmark = pytest.mark.slow


def test_every_link_of_the_site_leads_to_a_file_and_a_place_in_it(site):
    assert find_broken_links(site) == []


def test_a_broken_link_and_a_broken_fragment_are_found(tmp_path):
    (tmp_path / "a.html").write_text('<a href="b.html">1</a><a href="#none">2</a><a href="a.html#x" id="x">3</a>')
    assert find_broken_links(tmp_path) == ["a.html: b.html", "a.html: #none"]


def test_no_page_loads_anything_from_another_host(site):
    assert find_loads_from_other_hosts(site) == []


def test_a_load_from_another_host_is_found(tmp_path):
    (tmp_path / "a.html").write_text('<script src="https://host/x.js"></script><a href="https://host">link</a>')
    (tmp_path / "a.css").write_text("@font-face { src: url(//host/font) }")
    assert find_loads_from_other_hosts(tmp_path) == ["a.html: https://host/x.js", "a.css: //host/font"]


def test_a_page_with_a_broken_link_is_not_built(tmp_path):
    """The strict build is what `make docs` runs."""
    config = (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.md").write_text("# Page\n\n[gone](gone.md)\n")
    config = re.sub(r"^hooks:\n.*\n", "", config, flags=re.MULTILINE)
    config = re.sub(r"^  - mkdocstrings:\n(?:    .*\n)+", "", config, flags=re.MULTILINE)
    config = config.replace("docs/_site/theme", str(REPOSITORY / "docs/_site/theme")).replace("assets/icon.svg", "")
    (tmp_path / "mkdocs.yml").write_text(config)
    with pytest.raises(AssertionError, match=r"gone\.md"):
        build(tmp_path / "mkdocs.yml", tmp_path / "site")


def test_no_identifier_of_a_page_occurs_twice(site):
    repeated = {
        path: sorted({name for name in page.identifiers if page.identifiers.count(name) > 1})
        for path, page in read_pages(site).items()
    }
    assert {path: names for path, names in repeated.items() if names} == {}


def test_every_markdown_file_and_notebook_of_docs_has_a_page(site):
    docs = REPOSITORY / "docs"
    sources = [*docs.rglob("*.md"), *docs.rglob("*.ipynb")]
    names = {path.relative_to(docs).with_suffix(".html").as_posix() for path in sources}
    assert names <= set(read_pages(site))


def test_every_page_is_in_the_navigation(site):
    """From the start page every page is reached, over links of the navigation or of texts."""
    pages, reached, waiting = read_pages(site), set(), ["index.html"]
    while waiting:
        path = waiting.pop()
        reached.add(path)
        for link in pages[path].links:
            target = (site / path).parent / link.split("#")[0]
            name = target.resolve().relative_to(site.resolve()).as_posix() if ":" not in link else ""
            if name in pages and name not in reached and name not in waiting:
                waiting.append(name)
    assert set(pages) - reached == {"404.html"}


def test_every_public_name_is_on_the_pages_of_the_api(site):
    pages = [page for path, page in read_pages(site).items() if path.startswith("reference/api/")]
    identifiers = {name for page in pages for name in page.identifiers}
    overview = read_pages(site)["reference/api/index.html"].text
    assert {name for name in bk.__all__ if f"bk.{name}" not in overview} == set()
    assert {name for name in bk._PUBLIC_NAMES if f"bert_keras.{name}" not in identifiers} == set()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_argument_of_a_command_is_on_its_page(site, command):
    import cli_reference

    page: BuiltPage = read_pages(site)[f"reference/cli/{command}.html"]
    options = cli_reference.list_options(dict(cli_reference.find_commands())[command])
    assert len(options) >= 2
    for option in options:
        assert all(spelling in page.text for spelling in option.option_strings)
        assert cli_reference.make_identifier(option) in page.identifiers
        words = " ".join((option.help % vars(option)).split())
        assert words in " ".join(page.text.split())


def test_every_message_is_on_the_page_of_errors_and_in_the_search_index(site):
    import error_reference
    import placeholder_names
    import raised_messages

    page = " ".join(read_pages(site)["reference/errors.html"].text.split())
    index = json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))["docs"]
    texts = [entry["text"] for entry in index if entry["location"].startswith("reference/errors.html")]
    indexed = " ".join(html.unescape(re.sub(r"<[^>]*>", "", " ".join(texts))).split())
    parts = [
        re.sub(f"[{placeholder_names.OPEN}{placeholder_names.CLOSE}]", "", part)
        for message in raised_messages.find_messages(REPOSITORY)
        for template in message.templates
        for part in error_reference.split_message(template)
    ]
    missing = {part for part in parts if " ".join(part.split()) not in page}
    assert missing == set()
    assert {part for part in parts if " ".join(part.split()) not in indexed} == set()
