"""Pages of files outside `docs/`: README, changelog, the examples; links to them lead to these pages."""

import os
import pathlib
import posixpath
import re

_ROOT_PAGES = {"README.md": "readme.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
_LINK = re.compile(r"(\]\()([^)#\s]*)((?:#[^)\s]*)?\))")
_CODE = re.compile(r"(^```.*?^```|`[^`\n]+`)", re.MULTILINE | re.DOTALL)  # no links are in it
_INLINE_CODE = re.compile(r"`[^`\n]+`")
_TABLE_ROW = re.compile(r"^\|.*$", re.MULTILINE)
_LANGUAGES = {".py": "python", ".ts": "typescript", ".js": "javascript", ".java": "java", ".toml": "toml"}
_EXAMPLES = "examples"


def find_sources(repository: pathlib.Path) -> dict[str, str]:
    """Return the Markdown files outside `docs/` that become pages: path in the repository to path of the page.

    Names of these pages differ from `index.md` and `README.md`, which MkDocs treats as the page of their folder.
    """
    pages = {name: page for name, page in _ROOT_PAGES.items() if (repository / name).exists()}
    for path in sorted(repository.glob(f"{_EXAMPLES}/**/README.md")):
        if "node_modules" not in path.parts:
            folder = path.parent.relative_to(repository).as_posix()
            pages[f"{folder}/README.md"] = f"{folder}/about.md"
    return pages


def make_pages(repository: pathlib.Path) -> dict[str, str | bytes]:
    """Return the pages of the Markdown files outside `docs/`, and of the source files and pictures they link to."""
    sources = find_sources(repository)
    pages: dict[str, str | bytes] = {
        page: (repository / source).read_text(encoding="utf-8") for source, page in sources.items()
    }
    for linked in sorted(_find_linked_files(repository, [*sources])):
        pages[_to_listing(linked)] = _list_source(repository, linked)
    return pages


def rewrite_links(markdown: str, page: str, repository: pathlib.Path) -> str:
    """Return the Markdown of a page with its links changed from paths in the repository to paths of pages.

    Args:
        markdown: the text of the page.
        page: its path on the site.
        repository: the folder of the repository.
    """
    source = {target: origin for origin, target in find_sources(repository).items()}.get(page, f"docs/{page}")

    def rewrite(match: re.Match) -> str:
        link = match[2]
        if not link or ":" in link:
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
        target = _find_target(repository, path)
        return match[1] + posixpath.relpath(target, posixpath.dirname(page) or ".") + match[3]

    parts = _CODE.split(markdown)
    return "".join(part if index % 2 else _LINK.sub(rewrite, part) for index, part in enumerate(parts))


def unescape_pipes(markdown: str) -> str:
    r"""Replace `\|` in code in tables by a pipe: GitHub needs the backslash, Python-Markdown would show it."""
    return _TABLE_ROW.sub(lambda row: _INLINE_CODE.sub(lambda code: code[0].replace("\\|", "|"), row[0]), markdown)


def _find_target(repository: pathlib.Path, path: str) -> str:
    """Return where on the site a file of the repository is."""
    if path.startswith("docs/"):
        folder = repository / path
        if folder.is_dir():  # its overview, or its first page
            pages = sorted([*folder.glob("index.md"), *folder.glob("*.md"), *folder.glob("*.ipynb")])
            path = f"{path}/{min(pages, key=lambda file: file.name != 'index.md').name}" if pages else path
        return re.sub(r"\.ipynb$", ".md", path.removeprefix("docs/"))
    if (repository / path).is_dir():
        path = posixpath.join(path, "README.md")
    return find_sources(repository).get(path) or _to_listing(path)


def _find_linked_files(repository: pathlib.Path, sources: list[str]) -> set[str]:
    """Return the files outside `docs/` that any page links to and that are no pages."""
    docs = [path.relative_to(repository).as_posix() for path in (repository / "docs").rglob("*.md")]
    linked = set()
    for source in [*sources, *docs]:
        for _, link, _ in _LINK.findall(_CODE.sub("", (repository / source).read_text(encoding="utf-8"))):
            path = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
            is_ours = link and ":" not in link and not path.startswith("docs/") and path not in sources
            if is_ours and (repository / path).is_file():
                linked.add(path)
    return linked


def _to_listing(path: str) -> str:
    return f"files/{path}.md"


def _list_source(repository: pathlib.Path, path: str) -> str:
    """Return a page that shows a source file."""
    language = _LANGUAGES.get(os.path.splitext(path)[1], "text")
    text = (repository / path).read_text(encoding="utf-8")
    return f"# `{path}`\n\n````{language}\n{text.rstrip()}\n````\n"
