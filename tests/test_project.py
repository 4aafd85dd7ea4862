"""Rules of the whole project: who may import whom, and what importing costs."""

import ast
import functools
import pathlib
import re
import subprocess
import sys

import pytest

from bert_keras.architectures.known_architectures import ARCHITECTURES
from bert_keras.heads.known_heads import HEADS

REPOSITORY = pathlib.Path(__file__).parents[1]

# The import rule: a package imports from the root modules, from itself, and from the packages named here.
ROOT_MODULES = {
    "checks": ("errors",),
    "compat": (),
    "config": ("errors", "checks"),
    "embedding_settings": ("errors", "checks", "files"),
    "errors": (),
    "extras": ("errors", "checks", "files"),
    "features": ("errors",),
    "figures": ("errors", "extras"),
    "files": ("errors", "checks"),
    "publishing": ("errors", "checks", "files", "staging"),
    "registration": (),  # imports by name, after Keras is imported
    "staging": ("errors", "checks", "files"),
}
PACKAGES = {
    "display": (),
    "pipelines": (),
    "distribution": (),
    "hub": (),
    "metrics": (),
    "architectures": ("distribution",),
    "heads": (
        "pipelines",
        "distribution",
        "metrics",
        "architectures",
    ),
    "checkpoints": (
        "pipelines",
        "hub",
        "architectures",
        "heads",
    ),
    "engines": (
        "pipelines",
        "metrics",
        "architectures",
        "heads",
        "checkpoints",
    ),
    "serving": (
        "pipelines",
        "heads",
        "checkpoints",
        "engines",
    ),
    "training": (
        "display",
        "pipelines",
        "distribution",
        "metrics",
        "architectures",
        "heads",
        "checkpoints",
        "engines",
    ),
    "export": (
        "pipelines",
        "hub",
        "metrics",
        "architectures",
        "heads",
        "checkpoints",
        "engines",
        "serving",
    ),
    "analysis": (
        "pipelines",
        "metrics",
        "architectures",
        "heads",
        "checkpoints",
        "engines",
        "training",
    ),
    "doctor": (
        "pipelines",
        "metrics",
        "architectures",
        "heads",
        "checkpoints",
        "engines",
        "serving",
        "training",
        "export",
        "analysis",
    ),
    "cli": (
        "display",
        "pipelines",
        "distribution",
        "hub",
        "metrics",
        "architectures",
        "heads",
        "checkpoints",
        "engines",
        "serving",
        "training",
        "export",
        "analysis",
        "doctor",
    ),
}
# what the tests of the size of the code and of its seams allow
MOST_LINES, MOST_MODULES, MOST_NAMING_MODULES = 53_994, 348, 2
EXCEPTIONS = {
    # `from_checkpoint` is a method of every model, so the import is inside it; checkpoints are built on models
    ("bert_keras.architectures.base", "bert_keras.checkpoints.loading"),
}


def source_files() -> dict[str, pathlib.Path]:
    """Every shipped module, by the name under which it is imported."""
    roots = {"bert_keras": "bert_keras", "bert_keras.pipelines": "pipelines", "bert_keras.export": "export"}
    files = {}
    for package, folder in roots.items():
        for path in sorted((REPOSITORY / folder).rglob("*.py")):
            parts = path.relative_to(REPOSITORY / folder).with_suffix("").parts
            files[".".join((package, *parts)).removesuffix(".__init__")] = path
    return files


MODULES = source_files()


@functools.cache
def parsed(path: pathlib.Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def find_imports(path: pathlib.Path) -> set[str]:
    """Return every module that a file imports, also inside its functions."""
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively: write the whole name"
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def layer(module: str) -> str:
    """Return the package or root module of a module: "pipelines", "config", or "" for bert_keras itself."""
    return module.removeprefix("bert_keras").strip(".").split(".")[0]


def allowed_layers(module: str) -> set[str]:
    """Return the layers that a module may import from, its own among them."""
    own = layer(module)
    if own in ROOT_MODULES:
        return {own, *ROOT_MODULES[own]}
    if own in PACKAGES:
        return {own, *PACKAGES[own], *ROOT_MODULES}
    return {"registration"}  # bert_keras/__init__.py imports everything else by name when it is asked for


def forbidden_imports(module: str) -> list[str]:
    """Return our modules and packages that a module imports against the rule; `__version__` is free for all."""
    allowed, found = allowed_layers(module), []
    for name in find_imports(MODULES[module]):
        is_ours = name.startswith("bert_keras.") and name != "bert_keras.__version__"
        if (
            is_ours
            and layer(name) not in allowed
            and not any(module == user and (name == used or name.startswith(f"{used}.")) for user, used in EXCEPTIONS)
        ):
            found.append(name)
    return found


def test_a_module_imports_only_what_the_import_rule_allows():
    assert {module: wrong for module in MODULES if (wrong := forbidden_imports(module))} == {}


def test_the_import_rule_covers_every_module_and_package():
    assert {layer(module) for module in MODULES} == {*ROOT_MODULES, *PACKAGES, ""}


def test_every_exception_to_the_import_rule_is_needed():
    assert all(used in find_imports(MODULES[module]) for module, used in EXCEPTIONS)


def test_packages_import_in_one_direction():
    """No package imports, directly or through others, from a package that imports from it."""
    order = [*PACKAGES]
    for package, imported in PACKAGES.items():
        assert all(order.index(other) < order.index(package) for other in imported), package


def test_shipped_code_does_not_grow_unnoticed():
    """A commit that adds lines or modules raises these numbers and says why. The next target is 46,000 lines in 330."""
    num_lines = sum(path.read_text(encoding="utf-8").count("\n") for path in MODULES.values())
    assert (num_lines <= MOST_LINES, len(MODULES) <= MOST_MODULES) == (True, True), (num_lines, len(MODULES))


def find_concrete_names(path: pathlib.Path) -> set[str]:
    """Return the heads, tasks and architectures that a file decides by: classes, and strings that it compares.

    A string with such a name that is passed on (a default, a recipe, a word in a message) decides nothing.
    """
    classes = {head.model_name for head in HEADS if head.task or head.plan_name}
    classes |= {head.task.partition(":")[2] for head in HEADS if head.task} | {"ElectraPretrainer"}
    strings = classes | {head.name for head in HEADS if head.task} | set(ARCHITECTURES)
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Name | ast.Attribute | ast.alias):
            found |= {getattr(node, "id", None) or getattr(node, "attr", None) or node.name} & classes
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= {node.value} & classes
        elif isinstance(node, ast.Compare):
            found |= find_strings(node) & strings
        elif (
            isinstance(node, ast.Dict)
            and len(keys := {find for key in node.keys if key for find in find_strings(key)} & strings) > 1
        ):
            found |= keys
    return found


def find_strings(node: ast.AST) -> set[str]:
    """Return the strings in an expression, except the keys in square brackets."""
    if isinstance(node, ast.Constant):
        return {node.value} if isinstance(node.value, str) else set()
    parts = [node.value] if isinstance(node, ast.Subscript) else ast.iter_child_nodes(node)
    return set().union(*map(find_strings, parts))


def list_own_modules() -> set[str]:
    """Return the modules of models, tasks, readers and graphs: the only ones beside the records that know a head."""
    parts = ("model", "task", "training_reader", "graph")
    return {named.partition(":")[0] for head in HEADS for part in parts if (named := getattr(head, part))}


def test_few_modules_name_a_concrete_head_or_architecture():
    """Modules ask the records, except those of the heads and architectures, and the one that lists the public API."""
    own = list_own_modules()
    found = {
        module: sorted(names)
        for module, path in MODULES.items()
        if not module.startswith(("bert_keras.heads.", "bert_keras.architectures."))
        and module not in {"bert_keras", *own}
        and (names := find_concrete_names(path))
    }
    assert len(found) <= MOST_NAMING_MODULES, "\n".join(f"{module}: {names}" for module, names in found.items())


def test_every_package_says_what_is_inside_and_where_to_start():
    for module, path in MODULES.items():
        if path.name == "__init__.py" and module != "bert_keras":
            docstring = ast.get_docstring(parsed(path)) or ""
            assert re.search("start (with|reading)", docstring, re.IGNORECASE), module


def is_model(module: str) -> bool:
    """Return whether a module is part of a model."""
    return module.startswith("bert_keras.architectures") or module in {head.model.partition(":")[0] for head in HEADS}


def test_models_import_no_tensorflow_but_for_their_kernels():
    allowed = {"bert_keras", "keras", "numpy", *sys.stdlib_module_names}
    packages = {
        module: {name.split(".")[0] for name in find_imports(path)} - allowed
        for module, path in MODULES.items()
        if is_model(module) and module != "bert_keras.architectures.tensorflow_kernels"
    }
    assert {module: wrong for module, wrong in packages.items() if wrong} == {}


def test_pipelines_and_models_never_meet():
    for module, path in MODULES.items():
        ours = find_imports(path)
        if module.startswith("bert_keras.pipelines"):
            assert not any(name == "keras" or name.startswith("keras.") or is_model(name) for name in ours), module
        if is_model(module):
            assert not any(name.startswith("bert_keras.pipelines") for name in ours), module


def test_no_file_is_named_like_a_package_that_it_imports():
    for folder in ("pipelines", "export"):
        for path in (REPOSITORY / folder).rglob("*.py"):
            assert path.stem not in {name.split(".")[0] for name in find_imports(path)}, path


def test_nothing_shipped_asserts():
    assert [
        module
        for module, path in MODULES.items()
        if any(isinstance(node, ast.Assert) for node in ast.walk(parsed(path)))
    ] == []


@pytest.mark.parametrize(
    "code",
    [
        "import bert_keras",
        "import bert_keras as bk; bk.BertConfig.from_preset('base'); dir(bk)",
        "from bert_keras.cli.main import main\ntry: main(['--help'])\nexcept SystemExit: pass",
    ],
)
def test_importing_loads_no_package_that_takes_long(code):
    """0.03 to 0.13 s were measured for these three; TensorFlow alone takes seconds, NumPy 0.1 s."""
    slow = {"tensorflow", "keras", "torch", "jax", "numpy", "scipy", "sklearn", "matplotlib", "tokenizers", "onnx"}
    check = f"\nimport sys; sys.exit(sorted({slow} & set(sys.modules)) or 0)"
    done = subprocess.run([sys.executable, "-c", code + check], capture_output=True, text=True, cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr


def test_every_public_name_can_be_had():
    import bert_keras as bk

    for name in bk.__all__:
        assert getattr(bk, name) is not None
    with pytest.raises(AttributeError, match=r"no attribute 'BertEncoderr'.*BertEncoder"):
        bk.BertEncoderr  # noqa: B018
