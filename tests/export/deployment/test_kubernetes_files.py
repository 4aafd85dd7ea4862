"""`kubernetes.yaml` against the schemas of Kubernetes, and the commands in both manifests against the server's options.

KServe's objects have no schema on PyPI. The models of the package kserve 0.21 read `kserve.yaml` of eight kinds of
models and wrote it again without a change, except that they added an empty `name` of the container.
"""

import argparse

import kubernetes_validate
import pytest
import yaml

from bert_keras.cli.commands import serve
from bert_keras.cli.options.declaring import Options
from bert_keras.export.deployment_bundle import make_dns_name
from bert_keras.serving.http.operation import OPERATION
from bert_keras.serving.settings import ServerSettings
from tests.export.deployment.conftest import NAME

DNS_NAME = make_dns_name(NAME)
PATHS = {endpoint.path for endpoint in OPERATION.endpoints}


def read_objects(path) -> dict[str, dict]:
    """Return the objects of a file, keyed by kind."""
    objects = list(yaml.safe_load_all(path.read_text("utf-8")))
    assert len({one["kind"] for one in objects}) == len(objects)
    return {one["kind"]: one for one in objects}


@pytest.fixture
def objects(deployed):
    return read_objects(deployed("classifier") / "deploy/kubernetes.yaml")


@pytest.fixture
def kserve(deployed):
    return read_objects(deployed("classifier") / "deploy/kserve.yaml")


def parse_command(container: dict, resources: dict, name: str = NAME) -> argparse.Namespace:
    """Parse the command of a container as `bert-keras serve` does, after Kubernetes has filled in variables."""
    assert container["command"] == ["bert-keras", "serve"]
    cores = container["env"][0]
    assert (cores["name"], cores["valueFrom"]["resourceFieldRef"]["resource"]) == ("CORES", "requests.cpu")
    parser = argparse.ArgumentParser()
    serve.add_arguments(Options(parser))
    return parser.parse_args(
        [
            word.replace("$(CORES)", resources["requests"]["cpu"]).replace("{{.Name}}", name)
            for word in container["args"]
        ]
    )


@pytest.mark.parametrize("version", ["1.25.0", kubernetes_validate.latest_version()])
def test_objects_are_valid_in_kubernetes(version, objects):
    assert list(objects) == ["Deployment", "Service", "HorizontalPodAutoscaler", "PodDisruptionBudget"]
    for one in objects.values():
        kubernetes_validate.validate(one, version, strict=True)


def test_a_misspelled_field_is_not_valid(objects):
    objects["PodDisruptionBudget"]["spec"]["maxUnavaliable"] = objects["PodDisruptionBudget"]["spec"].pop(
        "maxUnavailable"
    )
    with pytest.raises(kubernetes_validate.ValidationError, match="maxUnavaliable"):
        kubernetes_validate.validate(objects["PodDisruptionBudget"], "1.37.0", strict=True)


def test_objects_refer_to_each_other(objects):
    template = objects["Deployment"]["spec"]["template"]
    labels = template["metadata"]["labels"]
    assert labels == {"app.kubernetes.io/name": DNS_NAME}
    assert objects["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert objects["Service"]["spec"]["selector"] == labels
    assert objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert objects["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]["name"] == DNS_NAME
    assert "replicas" not in objects["Deployment"]["spec"]  # `kubectl apply` would undo the autoscaler's number
    assert {one["metadata"]["name"] for one in objects.values()} == {DNS_NAME}
    [container] = template["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": 8501, "grpc": 8500}
    assert {port["targetPort"]: port["port"] for port in objects["Service"]["spec"]["ports"]} == ports


def test_container_runs_the_server_with_one_batch_per_requested_core(objects):
    pod = objects["Deployment"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    arguments = parse_command(container, container["resources"])
    assert (arguments.host, arguments.model) == ("0.0.0.0", [f"{NAME}=/models/{NAME}"])
    assert (arguments.threads, arguments.instances) == (1, 2)
    assert (arguments.port, arguments.grpc_port) == (None, None)  # the defaults
    assert (ServerSettings.port, ServerSettings.grpc_port) == (8501, 8500)
    seconds_before = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] > seconds_before + ServerSettings.drain_seconds


def test_probes_call_endpoints_of_the_server(objects):
    template = objects["Deployment"]["spec"]["template"]
    [container] = template["spec"]["containers"]
    paths = {name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "readiness", "liveness")}
    assert paths == {"startup": "/health/ready", "readiness": "/health/ready", "liveness": "/health/live"}
    annotations = template["metadata"]["annotations"]
    assert {*paths.values(), annotations["prometheus.io/path"]} <= PATHS
    assert (annotations["prometheus.io/scrape"], annotations["prometheus.io/port"]) == ("true", "8501")


def test_containers_have_no_rights_and_one_writable_folder(objects, kserve):
    pod = objects["Deployment"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    for spec in (pod, kserve["ServingRuntime"]["spec"]):
        [container] = spec["containers"]
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"]
        assert not context["allowPrivilegeEscalation"]
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/tmp"]
        assert spec["volumes"] == [{"name": "tmp", "emptyDir": {}}]


@pytest.mark.parametrize(("num_bytes", "memory"), [(90_000_000, "1Gi"), (440_000_000, "3Gi"), (1_340_000_000, "6Gi")])
def test_memory_grows_with_the_model(num_bytes, memory, tmp_path):
    from bert_keras.export.deployment_bundle import write_deployment_files
    from bert_keras.heads.classify.task import TextClassification

    signature = {"inputs": {"input_ids": ("int64", ("batch", "sequence"))}, "outputs": {}}
    task = TextClassification(labels=("a", "b"))
    write_deployment_files(tmp_path, "m", signature=signature, num_bytes=num_bytes, task=task)
    [container] = read_objects(tmp_path / "kubernetes.yaml")["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["memory"] == container["resources"]["requests"]["memory"] == memory


def test_runtime_and_service_of_kserve_belong_together(kserve):
    assert list(kserve) == ["ServingRuntime", "InferenceService"]
    assert [one["apiVersion"] for one in kserve.values()] == ["serving.kserve.io/v1alpha1", "serving.kserve.io/v1beta1"]
    runtime, model = kserve["ServingRuntime"], kserve["InferenceService"]["spec"]["predictor"]["model"]
    assert model["runtime"] == runtime["metadata"]["name"]
    assert model["modelFormat"]["name"] in [one["name"] for one in runtime["spec"]["supportedModelFormats"]]
    assert runtime["spec"]["protocolVersions"] == ["v2", "grpc-v2"]
    assert model["protocolVersion"] in runtime["spec"]["protocolVersions"]
    assert model["storageUri"] == f"s3://BUCKET/{DNS_NAME}"
    assert kserve["InferenceService"]["metadata"]["name"] == DNS_NAME


def test_container_of_kserve_serves_the_mounted_model_at_its_ports(kserve):
    spec = kserve["ServingRuntime"]["spec"]
    [container] = spec["containers"]
    assert container["name"] == "kserve-container"
    resources = kserve["InferenceService"]["spec"]["predictor"]["model"]["resources"]
    assert resources["requests"]["memory"] == resources["limits"]["memory"] == "1Gi"
    arguments = parse_command(container, resources, DNS_NAME)
    assert arguments.model == [f"{DNS_NAME}=/mnt/models"]
    assert (arguments.host, arguments.port, arguments.grpc_port) == ("0.0.0.0", 8080, 9000)
    assert (arguments.threads, arguments.instances) == (1, 2)
    assert arguments.drain_seconds < 30  # when Kubernetes ends the container by default
    for probe in ("readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["path"] in PATHS
        assert container[probe]["httpGet"]["port"] == arguments.port
    assert spec["annotations"]["prometheus.kserve.io/path"] in PATHS
