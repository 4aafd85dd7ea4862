"""The messages are in a pool of their own and need no TensorFlow."""

import subprocess
import sys

from bert_keras.serving.messages.definitions import DATA_TYPES, MESSAGES


def test_a_nested_enum_has_its_values_as_attributes():
    assert (MESSAGES.ModelVersionStatus.AVAILABLE, MESSAGES.HealthCheckResponse.SERVING) == (30, 1)
    assert DATA_TYPES["DT_FLOAT"] == 1


def test_a_process_without_tensorflow_has_messages_and_an_untouched_default_pool():
    code = """
import importlib, pkgutil, sys
from google.protobuf import descriptor_pool
import bert_keras.serving.messages as messages
for module in pkgutil.iter_modules(messages.__path__):
    importlib.import_module(f"bert_keras.serving.messages.{module.name}")
loaded = {"tensorflow", "tensorflow_serving", "keras", "grpc"} & set(sys.modules)
assert not loaded, loaded
from bert_keras.serving.messages.definitions import MESSAGES
for one in vars(MESSAGES).values():
    try:
        descriptor_pool.Default().FindMessageTypeByName(one.DESCRIPTOR.full_name)
    except KeyError:
        continue
    raise AssertionError(one)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
