"""`build_messages`: protobuf message classes from tables of fields.

The official modules of TensorFlow Serving import all of TensorFlow, and they register their messages in protobuf's
default pool, where a second definition of the same message is an error. Our messages have the same names and bytes, but
are in a pool of their own, so that a process can also import the official ones.
"""

from collections.abc import Mapping

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import Message

Field = tuple[int, str] | tuple[int, str, str]
Table = Mapping[str, Mapping[str, Field] | Mapping[str, int]]
Methods = dict[str, tuple[type[Message], type[Message]]]

_POOL = descriptor_pool.DescriptorPool()
_SCALARS = "double float int32 int64 uint32 uint64 sint32 sint64 bool string bytes".split()
_TYPES = {name: FieldDescriptorProto.Type.Value(f"TYPE_{name.upper()}") for name in _SCALARS}


def build_messages(package: str, table: Table) -> dict[str, type[Message]]:
    """Build the message classes of a protobuf package (proto3).

    Args:
        package: the name of the package. A package can be built once per process.
        table: the messages and enums, keyed by name. A nested one has a dotted name and follows its parent. An enum is
            a dictionary of numbers. A message is a dictionary of fields: `(number, type)`, or `(number, type, oneof)`
            for a field of a oneof. A type is a scalar type, a message or enum (its name in this table, or its full
            name if it was built before), `repeated TYPE` or `map<KEY, TYPE>`.

    Returns:
        The classes of the messages, keyed like the table. The values of a nested enum are attributes of its parent.

    Raises:
        KeyError: a type is neither in the table nor built before.
        TypeError: protobuf refuses the table, for example because two fields have the same number.

    Example:
        >>> table = {"Word": {"text": (1, "string"), "tags": (2, "repeated Tag")}, "Tag": {"score": (1, "float")}}
        >>> messages = build_messages("example", table)
        >>> messages["Word"](text="one", tags=[messages["Tag"](score=0.5)]).tags[0].score
        0.5
    """
    builder = _FileBuilder(package, table)
    for name, members in table.items():
        builder.add(name, members)
    _POOL.AddSerializedFile(builder.file.SerializeToString())
    return {
        name: message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{package}.{name}"))
        for name in builder.messages
    }


def pair_messages(messages: Mapping[str, type[Message]], names: Mapping[str, str]) -> Methods:
    """Return the classes of a request and a response, keyed by method.

    Args:
        messages: what `build_messages` returned.
        names: the names of the messages without "Request" and "Response", keyed by method.
    """
    return {method: (messages[f"{name}Request"], messages[f"{name}Response"]) for method, name in names.items()}


class _FileBuilder:
    """Describes the messages of one package, as protoc does for a .proto file.

    Attributes:
        file: the description.
        messages: the descriptions of its messages, keyed by dotted name.
    """

    def __init__(self, package: str, table: Table):
        self.file = FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
        self.messages: dict[str, DescriptorProto] = {}
        self._table = table

    def add(self, name: str, members: Mapping[str, Field] | Mapping[str, int]) -> None:
        """Add a message or an enum, to the message before the dot in its name."""
        parent, _, short_name = name.rpartition(".")
        if any(isinstance(member, int) for member in members.values()):
            enum = (self.messages[parent] if parent else self.file).enum_type.add(name=short_name)
            for value, number in members.items():
                enum.value.add(name=value, number=number)
            return
        siblings = self.messages[parent].nested_type if parent else self.file.message_type
        message = self.messages[name] = siblings.add(name=short_name)
        for field, (number, kind, *oneof) in members.items():
            if kind.startswith("map<"):
                kind = f"repeated {self._add_map_entry(message, name, field, kind)}"
            added = self._add_field(message, field, number, kind)
            if oneof:
                added.oneof_index = _find_oneof(message, *oneof)

    def _add_map_entry(self, message: DescriptorProto, name: str, field: str, kind: str) -> str:
        """Add the message that holds one item of a map, and return its full name."""
        entry = message.nested_type.add(name=field.title().replace("_", "") + "Entry")
        entry.options.map_entry = True
        key, value = kind.removeprefix("map<").removesuffix(">").split(", ")
        self._add_field(entry, "key", 1, key)
        self._add_field(entry, "value", 2, value)
        return f".{self.file.package}.{name}.{entry.name}"

    def _add_field(self, message: DescriptorProto, name: str, number: int, kind: str) -> FieldDescriptorProto:
        is_repeated = kind.startswith("repeated ")
        kind = kind.removeprefix("repeated ")
        label = FieldDescriptorProto.LABEL_REPEATED if is_repeated else FieldDescriptorProto.LABEL_OPTIONAL
        field = message.field.add(name=name, number=number, label=label)
        if kind in _TYPES:
            field.type = _TYPES[kind]
        else:
            field.type_name = self._find_full_name(kind)  # protobuf finds out whether it is a message or an enum
        return field

    def _find_full_name(self, kind: str) -> str:
        """Return the full name of a message or enum, with a leading dot, after importing its file."""
        if kind.startswith("."):
            return kind
        if kind in self._table:
            return f".{self.file.package}.{kind}"
        file = _POOL.FindFileContainingSymbol(kind).name
        if file not in self.file.dependency:
            self.file.dependency.append(file)
        return f".{kind}"


def _find_oneof(message: DescriptorProto, name: str) -> int:
    """Return the index of a oneof, which is added if the message lacks it."""
    names = [oneof.name for oneof in message.oneof_decl]
    if name not in names:
        message.oneof_decl.add(name=name)
        return len(names)
    return names.index(name)
