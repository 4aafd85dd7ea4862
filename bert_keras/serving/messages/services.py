"""`make_generic_handler`: a gRPC service from a table of methods and an object that implements them."""

import re
from collections.abc import Mapping

import grpc
from google.protobuf.message import Message

Methods = Mapping[str, tuple[type[Message], type[Message]]]


def make_generic_handler(service_name: str, methods: Methods, implementation: object) -> grpc.GenericRpcHandler:
    """Make the handler of a service whose methods take one request and return one response.

    Args:
        service_name: the full name of the service, such as "tensorflow.serving.PredictionService".
        methods: the classes of the request and the response, keyed by method name.
        implementation: an object with a coroutine per method, `async def predict(self, request, context)` for
            `Predict`, which returns the response. gRPC answers UNIMPLEMENTED for methods that it lacks.

    Returns:
        The handler, for `add_generic_rpc_handlers` of a `grpc.aio.Server`.

    Example:
        >>> from google.protobuf.struct_pb2 import Struct
        >>> class Echo:
        ...     async def predict(self, request, context):
        ...         return request
        >>> make_generic_handler("example.Echo", {"Predict": (Struct, Struct)}, Echo()).service_name()
        'example.Echo'
    """
    handlers = {}
    for name, (request_class, response_class) in methods.items():
        coroutine = getattr(implementation, to_snake_case(name), None)
        if coroutine is not None:
            handlers[name] = grpc.unary_unary_rpc_method_handler(
                coroutine,
                request_deserializer=request_class.FromString,
                response_serializer=response_class.SerializeToString,
            )
    return grpc.method_handlers_generic_handler(service_name, handlers)


def to_snake_case(name: str) -> str:
    """Return the Python name of a gRPC method: `get_model_status` for `GetModelStatus`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
