"""Message classes of protocol buffers that TensorFlow does not export, declared as tables of their fields."""

from collections.abc import Mapping

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

_Field = descriptor_pb2.FieldDescriptorProto

Messages = Mapping[str, Mapping[str, tuple[int, str]]]  # message: field: (number, type)


def build_message_class(messages: Messages, name: str) -> type[Message]:
    """Build the class of a message.

    Args:
        messages: the fields of the message and of those that it contains. A type is a scalar type such as "string", or
            the name of one of these messages, and may follow the word "repeated".
        name: the message.
    """
    file = descriptor_pb2.FileDescriptorProto(name="messages.proto", package="bert_keras", syntax="proto3")
    for message, fields in messages.items():
        declared = file.message_type.add(name=message)
        for field, (number, kind) in fields.items():
            is_repeated, kind = kind.startswith("repeated "), kind.removeprefix("repeated ")
            label = _Field.LABEL_REPEATED if is_repeated else _Field.LABEL_OPTIONAL
            entry = declared.field.add(name=field, number=number, label=label)
            if kind in messages:
                entry.type, entry.type_name = _Field.TYPE_MESSAGE, kind
            else:
                entry.type = _Field.Type.Value(f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()  # a separate one, so that the real messages can be imported, too
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"bert_keras.{name}"))
