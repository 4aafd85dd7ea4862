"""What a release contains: the wheel, the source distribution, and the files that describe and build them."""

import configparser
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest
import yaml

import bert_keras
from tests.test_project import MODULES

REPOSITORY = pathlib.Path(__file__).parents[1]
WORKFLOWS = sorted((REPOSITORY / ".github/workflows").glob("*.yml"))
PYTHONS = ["3.10", "3.11", "3.12", "3.13"]
SOURCES = ("bert_keras", "pipelines", "export")
FILES = "setup.cfg pyproject.toml MANIFEST.in README.md LICENSE NOTICE CHANGELOG.md CITATION.cff".split()
SCHEMAS = {
    "vendor.github-workflows": ".github/workflows/*.yml",
    "vendor.github-issue-forms": ".github/ISSUE_TEMPLATE/[!c]*.yml",
    "vendor.github-issue-config": ".github/ISSUE_TEMPLATE/config.yml",
    "vendor.citation-file-format": "CITATION.cff",
}


def run(*command: object, cwd: pathlib.Path = REPOSITORY) -> str:
    """Run a command and return its output."""
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="session")
def distributions(tmp_path_factory):
    """The wheel and the source distribution, built from a copy of the repository with a test in it."""
    folder = tmp_path_factory.mktemp("distributions")
    for name in SOURCES:
        shutil.copytree(REPOSITORY / name, folder / "source" / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(REPOSITORY / name, folder / "source")
    (folder / "source/tests").mkdir()
    shutil.copy(__file__, folder / "source/tests")  # setuptools adds such files to a source distribution by itself
    run(sys.executable, "-m", "build", "--no-isolation", "--sdist", "--wheel", "--outdir", folder, folder / "source")
    return folder


@pytest.fixture(scope="session")
def wheel(distributions):
    [path] = distributions.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def source_names(distributions):
    """The paths in the source distribution, without its top folder."""
    [path] = distributions.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def test_the_wheel_installs_only_bert_keras(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"bert_keras"}
    modules = {
        name.removesuffix(".py").replace("/", ".").removesuffix(".__init__") for name in names if name.endswith(".py")
    }
    assert modules == set(MODULES)


def test_the_wheel_contains_every_file_of_the_packages(wheel):
    """Tables, pages and recipes too: a missing line in setup.cfg would be noticed by users only."""
    names = {name for name in zipfile.ZipFile(wheel).namelist() if "dist-info" not in name}
    expected = {
        ("" if root == "bert_keras" else "bert_keras/") + path.relative_to(REPOSITORY).as_posix()
        for root in SOURCES
        for path in (REPOSITORY / root).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert names == expected


def test_the_wheel_contains_the_licences(wheel):
    with zipfile.ZipFile(wheel) as archive:
        licences = {pathlib.PurePath(name).name for name in archive.namelist() if "/licenses/" in name}
    assert licences == {"LICENSE", "NOTICE"}


def test_the_source_distribution_contains_the_package_and_no_tests(source_names):
    assert not [name for name in source_names if name.startswith("tests")]
    assert set(FILES) - {"setup.cfg"} <= source_names
    assert {f"{root}/__init__.py" for root in SOURCES} <= source_names


@pytest.mark.slow
def test_the_source_distribution_builds_the_same_wheel(distributions, wheel, tmp_path):
    [path] = distributions.glob("*.tar.gz")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", tmp_path, path)
    [again] = tmp_path.glob("*.whl")
    assert sorted(zipfile.ZipFile(again).namelist()) == sorted(zipfile.ZipFile(wheel).namelist())


def test_pypi_accepts_the_distributions(distributions):
    files = [path for path in distributions.iterdir() if path.is_file()]
    assert len(files) == 2
    run(sys.executable, "-m", "twine", "check", "--strict", *files)


@pytest.mark.slow
def test_every_module_of_the_wheel_imports(wheel, tmp_path):
    # -S: without this environment's editable install, whose modules would hide a missing one
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", tmp_path, wheel)
    third_party = next(path for path in sys.path if pathlib.Path(path, "tensorflow").is_dir())
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


@pytest.mark.parametrize("schema", SCHEMAS)
def test_files_for_the_hosting_service_follow_their_schemas(schema, capsys):
    import check_jsonschema

    files = [*map(str, sorted(REPOSITORY.glob(SCHEMAS[schema])))]
    assert files
    with pytest.raises(SystemExit) as ended:  # in this process: importing the program takes longer than its work
        check_jsonschema.main(["--builtin-schema", schema, *files])
    assert ended.value.code == 0, capsys.readouterr().out


def test_workflows_have_no_known_weakness():
    zizmor = pathlib.Path(sys.executable).with_name("zizmor")
    run(zizmor, "--offline", "--no-progress", "--config", ".github/zizmor.yml", ".github/workflows")


def test_workflows_run_targets_of_the_makefile():
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = set()
    for path in WORKFLOWS:
        for command in re.findall(r"make ([a-z-].*)$", path.read_text(encoding="utf-8"), re.MULTILINE):
            words = re.sub(r"\$\{\{.*?\}\}", "%", command).split()
            targets |= {word for word in words if "=" not in word}
    assert targets >= {"lint", "test", "test-all", "distributions"}
    assert {target for target in targets if not re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE)} == set()


def read_steps(workflow: str, job: str) -> list[str]:
    """Return the commands of a job in their order; empty for steps that run an action."""
    content = yaml.safe_load((REPOSITORY / f".github/workflows/{workflow}.yml").read_text(encoding="utf-8"))
    return [step.get("run", "") for step in content["jobs"][job]["steps"]]


@pytest.mark.parametrize(
    ("tag", "status"), [(f"v{bert_keras.__version__}", 0), ("v0.0.1", 1), (bert_keras.__version__, 1)]
)
def test_a_release_has_the_tag_of_its_version(tag, status):
    [check] = [step for step in read_steps("release", "build") if "GITHUB_REF_NAME" in step]
    environment = {**os.environ, "GITHUB_REF_NAME": tag}
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", check], cwd=REPOSITORY, capture_output=True, text=True, env=environment
    )
    assert done.returncode == status, done.stderr
    assert (f"the tag is {tag}; expected v{bert_keras.__version__}:" in done.stdout) == bool(status)


def test_the_quick_suite_runs_before_a_release_is_built():
    steps = read_steps("release", "build")
    assert steps.index("make lint test") < steps.index("make distributions sbom")


def test_the_nightly_run_fails_without_a_browser():
    """Tests in a browser skip without one."""
    steps = read_steps("nightly", "long")
    assert steps.index("chromium --version") < steps.index("make test-all")


def test_workflows_test_every_supported_python():
    setup = configparser.ConfigParser()
    setup.read(REPOSITORY / "setup.cfg")
    classifiers = re.findall(r":: (3\.\d+)$", setup["metadata"]["classifiers"], re.MULTILINE)
    tests = yaml.safe_load((REPOSITORY / ".github/workflows/tests.yml").read_text())
    release = yaml.safe_load((REPOSITORY / ".github/workflows/release.yml").read_text())
    for pythons in (
        classifiers,
        tests["jobs"]["quick"]["strategy"]["matrix"]["python"],
        release["jobs"]["wheel"]["strategy"]["matrix"]["python"],
        sorted(path.stem.removeprefix("python") for path in (REPOSITORY / "constraints").glob("*.txt")),
    ):
        assert pythons == PYTHONS


def test_citation_and_changelog_are_those_of_the_version():
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text(encoding="utf-8"))
    changelog = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## (\S+) \((\S+)\)$", changelog, re.MULTILINE)
    released = [section for section in sections if section[1] != "unreleased"]
    assert (citation["version"], str(citation["date-released"])) == released[0]
    assert bert_keras.__version__.partition(".dev")[0] == sections[0][0]
    assert (".dev" in bert_keras.__version__) == (sections[0][1] == "unreleased")


def test_the_notice_names_every_table_of_unicode():
    notice = (REPOSITORY / "NOTICE").read_text(encoding="utf-8")
    assert "UNICODE LICENSE V3" in notice
    for path in (REPOSITORY / "pipelines").rglob("unicode_*.txt"):
        assert path.relative_to(REPOSITORY).as_posix() in notice


@pytest.mark.parametrize("python", PYTHONS)
def test_constraints_satisfy_the_requirements(python):
    """Each version that was recorded is one that the package allows on this Python."""
    from packaging.requirements import Requirement

    lines = (REPOSITORY / f"constraints/python{python}.txt").read_text(encoding="utf-8").splitlines()
    versions = dict(line.split("==") for line in lines if not line.startswith("#"))
    setup = configparser.ConfigParser()
    setup.read(REPOSITORY / "setup.cfg")
    required = setup["options"]["install_requires"] + "".join(setup["options.extras_require"].values())
    environment = {"python_version": python, "sys_platform": "linux"}
    checked = 0
    for line in filter(None, required.splitlines()):
        requirement = Requirement(line)
        if requirement.name == "bert-keras" or (requirement.marker and not requirement.marker.evaluate(environment)):
            continue
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        assert requirement.specifier.contains(versions[name], prereleases=True), (line, versions[name])
        checked += 1
    assert checked > 30
