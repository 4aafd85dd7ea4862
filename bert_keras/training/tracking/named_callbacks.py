"""`CallbackName`: a callback as the command line names it, `MODULE:NAME,key=value`; `make_callback` creates it.

Keras is imported with the callback, so that a command can check the name before.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.training.config.sources import parse_toml

if TYPE_CHECKING:
    import keras

_NAME = re.compile(r"(?P<module>\w+(\.\w+)*):(?P<name>\w+(\.\w+)*)")


@dataclasses.dataclass(frozen=True)
class CallbackName:
    """A class or function, and the keyword arguments to call it with.

    Attributes:
        module: the module, as in an import.
        name: the name in the module, which may have dots.
        arguments: the keyword arguments.
    """

    module: str
    name: str
    arguments: Mapping[str, object]

    def __str__(self) -> str:
        return f"--callback {self.module}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> CallbackName:
        """Parse `MODULE:NAME,key=value,...`; a value is TOML, or else plain text.

        Raises:
            InputError: the text has another form.

        Example:
            >>> CallbackName.parse("package.module:Class,log_freq=10,name=first").arguments
            {'log_freq': 10, 'name': 'first'}
        """
        name, _, rest = text.partition(",")
        found = _NAME.fullmatch(name)
        try:
            arguments = _parse_arguments(rest) if rest else {}
        except ValueError:
            arguments = None
        if found is None or arguments is None:
            raise InputError(
                f"--callback {quote(text)} has another form; expected MODULE:NAME or MODULE:NAME,KEY=VALUE, such as "
                "mlflow.keras:MlflowCallback: correct it"
            )
        return cls(found["module"], found["name"], arguments)

    def check_installed(self) -> None:
        """Raise `InputError` if the package of the module is neither installed nor in the current folder."""
        package = self.module.split(".")[0]
        search_current_folder()
        if package not in sys.modules and importlib.util.find_spec(package) is None:
            raise InputError(
                f"{self}: there is no module {package}; expected an installed package or {package}.py in the current "
                "folder: install it, or correct the name"
            )


def make_callback(name: CallbackName) -> keras.callbacks.Callback:
    """Import a class or function, and call it.

    Raises:
        InputError: it cannot be imported or called, or returns no Keras callback; the message has the reason.
    """
    search_current_folder()
    try:
        found = importlib.import_module(name.module)
    except Exception as error:
        raise InputError(
            f"{name}: importing {name.module} failed ({type(error).__name__}: {error}); expected a module that can "
            "be imported: install what it needs, or correct the name"
        ) from error
    for part in name.name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise InputError(
            f"{name}: {name.module} has no class or function {name.name}; expected one that returns a Keras "
            "callback: correct the name"
        )
    try:
        callback = found(**name.arguments)
    except Exception as error:
        raise InputError(
            f"{name}: it cannot be created ({type(error).__name__}: {error}); expected arguments that it accepts: "
            "add them as KEY=VALUE, or correct them"
        ) from error
    import keras

    if not isinstance(callback, keras.callbacks.Callback):
        raise InputError(
            f"{name} returned {type(callback).__name__}; expected a keras.callbacks.Callback: name another class or "
            "function"
        )
    return callback


def search_current_folder() -> None:
    """Let Python find modules of the current folder too, after the installed ones, as `python -m` does."""
    folder = os.getcwd()
    if folder not in sys.path and "" not in sys.path:
        sys.path.append(folder)


def _parse_arguments(text: str) -> dict[str, object]:
    """Parse "key=value,..." as a table of TOML, or with values that are plain text.

    Raises:
        ValueError: the text has another form.
    """
    try:
        arguments = parse_toml(f"arguments = {{{text}}}")["arguments"]
    except ValueError:
        pairs = [part.partition("=") for part in text.split(",")]
        if not all(equals for _, equals, _ in pairs):
            raise
        arguments = {}
        for key, _, value in pairs:
            try:
                arguments[key.strip()] = parse_toml(f"value = {value}")["value"]
            except ValueError:
                arguments[key.strip()] = value.strip()
    if not all(key.isidentifier() for key in arguments):
        raise ValueError(text)
    return arguments
