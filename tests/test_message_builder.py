"""Message classes are built from tables, in a pool of their own and without TensorFlow."""

import subprocess
import sys

import pytest

from bert_keras.message_builder import build_messages

TABLE = {
    "Kind": {"NONE": 0, "SOME": 4},
    "Outer": {
        "texts": (1, "repeated string"),
        "inner": (2, "Outer.Inner"),
        "by_name": (3, "map<string, Outer.Inner>"),
        "counts_by_id": (7, "map<int64, uint32>"),
        "kind": (4, "Kind"),
        "number": (5, "sint64", "choice"),
        "word": (6, "bytes", "choice"),
    },
    "Outer.Inner": {"scores": (1, "repeated double"), "level": (2, "Outer.Inner.Level")},
    "Outer.Inner.Level": {"LOW": 0, "HIGH": 1},
    "Empty": {},
}


@pytest.fixture(scope="module")
def messages():
    return build_messages("tests.builder", TABLE)


def test_only_messages_are_returned_under_their_full_names(messages):
    assert set(messages) == {"Outer", "Outer.Inner", "Empty"}
    assert {name: one.DESCRIPTOR.full_name for name, one in messages.items()} == {
        name: f"tests.builder.{name}" for name in messages
    }


def test_every_kind_of_field_keeps_its_value(messages):
    outer = messages["Outer"](texts=["a", ""], kind=4, number=-3, counts_by_id={-1: 2})
    outer.inner.scores.extend([0.5, 1.5])
    outer.by_name["x"].level = messages["Outer.Inner"].HIGH
    copy = messages["Outer"].FromString(outer.SerializeToString())
    assert copy == outer
    assert (list(copy.texts), list(copy.inner.scores), dict(copy.counts_by_id)) == (["a", ""], [0.5, 1.5], {-1: 2})
    assert (copy.by_name["x"].level, copy.kind, copy.number) == (1, 4, -3)


def test_one_field_of_a_oneof_is_set(messages):
    outer = messages["Outer"](number=3)
    outer.word = b""
    assert outer.WhichOneof("choice") == "word"
    assert not outer.HasField("number")


def test_a_table_may_use_messages_of_a_table_before(messages):
    later = build_messages("tests.later", {"Later": {"outer": (1, "tests.builder.Outer"), "again": (2, "Later")}})
    assert later["Later"](outer={"texts": ["a"]}).outer == messages["Outer"](texts=["a"])


def test_an_unknown_type_is_an_error():
    with pytest.raises(KeyError, match="Nowhere"):
        build_messages("tests.unknown", {"Message": {"field": (1, "Nowhere")}})


def test_a_number_that_is_used_twice_is_an_error():
    with pytest.raises(TypeError, match="duplicate field number"):
        build_messages("tests.twice", {"Message": {"a": (1, "string"), "b": (1, "string")}})


def test_a_process_without_tensorflow_has_messages_and_an_untouched_default_pool():
    code = """
import importlib, pkgutil, sys
from google.protobuf import descriptor_pool
import bert_keras.serving.messages as messages
for module in pkgutil.iter_modules(messages.__path__):
    importlib.import_module(f"bert_keras.serving.messages.{module.name}")
loaded = {"tensorflow", "tensorflow_serving", "keras", "grpc"} & set(sys.modules)
assert not loaded, loaded
from bert_keras.serving.messages.open_inference import INFERENCE_METHODS
from bert_keras.serving.messages.tensorflow_serving import MODEL_METHODS, PREDICTION_METHODS
for classes in (INFERENCE_METHODS | MODEL_METHODS | PREDICTION_METHODS).values():
    for one in classes:
        try:
            descriptor_pool.Default().FindMessageTypeByName(one.DESCRIPTOR.full_name)
        except KeyError:
            continue
        raise AssertionError(one)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
