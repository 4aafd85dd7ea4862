"""`LoraModel`: a model whose encoder trains LoRA adapters only, with Keras's `Dense.enable_lora`."""

import keras
import numpy as np

from bert_keras.architectures.base import BertModel
from bert_keras.architectures.layers import zero_initialization
from bert_keras.checkpoints.adapters.adapter_files import AdaptedLayers, Adapter
from bert_keras.checkpoints.building import get_variables, resolve
from bert_keras.files import to_plain


class LoraModel:
    """A model with LoRA adapters in its dense layers; the rest of the encoder is frozen.

    A layer computes x (W + (alpha / r) A B) + b. A starts with random numbers and B with zeros, so that the model
    computes the same before the training.

    Args:
        model: a model with a head that is built on the checkpoint; it is changed in place.
        layers: the layers that get an adapter.
        rank: the rank of the adapters.
        alpha: the adapters are scaled by `alpha` / `rank`.

    Attributes:
        model: the model to train.
    """

    def __init__(self, model: BertModel, layers: AdaptedLayers, rank: int, alpha: int):
        self.model = model
        self._layers, self._rank, self._alpha = layers, rank, alpha
        trained = {name.ours for name in layers.trained}
        for name, variable in get_variables(model).items():
            variable.trainable = name in trained
        # the variables, because `Dense.kernel` becomes the sum, rounded to the compute dtype
        self._kernels: dict[str, keras.Variable] = {}
        for name in layers.kernels:
            layer = self._get_layer(name.ours)
            self._kernels[name.ours] = layer.kernel
            layer.enable_lora(rank, lora_alpha=alpha)

    def _get_layer(self, kernel: str) -> keras.layers.Dense:
        return resolve(self.model, kernel.removesuffix(".kernel"))

    def read_adapter(self) -> Adapter:
        """Return a copy of the adapter with its current values."""
        dense = {name: self._get_layer(name) for name in self._kernels}
        factors = {name: (np.array(one.lora_kernel_a), np.array(one.lora_kernel_b)) for name, one in dense.items()}
        variables = get_variables(self.model)
        trained = {name.ours: np.array(variables[name.ours]) for name in self._layers.trained}
        # the arguments of a classifier that its weights do not show, those that it has
        head = {name: to_plain(getattr(self.model, name, None)) for name in ("problem", "labels")}
        head = {name: value for name, value in head.items() if value is not None}
        return Adapter(self._layers, self._rank, self._alpha, factors, trained, head)

    def merge(self) -> BertModel:
        """Build a model without adapters that computes the same: each kernel is W + (alpha / r) A B."""
        adapter = self.read_adapter()
        with zero_initialization():
            merged = type(self.model).from_config(self.model.get_config())
        trained = get_variables(self.model)
        for name, variable in get_variables(merged).items():
            if name in self._kernels:
                variable.assign(np.array(self._kernels[name]) + adapter.compute_change(name))
            else:
                variable.assign(np.array(trained[name]))
        return merged
