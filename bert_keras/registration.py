"""Lets Keras find our classes in a `.keras` file after `import bert_keras` alone.

Keras knows a class once the module that defines it is imported. Importing ours loads Keras and its backend, which takes
seconds that `import bert_keras` shall not take. So they are imported when Keras is: at once where it is loaded already,
otherwise at the end of its import.
"""

import importlib
import sys

REGISTERING_MODULES = ("bert_keras.modeling", "bert_keras.training.optimizers.adamw_and_lamb")
# If one of these is being imported, it imports Keras, and the modules above cannot be imported before it is done.
_NEEDED_WHOLE = (
    "bert_keras.distribution",
    "bert_keras.training.optimizers.bert_optimizer",
    "bert_keras.training.optimizers.schedules",
)


def register_with_keras() -> None:
    """Register our layers, models, losses and optimizers with Keras, now or as soon as Keras is imported."""
    if "keras" in sys.modules:
        _import_registering_modules()
    elif not any(isinstance(finder, _KerasFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _KerasFinder())


def _import_registering_modules() -> None:
    is_usable = sys.modules["keras"].backend.backend() in ("tensorflow", "jax")  # using a model refuses the others
    if is_usable and not any(name in sys.modules for name in _NEEDED_WHOLE):
        for name in REGISTERING_MODULES:
            importlib.import_module(name)


class _KerasFinder:
    """Finds Keras where the other finders do, until it is imported, and has our modules imported after it.

    TensorFlow looks for Keras (`importlib.util.find_spec`) long before it imports it.
    """

    def find_spec(self, name, path=None, target=None):
        if name != "keras":
            return None
        others = (finder for finder in list(sys.meta_path) if not isinstance(finder, _KerasFinder))
        spec = next((spec for finder in others if (spec := finder.find_spec(name, path, target)) is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _ThenOurs(spec.loader)
        return spec


class _ThenOurs:
    """Keras's loader, which imports our modules when it is done."""

    def __init__(self, loader):
        self._loader = loader

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module) -> None:
        module.__loader__ = module.__spec__.loader = self._loader  # as if it had been found without us
        self._loader.exec_module(module)
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _KerasFinder)]
        _import_registering_modules()
