"""What stands in a TFLite file, read from its bytes: operators, constants, names, and entries of metadata.

A TFLite file is a FlatBuffer; TensorFlow brings the generated classes of its schema.
"""

from typing import NamedTuple

import flatbuffers
import numpy as np

from bert_keras.compat import TFLITE_SCHEMA
from bert_keras.errors import InputError

schema = TFLITE_SCHEMA.get()

IDENTIFIER = b"TFL3"


class Signature(NamedTuple):
    """Names and shapes of a signature's tensors.

    Attributes:
        inputs: in the order in which the graph has them, which is not that of their names everywhere.
        outputs: likewise.
    """

    inputs: dict[str, tuple[int, ...]]
    outputs: dict[str, tuple[int, ...]]


def read_file(content: bytes, source: str = "the content") -> schema.Model:
    """Opens the bytes of a TFLite file; `source` names them in the message.

    Raises:
        InputError: they are none.
    """
    if content[4:8] != IDENTIFIER:
        raise InputError(f"{source} is no TFLite file: name one that write_tflite wrote")
    return schema.Model.GetRootAs(content, 0)


def operators(file: schema.Model) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the names of a file's builtin operators, and of the others: custom ones, TensorFlow's own ("Flex")."""
    names = {number: name for name, number in vars(schema.BuiltinOperator).items() if not name.startswith("_")}
    builtin, foreign = set(), set()
    for code in map(file.OperatorCodes, range(file.OperatorCodesLength())):
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())  # the older field ends at 127
        if number == schema.BuiltinOperator.CUSTOM:
            foreign.add(code.CustomCode().decode())
        else:
            builtin.add(names[number])
    return tuple(sorted(builtin)), tuple(sorted(foreign))


def constant_bytes(file: schema.Model) -> int:
    """Returns how many bytes a file's constant tensors are made of, shared ones counted once."""
    graphs = map(file.Subgraphs, range(file.SubgraphsLength()))
    used = {graph.Tensors(index).Buffer() for graph in graphs for index in range(graph.TensorsLength())}
    return sum(file.Buffers(index).DataLength() for index in used)


def constant_types(file: schema.Model) -> set[str]:
    """Returns the types of a file's constant tensors: "FLOAT32", "FLOAT16", "INT8" and so on."""
    names = {number: name for name, number in vars(schema.TensorType).items() if not name.startswith("_")}
    tensors = [
        graph.Tensors(index)
        for graph in map(file.Subgraphs, range(file.SubgraphsLength()))
        for index in range(graph.TensorsLength())
    ]
    return {names[tensor.Type()] for tensor in tensors if file.Buffers(tensor.Buffer()).DataLength()}


def signatures(file: schema.Model) -> dict[str, Signature]:
    """Returns the signatures of a file by their names."""
    found = {}
    for one in map(file.SignatureDefs, range(file.SignatureDefsLength())):
        graph = file.Subgraphs(one.SubgraphIndex())
        inputs = {tensor.TensorIndex(): tensor.Name().decode() for tensor in map(one.Inputs, range(one.InputsLength()))}
        outputs = {
            tensor.TensorIndex(): tensor.Name().decode() for tensor in map(one.Outputs, range(one.OutputsLength()))
        }
        found[one.SignatureKey().decode()] = Signature(
            _shapes(graph, graph.InputsAsNumpy(), inputs), _shapes(graph, graph.OutputsAsNumpy(), outputs)
        )
    return found


def _shapes(graph, places, names: dict[int, str]) -> dict[str, tuple[int, ...]]:
    return {names[int(place)]: tuple(graph.Tensors(int(place)).ShapeAsNumpy().tolist()) for place in places}


def metadata_entry(file: schema.Model, name: str) -> bytes | None:
    """Returns an entry of a file's metadata, or None if it has none of that name."""
    for entry in map(file.Metadata, range(file.MetadataLength())):
        if entry.Name() == name.encode():
            return file.Buffers(entry.Buffer()).DataAsNumpy().tobytes()
    return None


def with_metadata_entry(content: bytes, name: str, data: bytes) -> bytes:
    """Returns a file with one more entry of metadata. MiniLM's 90 MB take 0.5 s and 300 MB of memory."""
    model = schema.ModelT.InitFromObj(read_file(content))
    model.buffers.append(schema.BufferT(data=np.frombuffer(data, np.uint8)))
    entry = schema.MetadataT(name=name, buffer=len(model.buffers) - 1)
    model.metadata = [*(model.metadata or []), entry]
    builder = flatbuffers.Builder(len(content) + len(data) + 4096)  # so that it need not grow, which copies all of it
    builder.Finish(model.Pack(builder), IDENTIFIER)
    return bytes(builder.Output())
