"""`MESSAGES`: the protobuf classes of `messages.textproto`, and the methods of its gRPC services.

The official modules of TensorFlow Serving import all of TensorFlow, and they register their messages in protobuf's
default pool, where a second definition of the same message is an error. Our messages have the same names and bytes, but
are in a pool of their own, so that a process can also import the official ones.
"""

import pathlib
import types

from google.protobuf import descriptor_pool, message_factory, text_format
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message import Message

_POOL = descriptor_pool.DescriptorPool()
_FILES = text_format.Parse(
    pathlib.Path(__file__).with_name("messages.textproto").read_text("ascii"), FileDescriptorSet()
)
for _file in _FILES.file:
    _POOL.AddSerializedFile(_file.SerializeToString())

# the classes of all messages, as attributes with their names, which are unique even without the package
MESSAGES = types.SimpleNamespace(
    **{
        message.name: message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{file.package}.{message.name}"))
        for file in _FILES.file
        for message in file.message_type
    }
)
DATA_TYPES = {value.name: value.number for value in _POOL.FindEnumTypeByName("tensorflow.DataType").values}


def find_methods(service: str) -> dict[str, tuple[type[Message], type[Message]]]:
    """Return the classes of the request and the response of each method of a service, keyed by method.

    Args:
        service: the full name of the service.

    Example:
        >>> request, response = find_methods("inference.GRPCInferenceService")["ServerLive"]
        >>> response(live=True).live
        True
    """
    return {
        method.name: tuple(map(message_factory.GetMessageClass, (method.input_type, method.output_type)))
        for method in _POOL.FindServiceByName(service).methods
    }
