"""Every message and method has the definition and the bytes of the official packages."""

import importlib
import random

import pytest
from google.protobuf import descriptor_pool, message_factory, text_format
from google.protobuf.descriptor import Descriptor, EnumDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto

from bert_keras.serving import grpc_server
from bert_keras.serving.messages.definitions import MESSAGES as CLASSES
from bert_keras.serving.messages.definitions import find_methods

HEALTH = "grpc.health.v1"
SERVICES = [service.name for service in grpc_server.SERVICES if not service.name.startswith(HEALTH)]
OMITTED_FIELDS = {  # resources and variants are TensorFlow's own; the others are options of language models
    "tensorflow.TensorProto": {"resource_handle_val", "variant_val", "float8_val"},
    "tensorflow.TensorInfo": {"composite_tensor"},
    "tensorflow.serving.PredictRequest": {"predict_streamed_options", "client_id", "request_options"},
    "tensorflow.serving.PredictLog": {"response"},
    "tensorflow.serving.PredictionLog": {
        *("log_metadata", "classify_log", "regress_log", "multi_inference_log", "session_run_log"),
        "predict_streamed_log",
    },
}
SCALARS = {
    "double": [0.1, -1e300, float("inf")],
    "float": [0.5, -1.5, 3e38],
    "int32": [1, -1, 2**31 - 1, -(2**31)],
    "int64": [1, -1, 2**63 - 1, -(2**63)],
    "uint32": [1, 2**32 - 1],
    "uint64": [1, 2**64 - 1],
    "bool": [True],
    "string": ["a", "Zürich", "東京 \U0001f600", "x" * 300],
    "bytes": [b"a", b"\0\xff", b"x" * 300],
}
TYPE_NAMES = {number: name.removeprefix("TYPE_").lower() for name, number in FieldDescriptorProto.Type.items()}


def collect(messages: list[Descriptor]) -> dict[str, Descriptor | EnumDescriptor]:
    """Return the messages, and all messages and enums that they need, keyed by full name."""
    found = {}
    while messages:
        message = messages.pop()
        if message.full_name not in found:
            found[message.full_name] = message
            messages += [field.message_type for field in message.fields if field.message_type]
            found |= {field.enum_type.full_name: field.enum_type for field in message.fields if field.enum_type}
    return found


def find_descriptors() -> dict[str, Descriptor | EnumDescriptor]:
    """Return all our messages and enums that have an official definition at hand, keyed by full name."""
    descriptors = [one.DESCRIPTOR for one in vars(CLASSES).values()]
    return collect([one for one in descriptors if one.file.package not in (HEALTH, "bert_keras")])


OURS = find_descriptors()
MESSAGES = [name for name, descriptor in OURS.items() if isinstance(descriptor, Descriptor)]
ENUMS = [name for name, descriptor in OURS.items() if isinstance(descriptor, EnumDescriptor)]


@pytest.fixture(scope="module")
def official():
    """The pool of the official messages; importing them takes TensorFlow's import time."""
    for module in ("prediction_service_pb2", "model_service_pb2", "prediction_log_pb2"):
        importlib.import_module(f"tensorflow_serving.apis.{module}")
    importlib.import_module("tritonclient.grpc.service_pb2")
    return descriptor_pool.Default()


def describe_fields(message: Descriptor) -> dict[str, tuple]:
    """Return the number, label, type, oneof and presence of each field, keyed by name."""
    proto = DescriptorProto()
    message.CopyToProto(proto)
    return {
        field.name: (
            field.number,
            field.label,
            TYPE_NAMES[field.type],
            field.type_name,
            proto.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") else None,
            message.fields_by_name[field.name].has_presence,
        )
        for field in proto.field
    }


def fill(message, fields: Descriptor, rng: random.Random, depth: int = 0) -> None:
    """Set random fields of an official message, but only those that ours has."""
    for field in fields.fields:
        if rng.random() < 0.2 or (depth > 3 and field.message_type):
            continue
        value = getattr(message, field.name)
        inner = field.message_type
        if inner and inner.GetOptions().map_entry:
            item = inner.fields_by_name["value"]
            for key in rng.sample(SCALARS["string"], 2):
                if item.message_type:
                    fill(value[key], item.message_type, rng, depth + 1)
                else:
                    value[key] = draw(item, rng)
        elif isinstance(value, str | bytes | bool | int | float):
            setattr(message, field.name, draw(field, rng))
        elif hasattr(value, "add"):
            for _ in range(rng.randrange(3)):
                fill(value.add(), inner, rng, depth + 1)
        elif inner:
            value.SetInParent()
            fill(value, inner, rng, depth + 1)
        else:
            value.extend(draw(field, rng) for _ in range(rng.randrange(4)))


def draw(field, rng: random.Random):
    """Return a random value of a scalar or enum field."""
    if field.enum_type:
        return rng.choice([value.number for value in field.enum_type.values])
    return rng.choice(SCALARS[TYPE_NAMES[field.type]])


def test_there_are_messages_and_enums_to_compare():
    assert len(MESSAGES) > 60
    assert {"tensorflow.serving.PredictRequest.InputsEntry", "google.protobuf.Any"} < set(MESSAGES)
    assert set(ENUMS) == {"tensorflow.DataType", "tensorflow.error.Code", "tensorflow.serving.ModelVersionStatus.State"}


@pytest.mark.parametrize("name", MESSAGES)
def test_every_field_is_defined_as_in_the_official_message(official, name):
    ours, theirs = describe_fields(OURS[name]), describe_fields(official.FindMessageTypeByName(name))
    assert ours == {field: theirs.get(field) for field in ours}
    assert set(theirs) - set(ours) == OMITTED_FIELDS.get(name, set())
    assert OURS[name].GetOptions().map_entry == official.FindMessageTypeByName(name).GetOptions().map_entry


@pytest.mark.parametrize("name", ENUMS)
def test_every_enum_value_has_its_official_number(official, name):
    theirs = {value.name: value.number for value in official.FindEnumTypeByName(name).values}
    assert OURS[name].values_by_name
    for value in OURS[name].values:
        assert theirs[value.name] == value.number


@pytest.mark.parametrize("name", MESSAGES)
def test_random_messages_have_the_same_bytes_and_fields(official, name):
    theirs = message_factory.GetMessageClass(official.FindMessageTypeByName(name))
    ours = message_factory.GetMessageClass(OURS[name])
    for number in range(10):
        given = theirs()
        fill(given, OURS[name], random.Random(f"{name} {number}"))
        content = given.SerializeToString(deterministic=True)
        parsed = ours.FromString(content)
        assert parsed.SerializeToString(deterministic=True) == content
        assert text_format.MessageToString(parsed) == text_format.MessageToString(given)  # shows no unknown fields


@pytest.mark.parametrize("service", SERVICES)
def test_every_method_has_its_official_request_and_response(official, service):
    theirs = official.FindServiceByName(service).methods_by_name
    for name, (request_class, response_class) in find_methods(service).items():
        assert request_class.DESCRIPTOR.full_name == theirs[name].input_type.full_name
        assert response_class.DESCRIPTOR.full_name == theirs[name].output_type.full_name


def test_a_field_that_ours_lacks_is_skipped(official):
    theirs = message_factory.GetMessageClass(official.FindMessageTypeByName("tensorflow.serving.PredictRequest"))
    given = theirs(output_filter=["scores"], client_id=b"me")
    assert CLASSES.PredictRequest.FromString(given.SerializeToString()).output_filter == ["scores"]


def test_health_messages_have_the_documented_bytes():
    """https://github.com/grpc/grpc/blob/master/doc/health-checking.md; no official package is installed."""
    assert CLASSES.HealthCheckRequest(service="abc").SerializeToString() == b"\x0a\x03abc"
    assert dict(CLASSES.HealthCheckResponse.ServingStatus.items()) == {
        "UNKNOWN": 0,
        "SERVING": 1,
        "NOT_SERVING": 2,
        "SERVICE_UNKNOWN": 3,
    }
    assert (
        CLASSES.HealthCheckResponse(status=CLASSES.HealthCheckResponse.NOT_SERVING).SerializeToString() == b"\x08\x02"
    )
    assert CLASSES.HealthCheckRequest.DESCRIPTOR.full_name == "grpc.health.v1.HealthCheckRequest"
    assert list(find_methods(f"{HEALTH}.Health")) == ["Check"]
