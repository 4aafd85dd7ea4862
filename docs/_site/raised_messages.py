"""Find the messages of all errors in the sources, without importing them."""

import ast
import dataclasses
import pathlib
import re

from message_texts import Place, TextReader, has_words
from placeholder_names import get_name, strip_placeholders
from source_modules import SourceModules, walk, walk_with_function

_CONVENTION = re.compile(r"; expected |: [a-z]+ ")  # what tells a message from another text
_ERROR_WITH_REASON = "ServingError"  # its first argument is the HTTP status, its last one the message


@dataclasses.dataclass(frozen=True)
class RaisedMessage:
    """A message that the sources can raise.

    Attributes:
        path: the file, relative to the repository.
        line: the line of the `raise`.
        error: the class of the exception.
        templates: the variants of the message; () if it only repeats the messages of other errors.
    """

    path: str
    line: int
    error: str
    templates: tuple[str, ...]


def find_messages(repository: pathlib.Path) -> list[RaisedMessage]:
    """Return every message of our exceptions, in the order of files and lines."""
    modules = SourceModules(repository)
    reader = TextReader(modules)
    messages = []
    for path, tree in modules.trees.items():
        for function, node in walk_with_function(tree):
            place = Place(path, function)
            match node:
                case ast.Raise(exc=ast.Call() as call) if get_name(call.func) in modules.errors:
                    texts = _read_exception(call, place, modules, reader)
                    texts = [text for text in texts if re.search("[a-z]{2}", strip_placeholders(text))]
                    messages.append(_make_message(node, path, get_name(call.func), texts))
                case ast.Yield(value=ast.expr() as value):  # for a caller that joins and raises what is yielded
                    texts = [text for text in reader.read(value, place) if has_words(text) and _CONVENTION.search(text)]
                    messages += [_make_message(node, path, "InputError", texts)] if texts else []
    return sorted(messages, key=lambda message: (message.path, message.line))


def _make_message(node: ast.AST, path: str, error: str, texts: list[str]) -> RaisedMessage:
    return RaisedMessage(path, node.lineno, error, tuple(dict.fromkeys(texts)))


def _read_exception(call: ast.Call, place: Place, modules: SourceModules, reader: TextReader) -> list[str]:
    """Return the texts of an exception: of its argument, or what its class makes of its arguments."""
    error = get_name(call.func)
    initializer = modules.initializers.get(error)
    if initializer is not None and error != _ERROR_WITH_REASON:
        inside = Place(place.path, initializer, reader.read_arguments(call, initializer, place))
        for node in walk(initializer):
            if isinstance(node, ast.Call) and get_name(node.func) == "__init__" and node.args:
                return reader.read(node.args[-1], inside)
    return reader.read(call.args[-1], place) if call.args else []
