"""`load_plugins`: heads and architectures of other packages, named in the environment variable `BERT_KERAS_PLUGINS`."""

import importlib
import os

from bert_keras.errors import InputError

VARIABLE = "BERT_KERAS_PLUGINS"


def load_plugins() -> None:
    """Import the modules in `BERT_KERAS_PLUGINS`, separated by commas; worker processes inherit the variable.

    Each module calls `register_head` of `bert_keras.heads.known_heads` or `register_architecture` of
    `bert_keras.architectures.known_architectures`.

    Raises:
        InputError: a module cannot be imported.
    """
    for name in filter(None, map(str.strip, os.environ.get(VARIABLE, "").split(","))):
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise InputError(
                f"{VARIABLE} names the module {name}, which cannot be imported ({error}); expected modules, separated "
                "by commas: correct the variable, or unset it"
            ) from None
