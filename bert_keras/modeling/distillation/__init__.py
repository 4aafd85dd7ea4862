"""Train a small model on the outputs of a large one. Start with `distiller.py`; the losses are in `divergences.py`."""

from bert_keras.modeling.distillation.distiller import Distiller, map_layers
from bert_keras.modeling.distillation.distiller_labels import NO_LABEL

__all__ = ["NO_LABEL", "Distiller", "map_layers"]
