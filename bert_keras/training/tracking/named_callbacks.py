"""Create the callbacks that a command line names."""

import importlib

import keras

from bert_keras.errors import InputError
from bert_keras.training.config.callback_names import CallbackName, search_current_folder


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
    if not isinstance(callback, keras.callbacks.Callback):
        raise InputError(
            f"{name} returned {type(callback).__name__}; expected a keras.callbacks.Callback: name another class or "
            "function"
        )
    return callback
