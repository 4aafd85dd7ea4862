"""Checkpoint to artifact, each with a verdict. Import it as `bert_keras.export`.

The package can be called: `bk.export("checkpoint", "artifacts", formats=["saved_model"])`.
It is a package and a function under one name because both are asked for, and Python
lets a module have a class of its own (see `docs/decisions.md`).
"""

import os
import sys
import types
from collections.abc import Sequence


class _CallableExport(types.ModuleType):
    """The package `bert_keras.export`, which exports a checkpoint when it is called."""

    def __call__(
        self,
        checkpoint: str | os.PathLike,
        out: str | os.PathLike,
        formats: Sequence[str] = ("saved_model",),
        **settings,
    ) -> dict:
        """See `bert_keras.export.artifacts.export_checkpoint`."""
        from bert_keras.extras import check_tensorflow_backend

        check_tensorflow_backend("bk.export")
        from bert_keras.export.artifacts import export_checkpoint

        return export_checkpoint(checkpoint, out, formats, **settings)


sys.modules[__name__].__class__ = _CallableExport
