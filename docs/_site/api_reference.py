"""The pages of the Python API: every public name of `bert_keras`, grouped by topic, from the docstrings.

mkdocstrings reads sources without importing them. It expects a module at the place that its name says, so it gets a
copy: `pipelines/` and `export/` are inside `bert_keras/`, and `__init__.py` imports the public names.
"""

import ast
import pathlib
import re

import bert_keras

_FOLDER = "reference/api"
# names of a topic in reading order; public names that no topic lists become a topic of their own
_TOPICS = {
    "Models": (
        "models",
        "Keras models with plain `compile`, `fit` and `predict`. They take and return dicts of tensors.",
        (
            "BertConfig BertEncoder BertClassifier BertTokenClassifier BertQuestionAnswerer BertEmbedder BertMaskedLM "
            "BertPretrainer ElectraPretrainer"
        ).split(),
    ),
    "Tokenizer and data": (
        "data",
        "Text to tokens, batches and records.",
        "BertTokenizer pack learn_vocabulary make_records".split(),
    ),
    "Checkpoints": (
        "checkpoints",
        "Open, save and convert BERT folders.",
        "load load_tokenizer save convert push".split(),
    ),
    "Training": ("training", "What the commands `pretrain` and `finetune` do.", "pretrain finetune distill".split()),
    "Prediction and evaluation": (
        "prediction",
        "Texts in, answers out; the scores of a model.",
        "Predictor evaluate fill_mask".split(),
    ),
    "Export": ("export", "Artifacts that are checked against their checkpoint.", ["export_model"]),
    "Analysis": ("analysis", "Cost and behavior of a model.", "plan inspect doctor".split()),
    "Errors": ("errors", "Exceptions of bad input.", ["InputError"]),
}
_MODULES = {"export": "export", "pipelines": "pipelines"}  # folder of the repository: where the copy is


def find_topics() -> list[tuple[str, str, str, list[str]]]:
    """Return the topics: title, file name, sentence, names."""
    public = [*bert_keras._PUBLIC_NAMES]
    topics = [
        (title, file, text, [name for name in names if name in public])
        for title, (file, text, names) in _TOPICS.items()
    ]
    listed = {name for *_, names in topics for name in names}
    more = [name for name in public if name not in listed]
    return [*topics, ("More", "more", "Other public names.", more)] if more else topics


def make_pages(repository: pathlib.Path) -> dict[str, str | bytes]:
    """Return the page of every topic and their overview, by path."""
    pages: dict[str, str | bytes] = {}
    overview = [
        "# Python API",
        "",
        "`import bert_keras as bk` imports nothing else; each name loads what it needs when it is used first.",
        "Shapes use the letters B batch, S sequence, M masked positions, N heads, D hidden.",
        "Every mask is 1 = real token, 0 = padding.",
        "",
    ]
    for title, file, sentence, names in find_topics():
        blocks = [f"::: bert_keras.{name}\n" for name in names]
        pages[f"{_FOLDER}/{file}.md"] = "\n".join([f"# {title}", "", sentence, "", *blocks])
        rows = [f"| [`bk.{name}`]({file}.md#bert_keras.{name}) | {_summarize(repository, name)} |" for name in names]
        overview += [f"## {title}", "", "| name | purpose |\n|---|---|", *rows, ""]
    overview += ["## Packages and version", "", "| name | contents |\n|---|---|"]
    for name in bert_keras._PUBLIC_MODULES:
        docstring = ast.get_docstring(ast.parse((repository / name / "__init__.py").read_text(encoding="utf-8")))
        overview.append(f"| `bk.{name}` | {_to_cell(docstring)} |")
    overview.append("| `bk.__version__` | The version of the package, a string. |\n")
    pages[f"{_FOLDER}/index.md"] = "\n".join(overview)
    return pages


def copy_sources(repository: pathlib.Path, folder: pathlib.Path) -> None:
    """Copy the shipped sources so that a module's file has the place that its name says.

    "Example:" becomes "Examples:", the heading of doctests that the reader of docstrings knows.
    """
    for source, target in {
        "bert_keras": "bert_keras",
        "pipelines": "bert_keras/pipelines",
        "export": "bert_keras/export",
    }.items():
        for path in sorted((repository / source).rglob("*.py")):
            copy = folder / target / path.relative_to(repository / source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            text = path.read_text(encoding="utf-8")
            copy.write_text(re.sub(r"^( +)Example:$", r"\1Examples:", text, flags=re.MULTILINE), encoding="utf-8")
    imports = [f"from {find_module(repository, name)} import {name}" for name in bert_keras._PUBLIC_NAMES]
    (folder / "bert_keras/__init__.py").write_text("\n".join(imports), encoding="utf-8")


def find_module(repository: pathlib.Path, name: str) -> str:
    """Return the module that defines a public name, also when a package exports it."""
    package = bert_keras._PUBLIC_NAMES[name]
    path = _to_path(repository, package)
    if path.is_dir():
        [path] = [file for file in sorted(path.rglob("*.py")) if _find_definition(file, name) is not None]
        return ".".join([package, *path.relative_to(_to_path(repository, package)).with_suffix("").parts])
    return package


def _to_path(repository: pathlib.Path, module: str) -> pathlib.Path:
    """Return the folder of a package or the file of a module."""
    parts = module.split(".")
    parts = parts[1:] if parts[1:2] and parts[1] in _MODULES else parts
    folder = repository.joinpath(*parts)
    return folder if folder.is_dir() else folder.with_suffix(".py")


def _find_definition(path: pathlib.Path, name: str) -> ast.ClassDef | ast.FunctionDef | None:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return node
    return None


def _summarize(repository: pathlib.Path, name: str) -> str:
    path = _to_path(repository, find_module(repository, name))
    return _to_cell(ast.get_docstring(_find_definition(path, name)))


def _to_cell(docstring: str | None) -> str:
    return " ".join((docstring or "").split("\n\n")[0].split()).replace("|", "\\|")
