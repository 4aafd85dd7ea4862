"""The syntax trees of the shipped sources: their functions, their constants, their exceptions."""

import ast
import functools
import pathlib
from collections.abc import Iterator

from placeholder_names import get_name

FOLDERS = {"bert_keras": "bert_keras", "pipelines": "bert_keras.pipelines", "export": "bert_keras.export"}
_ERRORS = "bert_keras/errors.py"  # all its classes, and these, and what is derived from one of them
_ROOTS = ("InputError", "ServingError", "ArgumentTypeError")


@functools.cache
def walk(node: ast.AST) -> tuple[ast.AST, ...]:
    """Return a node and all nodes below it."""
    return tuple(ast.walk(node))


def walk_with_function(module: ast.Module) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Yield every node after the innermost function that contains it, or the module."""
    waiting: list[tuple[ast.AST, ast.AST]] = [(module, module)]
    while waiting:
        function, node = waiting.pop()
        yield function, node
        inner = node if isinstance(node, ast.FunctionDef) else function
        waiting += [(inner, child) for child in ast.iter_child_nodes(node)]


class SourceModules:
    """All shipped modules.

    Attributes:
        trees: the modules by their path in the repository.
        errors: names of our exceptions.
        initializers: `__init__` of the exceptions that have one, by the name of the exception.
    """

    def __init__(self, repository: pathlib.Path):
        paths = [path for folder in FOLDERS for path in sorted((repository / folder).rglob("*.py"))]
        self.trees = {
            path.relative_to(repository).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in paths
        }
        self.errors = set(_ROOTS)
        self.initializers: dict[str, ast.FunctionDef] = {}
        self._functions: dict[tuple[str, str], ast.FunctionDef] = {}
        classes: list[ast.ClassDef] = []
        for path, tree in self.trees.items():
            for node in walk(tree):
                if isinstance(node, ast.FunctionDef):
                    self._functions[path, node.name] = node
                elif isinstance(node, ast.ClassDef):
                    classes.append(node)
                    self.errors |= {node.name} if path == _ERRORS else set()
        for _ in range(3):  # classes that are derived from derived ones
            self.errors |= {one.name for one in classes if {get_name(base) for base in one.bases} & self.errors}
        for one in classes:
            methods = [node for node in one.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
            if methods and one.name in self.errors:
                self.initializers[one.name] = methods[0]

    def find_function(self, name: str, path: str) -> tuple[str, ast.FunctionDef] | None:
        """Return the function that a name means in a module, after the path of the module that defines it."""
        for origin in (path, *self._find_origins(name, path)):
            if (origin, name) in self._functions:
                return origin, self._functions[origin, name]
        return None

    def find_constant(self, name: str, path: str) -> ast.expr | None:
        """Return the value of a constant that a module defines or imports; None if there is none."""
        for origin in (path, *self._find_origins(name, path)):
            for node in self.trees[origin].body:
                if isinstance(node, ast.Assign) and any(get_name(target) == name for target in node.targets):
                    return node.value
        return None

    def _find_origins(self, name: str, path: str) -> list[str]:
        """Return the paths of our modules from which a module imports a name."""
        origins = []
        for node in walk(self.trees[path]):
            if isinstance(node, ast.ImportFrom) and node.module and any(alias.name == name for alias in node.names):
                for folder, package in sorted(FOLDERS.items(), key=lambda item: -len(item[1])):
                    if node.module.startswith(f"{package}."):
                        origins.append(folder + node.module.removeprefix(package).replace(".", "/") + ".py")
                        break
        return [origin for origin in origins if origin in self.trees]
