"""Turn the expression of a message into templates: an f-string into a text with placeholders.

Messages that are built in steps are followed through local variables, lists that are joined, and functions that return
text. An expression has several texts if it depends on a condition.
"""

import ast
import dataclasses
import itertools
import re
from collections.abc import Mapping

from placeholder_names import OPTION_SPELLINGS, PLAIN_CALLS, get_name, make_placeholder, strip_placeholders
from source_modules import SourceModules, walk

_MOST_TEXTS = 6  # of one message
_MOST_STEPS = 12  # until a value becomes a placeholder
_BUILT = ast.JoinedStr | ast.Constant | ast.IfExp | ast.BinOp | ast.Call | ast.BoolOp
_SENTENCE = re.compile(r"[a-z]{2} ")
_PART_OF_SENTENCE = re.compile(r"[a-z]{2}|^$")


def has_words(template: str) -> bool:
    """Whether a template has more than placeholders and single words."""
    return _SENTENCE.search(strip_placeholders(template)) is not None


@dataclasses.dataclass(frozen=True)
class Place:
    """Where an expression is.

    Attributes:
        path: the path of its module in the repository.
        function: the function, or the module.
        given: the texts of the function's arguments, if they are known.
        steps: how many variables and functions were followed to get here.
    """

    path: str
    function: ast.AST
    given: Mapping[str, list[str]] = dataclasses.field(default_factory=dict)
    steps: int = 0

    def next(self) -> "Place":
        """Return the place with one step more."""
        return dataclasses.replace(self, steps=self.steps + 1)


class TextReader:
    """Reads the texts of expressions.

    Args:
        modules: all modules, for functions and constants that are imported.
    """

    def __init__(self, modules: SourceModules):
        self._modules = modules

    def read(self, node: ast.AST, place: Place) -> list[str]:
        """Return the texts that an expression can have."""
        place = place.next()
        if place.steps > _MOST_STEPS:
            return [make_placeholder(node)]
        match node:
            case ast.Constant(value=str(text)):
                return [text]
            case ast.FormattedValue():
                return self.read(node.value, place)
            case ast.JoinedStr():
                return _combine([self.read(value, place) for value in node.values])
            case ast.BinOp(op=ast.Add()):
                return _combine([self.read(node.left, place), self.read(node.right, place)])
            case ast.IfExp(body=ast.Constant(value=str(one)), orelse=ast.Constant(value=str(other))) if (
                max(len(one), len(other)) <= 4  # "is" or "are", "s" or ""
            ):
                return [one or other]
            case ast.IfExp():
                return [*self.read(node.body, place), *self.read(node.orelse, place)][:_MOST_TEXTS]
            case ast.BoolOp(op=ast.Or()):
                return [text for value in node.values for text in self.read(value, place)][:_MOST_TEXTS]
            case ast.Name():
                return self._read_name(node, place)
            case ast.Call():
                return self._read_call(node, place)
        return [make_placeholder(node)]

    def read_arguments(self, call: ast.Call, function: ast.FunctionDef, place: Place) -> dict[str, list[str]]:
        """Return the texts of the arguments of a call, by the names that the function has for them."""
        names = [
            argument.arg for argument in (*function.args.args, *function.args.kwonlyargs) if argument.arg != "self"
        ]
        given = {name: self.read(value, place) for name, value in zip(names, call.args, strict=False)}
        return given | {word.arg: self.read(word.value, place) for word in call.keywords if word.arg}

    def _read_name(self, node: ast.Name, place: Place) -> list[str]:
        if node.id in place.given:
            return place.given[node.id]
        texts = []
        for part in walk(place.function):
            is_built = isinstance(part, ast.Assign) and isinstance(part.value, _BUILT) and part.lineno <= node.lineno
            if is_built and node.id in map(get_name, part.targets):
                texts += self.read(part.value, dataclasses.replace(place, given={}))
        texts = [text for text in texts if _PART_OF_SENTENCE.search(strip_placeholders(text))]
        return texts[:_MOST_TEXTS] or self._read_constant(node.id, place) or [make_placeholder(node)]

    def _read_constant(self, name: str, place: Place) -> list[str]:
        """Return the text or number of a constant of a module."""
        value = self._modules.find_constant(name, place.path) if name.isupper() else None
        if isinstance(value, ast.JoinedStr):
            return self.read(value, place)
        if isinstance(value, ast.Constant):
            return [f"{value.value:,}" if isinstance(value.value, int | float) else str(value.value)]
        items = [getattr(item, "value", None) for item in list_items(value)]
        return [", ".join(items)] if items and all(isinstance(item, str) for item in items) else []

    def _read_call(self, node: ast.Call, place: Place) -> list[str]:
        name = get_name(node.func)
        if name in ("join", "join_faults"):
            return self._read_joined(node.args[0], place) or [make_placeholder(node.args[0])]
        if name in OPTION_SPELLINGS and node.args and isinstance(node.args[0], ast.Constant):
            return [f"--{node.args[0].value.replace('_', '-')}"]  # as on the command line
        if name == "hide_token":
            return self.read(node.args[0], place)
        found = (
            None if name in PLAIN_CALLS or name.startswith("format") else self._modules.find_function(name, place.path)
        )
        texts = []
        if found is not None:
            path, function = found
            inside = Place(path, function, self.read_arguments(node, function, place), place.steps + 1)
            for part in walk(function):
                if isinstance(part, ast.Return) and part.value is not None:
                    texts += self.read(part.value, inside)
        return list(filter(has_words, texts))[:_MOST_TEXTS] or [make_placeholder(node)]

    def _read_joined(self, listed: ast.AST, place: Place) -> list[str]:
        """Return the texts of a list that is joined: each is a message of its own."""
        if isinstance(listed, ast.Call) and get_name(listed.func) == "fromkeys":
            listed = listed.args[0]
        names = [get_name(part.value) for part in walk(listed) if isinstance(part, ast.Starred)]
        names.append(get_name(listed))
        texts = [text for name in filter(None, names) for text in self._read_list(name, place)]
        return self._read_constant(get_name(listed), place) or texts

    def _read_list(self, name: str, place: Place) -> list[str]:
        """Return the texts that are put into a list."""
        values: list[ast.AST] = []
        for node in walk(place.function):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="append"), args=[item]) if (
                    owner == name
                ):
                    values.append(item)
                case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="extend"), args=[items]) if (
                    owner == name
                ):
                    values += list_items(items)
                case ast.Assign(targets=[ast.Name(id=target)]) | ast.AugAssign(target=ast.Name(id=target)) if (
                    target == name
                ):
                    values += self._follow_list(node.value, place)
                case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr()) if target == name:
                    values += self._follow_list(node.value, place)
        return list(filter(has_words, (text for value in values for text in self.read(value, place))))

    def _follow_list(self, value: ast.AST, place: Place) -> list[ast.AST]:
        """Return the items of a list, also of one that a function returns."""
        found = self._modules.find_function(get_name(value.func), place.path) if isinstance(value, ast.Call) else None
        if found is None:
            return list_items(value)
        items: list[ast.AST] = []
        for part in walk(found[1]):
            match part:
                case ast.Yield(value=ast.expr() as item) | ast.Call(func=ast.Attribute(attr="append"), args=[item]):
                    items.append(item)
                case ast.Return(value=ast.expr() as returned):
                    items += list_items(returned)
        return items


def list_items(node: ast.AST | None) -> list[ast.AST]:
    """Return the expressions of the items of a list or tuple; [] for other expressions."""
    match node:
        case ast.List() | ast.Tuple():
            return list(node.elts)
        case ast.ListComp() | ast.GeneratorExp():
            return [node.elt]
        case ast.BinOp(left=first, right=second) | ast.IfExp(body=first, orelse=second):
            return [*list_items(first), *list_items(second)]
    return []


def _combine(parts: list[list[str]]) -> list[str]:
    return ["".join(texts) for texts in itertools.islice(itertools.product(*parts), _MOST_TEXTS)]
