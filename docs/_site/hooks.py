"""Hooks of MkDocs: add the generated pages, map links of the repository to pages, and build the navigation.

MkDocs puts this folder on the import path while it loads this file, so the imports are at the top.
https://www.mkdocs.org/user-guide/configuration/#hooks
"""

import pathlib
import tempfile

import api_reference
import cli_reference
import error_reference
import navigation
import notebook_pages
import repository_pages
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

REPOSITORY = pathlib.Path(__file__).parents[2]
_sources = tempfile.TemporaryDirectory(prefix="bert_keras_site_")


@event_priority(100)  # before mkdocstrings reads its paths
def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Let mkdocstrings read a copy of the sources in which every public name is found in `bert_keras`."""
    api_reference.copy_sources(REPOSITORY, pathlib.Path(_sources.name))
    handlers = config.plugins["mkdocstrings"].config["handlers"]
    handlers["python"]["paths"] = [_sources.name]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages and the files that pages show, and set the navigation."""
    generated: dict[str, str | bytes] = {
        **repository_pages.make_pages(REPOSITORY),
        **cli_reference.make_pages(),
        **api_reference.make_pages(REPOSITORY),
        **error_reference.make_pages(REPOSITORY),
        "assets/icon.svg": (REPOSITORY / "bert_keras/serving/http/pages/icon.svg").read_bytes(),
    }
    for file in list(files):
        if file.src_uri.endswith(".ipynb"):
            generated |= notebook_pages.make_pages(pathlib.Path(file.abs_src_path), file.src_uri)
    for path, content in generated.items():
        files.append(File.generated(config, path, content=content))
    config.nav = navigation.make_navigation([file.src_uri for file in files.documentation_pages()])
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links to files of the repository that are not in `docs/`, and what GitHub reads differently."""
    return repository_pages.unescape_pipes(repository_pages.rewrite_links(markdown, page.file.src_uri, REPOSITORY))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Leave only the topics in the table of contents of the error messages, not every module."""
    if page.file.src_uri == error_reference.PAGE:
        for item in page.toc:
            for topic in item.children:
                topic.children.clear()
    return html


def on_post_build(config: MkDocsConfig) -> None:
    """Remove the copy of the sources."""
    _sources.cleanup()
