"""Register our classes with Keras, so that `.keras` files load after `import bert_keras` alone.

Keras knows a class once the module that defines it is imported. Importing our modules loads Keras and its backend,
which takes seconds that `import bert_keras` must not take. So they are imported together with Keras: at once if it is
loaded already, otherwise at the end of its import.
"""

import importlib
import sys

REGISTERING_MODULES = ("bert_keras.heads.models", "bert_keras.training.optimizers.update_rules")
# These import Keras themselves; while one of them is being imported, the modules above cannot be imported yet.
_NEEDED_WHOLE = (
    "bert_keras.distribution",
    "bert_keras.training.optimizers.update_rules",
    "bert_keras.training.optimizers.schedules",
)


def register_with_keras() -> None:
    """Register our layers, models, losses and optimizers with Keras, now or as soon as Keras is imported."""
    if "keras" in sys.modules:
        _import_registering_modules()
    elif not any(isinstance(finder, _KerasFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _KerasFinder())


def _import_registering_modules() -> None:
    is_usable = sys.modules["keras"].backend.backend() in ("tensorflow", "jax")  # models refuse other backends
    if is_usable and not any(name in sys.modules for name in _NEEDED_WHOLE):
        for name in REGISTERING_MODULES:
            importlib.import_module(name)


class _KerasFinder:
    """Import finder that delegates to the other finders and imports our modules after Keras.

    TensorFlow searches for Keras (`importlib.util.find_spec`) long before it imports it, so finding it is not enough.
    """

    def find_spec(self, name, path=None, target=None):
        """Return the spec of Keras, whose loader also imports our modules; None for any other module."""
        if name != "keras":
            return None
        others = (finder for finder in list(sys.meta_path) if not isinstance(finder, _KerasFinder))
        spec = next((spec for finder in others if (spec := finder.find_spec(name, path, target)) is not None), None)
        if spec is not None and spec.loader is not None:
            _register_after_loading(spec.loader)
        return spec


def _register_after_loading(loader) -> None:
    """Let the loader of Keras import our modules, too, and remove the finder; it has no other effect on the module."""
    load = loader.exec_module

    def load_and_register(module) -> None:
        del loader.exec_module
        load(module)
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _KerasFinder)]
        _import_registering_modules()

    loader.exec_module = load_and_register
