"""Register our classes with Keras, so that `.keras` files load after `import bert_keras` alone.

Keras knows a class once the module that defines it is imported. Importing our modules loads Keras and its backend,
which takes seconds that `import bert_keras` must not take. So they are imported together with Keras: at once if it is
loaded already, otherwise at the end of the import that loads it, be it that of Keras or of one of our modules.
"""

import importlib
import sys

REGISTERING_MODULES = ("bert_keras.heads.models", "bert_keras.training.optimizers.update_rules")


def register_with_keras() -> None:
    """Register our layers, models, losses and optimizers with Keras, now or as soon as Keras is imported."""
    if "keras" in sys.modules:
        _import_registering_modules()
    elif not any(isinstance(finder, _KerasFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _KerasFinder())


def _import_registering_modules() -> None:
    if sys.modules["keras"].backend.backend() in ("tensorflow", "jax"):  # models refuse other backends
        for name in REGISTERING_MODULES:
            importlib.import_module(name)


class _KerasFinder:
    """Import finder that delegates to the other finders and imports our modules after Keras.

    It waits until no import of Keras or of ours is under way, because a module cannot be imported a second time before
    it is complete. TensorFlow searches for Keras (`importlib.util.find_spec`) long before it imports it, so finding it
    is not enough.
    """

    def __init__(self):
        self._depth = 0  # of imports that began in others

    def find_spec(self, name, path=None, target=None):
        """Return the spec of Keras or of one of our modules with a changed loader; None for any other module."""
        if name != "keras" and not name.startswith("bert_keras."):
            return None
        others = (finder for finder in list(sys.meta_path) if not isinstance(finder, _KerasFinder))
        spec = next((spec for finder in others if (spec := finder.find_spec(name, path, target)) is not None), None)
        if spec is not None and spec.loader is not None:
            self._register_after_loading(spec.loader)
        return spec

    def _register_after_loading(self, loader) -> None:
        """Let a loader import our modules at the end of the outermost import, and then remove the finder."""
        load = loader.exec_module

        def load_and_register(module) -> None:
            del loader.exec_module
            self._depth += 1
            try:
                load(module)
            finally:
                self._depth -= 1
            if self._depth == 0 and "keras" in sys.modules and self in sys.meta_path:
                sys.meta_path.remove(self)
                _import_registering_modules()

        loader.exec_module = load_and_register
