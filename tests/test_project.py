"""Rules of the whole project: who may import whom, what importing costs, what the wheel installs."""

import ast
import functools
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

REPOSITORY = pathlib.Path(__file__).parents[1]

# who may import whom: a module imports from its own row or a row above; pipelines and modeling never meet
BASE = (
    "bert_keras.config",
    "bert_keras.features",
    "bert_keras.errors",
    "bert_keras.files",
    "bert_keras.publishing",
    "bert_keras.staging",
    "bert_keras.array_files",
    "bert_keras.figures",
    "bert_keras.compat",
    "bert_keras.checks",
    "bert_keras.embedding_settings",
    "bert_keras.extras",
    "bert_keras.module_list",
)
ROWS = {
    "bert_keras.array_files": (),
    "bert_keras.checks": ("bert_keras.errors",),
    "bert_keras.compat": (),
    "bert_keras.config": ("bert_keras.errors", "bert_keras.checks"),
    "bert_keras.embedding_settings": ("bert_keras.errors", "bert_keras.checks"),
    "bert_keras.module_list": ("bert_keras.errors", "bert_keras.checks", "bert_keras.files"),
    "bert_keras.features": ("bert_keras.errors",),
    "bert_keras.files": ("bert_keras.errors", "bert_keras.checks"),
    "bert_keras.publishing": ("bert_keras.errors", "bert_keras.checks", "bert_keras.files", "bert_keras.staging"),
    "bert_keras.staging": ("bert_keras.errors", "bert_keras.checks", "bert_keras.files"),
    "bert_keras.extras": ("bert_keras.errors",),
    "bert_keras.figures": ("bert_keras.errors", "bert_keras.extras"),
    "bert_keras.errors": (),
    "bert_keras.registration": (),  # imports by name, once Keras is there
    "bert_keras.pipelines": (*BASE, "bert_keras.pipelines"),
    "bert_keras.distribution": (*BASE, "bert_keras.distribution"),
    "bert_keras.metrics": (*BASE, "bert_keras.metrics"),
    "bert_keras.modeling": (*BASE, "bert_keras.distribution", "bert_keras.modeling"),
    "bert_keras.checkpoints": (*BASE, "bert_keras.pipelines", "bert_keras.modeling", "bert_keras.checkpoints"),
    "bert_keras.tasks": (
        *BASE,
        "bert_keras.metrics",
        "bert_keras.pipelines",
        "bert_keras.modeling",
        "bert_keras.checkpoints",
        "bert_keras.tasks",
    ),
    "bert_keras.training": (
        *BASE,
        "bert_keras.distribution",
        "bert_keras.tasks",
        "bert_keras.pipelines",
        "bert_keras.modeling",
        "bert_keras.checkpoints",
        "bert_keras.training",
    ),
    "bert_keras.export": (
        *BASE,
        "bert_keras.pipelines",
        "bert_keras.modeling",
        "bert_keras.checkpoints",
        "bert_keras.metrics",
        "bert_keras.tasks",
        "bert_keras.export",
    ),
    "bert_keras.analysis": (
        *BASE,
        "bert_keras.pipelines",
        "bert_keras.modeling",
        "bert_keras.checkpoints",
        "bert_keras.metrics",
        "bert_keras.tasks",
        "bert_keras.training",
        "bert_keras.analysis",
    ),
    "bert_keras.cli": ("bert_keras",),
    "bert_keras": ("bert_keras.registration",),
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


def imports_of(path: pathlib.Path) -> set[str]:
    """Return every module that a file imports, also inside its functions."""
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively: write the whole name"
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def row_of(module: str) -> str:
    return max((row for row in ROWS if module == row or module.startswith(f"{row}.")), key=len)


def forbidden_imports(module: str) -> list[str]:
    """Return the modules of ours that a module imports though it stands before them."""
    allowed = ROWS[row_of(module)]
    ours = {name for name in imports_of(MODULES[module]) if name.split(".")[0] == "bert_keras"}
    return [
        name
        for name in ours - {"bert_keras", "bert_keras.__version__", "bert_keras.modeling"}
        if not any(name == row or name.startswith(f"{row}.") for row in allowed)
    ]


def test_a_module_imports_only_from_its_own_row_or_above():
    assert {module: wrong for module in MODULES if (wrong := forbidden_imports(module))} == {}


def test_the_import_rule_covers_every_module():
    assert {row_of(module) for module in MODULES} == set(ROWS)


def test_modeling_imports_no_tensorflow():
    allowed = {"bert_keras", "keras", "numpy", *sys.stdlib_module_names}
    packages = {
        module: {name.split(".")[0] for name in imports_of(path)} - allowed
        for module, path in MODULES.items()
        if module.startswith("bert_keras.modeling")
    }
    assert {module: wrong for module, wrong in packages.items() if wrong} == {}


def test_pipelines_and_modeling_never_meet():
    for module, path in MODULES.items():
        ours = imports_of(path)
        if module.startswith("bert_keras.pipelines"):
            assert not any(name.startswith(("bert_keras.modeling", "keras")) for name in ours), module
        if module.startswith("bert_keras.modeling"):
            assert not any(name.startswith("bert_keras.pipelines") for name in ours), module


def test_no_file_is_named_like_a_package_that_it_imports():
    for folder in ("pipelines", "export"):
        for path in (REPOSITORY / folder).rglob("*.py"):
            assert path.stem not in {name.split(".")[0] for name in imports_of(path)}, path


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


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """The wheel, built from a copy of the sources, so that no left-over file gets in and none is left."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("bert_keras", "pipelines", "export"):
        shutil.copytree(REPOSITORY / name, folder / "source" / name)
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, folder / "source")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    done = subprocess.run([*command, str(folder / "source")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    [path] = folder.glob("*.whl")
    return path


def test_the_wheel_installs_only_bert_keras(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"bert_keras"}
    modules = {
        name.removesuffix(".py").replace("/", ".").removesuffix(".__init__") for name in names if name.endswith(".py")
    }
    assert modules == set(MODULES)


def test_every_module_of_the_wheel_imports(wheel, tmp_path):
    # -S: without this environment's editable install, whose modules would hide a missing one
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path), str(wheel)],
        check=True,
    )
    third_party = next(path for path in sys.path if path.endswith("site-packages"))
    code = (
        "import importlib, sys\n"
        f"sys.path += [{str(tmp_path)!r}, {third_party!r}]\n"
        f"for name in {sorted(MODULES)!r}: importlib.import_module(name)\n"
        "import bert_keras; print(bert_keras.__file__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip().startswith(str(tmp_path))
