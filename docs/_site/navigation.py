"""The navigation: one section for each folder; pages that no list names follow in their order.

Titles of pages are their headings. A page that is added to a folder appears without a change here.
"""

_START = {"index.md": "Home", "start.md": "", "readme.md": "README", "contributing.md": "Contributing"}
_OVERVIEW = "index.md"

# section: folder, and the pages in reading order
_SECTIONS = {
    "Guides": ("guide", ()),
    "Notebooks": ("notebooks", ()),
    "Choosing": ("choosing", ()),
    "Migration": ("migration", ()),
    "Reference": ("reference", ()),
    "Measurements": (
        "measurements",
        ("parity", "training", "fine_tuning", "inference", "serving", "accelerator", "tokenizer"),
    ),
    "Design": ("design", ("architecture", "life_of_a_batch", "decisions", "testing")),
}
# parts of a section with many pages, by their file names
_PARTS = {
    "guide": {
        "Tasks": "finetuning prediction search long_documents small_models".split(),
        "Pretraining": "vocabulary languages records pretraining domain_adaptation".split(),
        "Running a training": "training tracking command_line".split(),
        "Export and targets": "export serving browser phone hub".split(),
        "Plan and inspect": "planning inspecting doctor".split(),
    },
    "reference": {
        "Commands and API": ["cli", "api", "errors", "troubleshooting"],
        "Formats and rules": ["formats", "outputs", "tokenizer", "formulas", "untrusted_files", "glossary"],
    },
}


def make_navigation(pages: list[str]) -> list:
    """Return the navigation in MkDocs' form.

    Args:
        pages: all pages, by their path under `docs/`, in reading order within their folder.
    """
    left = list(pages)
    start = _take(left, lambda page: page in _START, [*_START])
    navigation: list = [{"Start": [{_START[page]: page} if _START[page] else page for page in start]}]
    examples = _take(left, lambda page: page.startswith(("examples/", "files/")), ["examples/about.md"])
    for title, (folder, order) in _SECTIONS.items():
        starts = (f"{folder}/", f"{folder}.md")
        listed: list = _take(left, lambda page, starts=starts: page.startswith(starts), _to_paths(folder, order))
        parts = _split(folder, listed)
        if folder == "guide" and examples:
            parts.append({"Examples": examples})
        if parts:
            navigation.append({title: listed[0] if parts == listed[:1] else parts})
    folders = sorted({page.split("/")[0] for page in left if "/" in page})  # folders that nobody has listed yet
    for folder in folders:
        title = folder.replace("_", " ").capitalize()
        navigation.append({title: _take(left, lambda page, folder=folder: page.startswith(f"{folder}/"), [])})
    navigation.append({"Changelog": [*_take(left, lambda page: page == "changelog.md", []), *left]})
    return navigation


def _take(left: list[str], matches, order: list[str]) -> list[str]:
    """Remove the pages that match from `left` and return them: those of `order`, an overview first, then the rest."""
    taken = [page for page in left if matches(page)]
    left[:] = [page for page in left if page not in taken]

    def place(page: str) -> tuple:
        return not page.endswith(f"/{_OVERVIEW}"), order.index(page) if page in order else len(order)

    return sorted(taken, key=place)


def _to_paths(folder: str, names: tuple) -> list[str]:
    return [f"{folder}/{name}.md" for name in names]


def _split(folder: str, pages: list[str]) -> list:
    """Divide the pages of a folder into its parts; pages of a subfolder form a group of their own."""
    left, parts = list(pages), []
    for title, names in _PARTS.get(folder, {}).items():
        entries: list = []
        for name in names:
            entries += _take(left, lambda page, name=name: page == f"{folder}/{name}.md", [])
            if inside := _take(left, lambda page, name=name: page.startswith(f"{folder}/{name}/"), []):
                entries.append({name.upper() if len(name) == 3 else name.capitalize(): inside})
        if entries:
            parts.append({title: entries})
    if parts and left:
        return [*parts, {"More": left}]
    return parts or left
