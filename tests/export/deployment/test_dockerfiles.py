"""The Dockerfiles in `deploy/docker/`, parsed by dockerfile-parse; their packages are compared with the imports."""

import ast
import configparser
import importlib.metadata
import json
import pathlib
import re
from collections.abc import Iterable, Iterator

import dockerfile_parse
import pytest
from packaging.requirements import Requirement

import bert_keras as bk
from bert_keras.cli.commands import serve
from bert_keras.export.deployment_bundle import SERVER_PACKAGES, TRITON_PACKAGES
from bert_keras.serving.http.operation import OPERATION
from tests.export.deployment.conftest import NAME
from tests.serving.running_server import RunningServer
from tests.test_project import MODULES, REPOSITORY, parsed

PACKAGE_NAMES = {
    "google": "protobuf",
    "grpc": "grpcio",
    "prometheus_client": "prometheus-client",
}  # the others are equal
# modules whose functions import packages that serving an ONNX file needs; elsewhere functions import Keras and others
LAZY = (
    "bert_keras.engines.onnxruntime_engine",
    "bert_keras.pipelines.text.portable_tokenizer",
    "bert_keras.compat",
)
# for other engines, for --otlp-endpoint, and for models on the Hub: the images contain theirs
NOT_NEEDED = {"tensorflow", "keras", "opentelemetry", "huggingface_hub"}


def read_instructions(path: pathlib.Path) -> list[tuple[str, str]]:
    with path.open("rb") as file:
        structure = dockerfile_parse.DockerfileParser(fileobj=file).structure
    return [(line["instruction"], line["value"]) for line in structure if line["instruction"] != "COMMENT"]


def get_values(instructions: list[tuple[str, str]], name: str) -> list[str]:
    return [value for instruction, value in instructions if instruction == name]


def read_packages(instructions: list[tuple[str, str]]) -> tuple[str, ...]:
    """Return the requirements that a Dockerfile installs with their dependencies."""
    with_dependencies, without = get_values(instructions, "RUN")[0].split("&&")
    assert re.fullmatch(
        r'\s*pip install --no-cache-dir --no-deps --find-links /tmp/wheels "bert-keras==\$\{BERT_KERAS_VERSION\}"',
        without,
    )
    return tuple(re.findall(r'"([^"]+)"', with_dependencies))


def test_server_image_runs_the_server_as_a_user_without_rights(deployed):
    out = deployed("classifier")
    instructions = read_instructions(out / "deploy/docker/Dockerfile")
    assert [name for name, _ in instructions] == (
        "FROM ARG COPY RUN ENV ENV USER EXPOSE HEALTHCHECK FROM COPY CMD".split()
    )
    assert get_values(instructions, "FROM") == ["python:3.11-slim AS server", "server"]
    assert get_values(instructions, "ARG") == [f"BERT_KERAS_VERSION={bk.__version__}"]
    assert read_packages(instructions) == SERVER_PACKAGES
    assert get_values(instructions, "ENV") == ["OMP_NUM_THREADS=1", "ORT_DISABLE_TELEMETRY=1"]
    [user] = get_values(instructions, "USER")
    assert int(user.split(":")[0]) > 0  # a number, because Kubernetes' runAsNonRoot cannot check a name
    assert get_values(instructions, "EXPOSE") == ["8500 8501"]
    command = json.loads(get_values(instructions, "CMD")[0])
    assert command == ["bert-keras", "serve", "--host", "0.0.0.0", "--model", f"{NAME}=/models/{NAME}"]
    sources = [value.split() for value in get_values(instructions, "COPY")]
    assert sources == [["deploy/docker", "/tmp/wheels"], ["onnx", f"/models/{NAME}"]]
    assert all((out / source).is_dir() for source, _ in sources)


def test_health_check_calls_an_endpoint_of_the_server(deployed):
    instructions = read_instructions(deployed("classifier") / "deploy/docker/Dockerfile")
    [check] = get_values(instructions, "HEALTHCHECK")
    python, option, code = json.loads(check.split("CMD", 1)[1])
    assert (python, option) == ("python", "-c")
    compile(code, "HEALTHCHECK", "exec")
    path = re.search(r"http://127.0.0.1:8501(/[a-z/]+)'", code)[1]
    assert path in {endpoint.path for endpoint in OPERATION.endpoints}


@pytest.mark.parametrize(("kind", "has_texts"), [("classifier", True), ("encoder", False)])
def test_triton_image_contains_the_onnx_files_where_the_models_look_for_them(kind, has_texts, deployed):
    out = deployed(kind)
    instructions = read_instructions(out / "deploy/docker/triton.Dockerfile")
    assert get_values(instructions, "FROM") == ["nvcr.io/nvidia/tritonserver:${TRITON_VERSION}-py3"]
    assert json.loads(get_values(instructions, "CMD")[0]) == ["tritonserver", "--model-repository=/models"]
    copies = dict(value.split() for value in get_values(instructions, "COPY"))
    assert copies["deploy/triton"] == "/models"
    if has_texts:
        assert read_packages(instructions) == TRITON_PACKAGES
        assert copies["onnx"] == f"/models/{NAME}/onnx"
        link = get_values(instructions, "RUN")[1]
        assert link == f"ln -s /models/{NAME}/onnx/onnx /models/{NAME}_ids/1"
    else:
        assert copies["onnx/onnx"] == f"/models/{NAME}_ids/1"
    assert all((out / source).is_dir() for source in copies)


def test_versions_of_packages_are_those_of_setup_cfg():
    setup = configparser.ConfigParser()
    setup.read(REPOSITORY / "setup.cfg")
    extras = setup["options.extras_require"]
    lines = (setup["options"]["install_requires"] + extras["onnx"] + extras["serve"]).splitlines()
    declared = [Requirement(line) for line in lines if line and line[0] != "#"]
    versions = {one.name: one.specifier for one in declared}
    for package in map(Requirement, SERVER_PACKAGES):
        assert package.specifier == versions.get(package.name, package.specifier), package
    assert {Requirement(package).name for package in SERVER_PACKAGES} - set(versions) == {"protobuf"}
    assert set(SERVER_PACKAGES) - set(TRITON_PACKAGES) >= {"numpy>=2.0,<3"}


def find_imports(nodes: Iterable[ast.stmt], *, in_functions: bool) -> Iterator[str]:
    """Yield the modules that statements import, also inside functions if asked; never for type checkers only."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from find_imports(node.orelse, in_functions=in_functions)
        elif in_functions or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for field in ("body", "orelse", "handlers", "finalbody"):
                yield from find_imports(getattr(node, field, []), in_functions=in_functions)


def collect_packages(roots: Iterable[str], lazy: Iterable[str]) -> set[str]:
    """Return the third-party packages that are imported with modules of ours.

    Args:
        roots: the modules.
        lazy: those of which the imports inside functions count, too.
    """
    waiting, seen, packages = [*roots, *lazy], set(), set()
    while waiting:
        module = waiting.pop()
        if module in seen or module not in MODULES:
            continue
        seen.add(module)
        waiting += [".".join(module.split(".")[:depth]) for depth in range(1, module.count(".") + 1)]  # its packages
        for name in find_imports(parsed(MODULES[module]).body, in_functions=module in lazy):
            waiting.append(name)
            top = name.split(".")[0]
            if top != "bert_keras":
                packages.add(PACKAGE_NAMES.get(top, top))
    return packages - NOT_NEEDED - set(__import__("sys").stdlib_module_names)


def test_server_image_has_exactly_the_packages_that_serving_imports():
    serving = [module for module in MODULES if module.startswith("bert_keras.serving")]
    roots = ["bert_keras.cli.main", "bert_keras.cli.commands.serve", "bert_keras.cli.running"]
    needed = collect_packages(roots, [*serving, *LAZY])
    needed |= set(serve._PACKAGES.values())  # uvicorn imports httptools by name
    assert needed == {Requirement(package).name for package in SERVER_PACKAGES}


def test_triton_image_has_exactly_the_packages_that_its_model_imports(deployed):
    model = deployed("classifier") / f"deploy/triton/{NAME}/1/model.py"
    roots = set(find_imports(ast.parse(model.read_text("utf-8")).body, in_functions=True))
    needed = collect_packages([*roots, "bert_keras.engines.predictor"], LAZY)
    assert needed == {Requirement(package).name for package in TRITON_PACKAGES}


BLOCKER = """
import sys

BLOCKED = {blocked!r}


class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {{name!r}} in the image", name=name)


sys.meta_path.insert(0, Blocker())
"""


def list_with_dependencies(packages: Iterable[str]) -> set[str]:
    """Return the names of packages and of everything that pip installs with them."""
    found, waiting = set(), [Requirement(package) for package in packages]
    while waiting:
        requirement = waiting.pop()
        name = requirement.name.lower().replace("_", "-")
        if name in found or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        found.add(name)
        waiting += map(Requirement, importlib.metadata.requires(name) or [])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classifier", "embedder", "token_classifier", "null_answerer", "masked_lm"])
def test_server_runs_with_the_packages_of_the_image_alone(kind, deployed, tmp_path):
    """Every other installed package is hidden from the server and its workers."""
    allowed = list_with_dependencies(SERVER_PACKAGES) | {"bert-keras"}
    owners = importlib.metadata.packages_distributions()
    blocked = {
        module
        for module, packages in owners.items()
        if not {package.lower().replace("_", "-") for package in packages} & allowed
    }
    assert {"tensorflow", "keras", "scipy", "sklearn", "torch"} <= blocked
    (tmp_path / "sitecustomize.py").write_text(BLOCKER.format(blocked=blocked))
    environment = {"PYTHONPATH": str(tmp_path)}
    with RunningServer({NAME: deployed(kind) / "onnx"}, "--threads", "1", environment=environment) as server:
        request = json.loads((deployed(kind) / "deploy/request.json").read_text("utf-8"))
        answer = server.post(f"/v2/models/{NAME}/infer", request)
        assert answer.status_code == 200, answer.text
        assert len(server.get("/openapi.json").json()["paths"]) > 10
        ids = json.loads((deployed(kind) / "deploy/request_ids.json").read_text("utf-8"))
        assert server.post(f"/v2/models/{NAME}/infer", ids).status_code == 200
