"""Names of the placeholders in messages: what the value of an expression is, in words."""

import ast
import re

OPEN, CLOSE = "\u2039", "\u203a"  # single angle quotation marks, around a placeholder
OPTION_SPELLINGS = ("spell", "_spell", "spell_flag")  # functions that return how the user writes an option
# functions whose result is named like their argument
PLAIN_CALLS = frozenset("quote str repr format_names sorted list set tuple int float map type Path join".split())
_VERBS = re.compile(r"^_?(?:quote|format|describe|spell|explain|join|list|get|find|read|count|make|show)_")
_READERS = ("get", "getattr", "read_field")  # functions that have the name of the value as an argument


def make_placeholder(node: ast.AST) -> str:
    """Return a placeholder that says what the value of an expression is.

    Example:
        >>> make_placeholder(ast.parse("quote(file.num_lines)", mode="eval").body).strip(OPEN + CLOSE)
        'number of lines'
    """
    name = _name_value(node).strip("_").replace("_", " ")
    name = re.sub("^num ", "number of ", name).replace("strerror", "reason")
    return f"{OPEN}{name.lower() if name.isupper() else name}{CLOSE}"


def strip_placeholders(template: str) -> str:
    """Return a template without its placeholders."""
    return re.sub(f"{OPEN}.*?{CLOSE}", "", template)


def get_name(node: ast.AST) -> str:
    """Return the last part of a name: "c" of `a.b.c`, "" of what is no name."""
    return getattr(node, "id", None) or getattr(node, "attr", None) or ""


def _name_value(node: ast.AST) -> str:
    match node:
        case ast.FormattedValue() | ast.Starred():
            return _name_value(node.value)
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            return key
        case ast.Subscript():
            return _name_value(node.value)
        case ast.Call():
            return _name_result(node)
        case ast.ListComp() | ast.GeneratorExp():
            return _name_value(node.elt)
        case ast.List(elts=[first, *_]) | ast.Tuple(elts=[first, *_]) | ast.BoolOp(values=[first, *_]):
            return _name_value(first)
        case ast.BinOp(left=first, right=second) | ast.IfExp(body=first, orelse=second):
            return _name_value(second if isinstance(first, ast.Constant) else first)
    return get_name(node) or "value"


def _name_result(call: ast.Call) -> str:
    """Return the name of what a call returns."""
    name, arguments = get_name(call.func), call.args
    if name in OPTION_SPELLINGS:
        return "option"
    if name == "len":
        return f"number of {_name_value(arguments[0])}"
    if name in _READERS:
        texts = [value.value for value in arguments if isinstance(value, ast.Constant) and isinstance(value.value, str)]
        return texts[0] if texts else _name_value(arguments[name == "getattr"])
    if arguments and (name in PLAIN_CALLS or name.startswith("format")):
        return _name_value(arguments[-1] if name == "map" else arguments[0])
    if isinstance(call.func, ast.Attribute) and not arguments:
        return _name_value(call.func.value)  # text.strip()
    return _VERBS.sub("", name)
