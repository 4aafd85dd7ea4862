"""`Checkpoint`: the format-independent description of a stored model.

`reading.py` returns one for a folder of any format, and `building.py` builds a Keras model from it. This module does
not import Keras, so commands can check a folder before they load TensorFlow.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bert_keras.architectures.known_architectures import get_architecture
from bert_keras.checkpoints.huggingface.weight_names import list_weights
from bert_keras.checks import format_names
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.heads.known_heads import get_head
from bert_keras.pipelines.text.tokenizer_folder import MISSING_VOCABULARY

if TYPE_CHECKING:
    import keras

_FIX = "expected finite numbers: use a checkpoint from before training diverged"
_DTYPES = ("float16", "bfloat16", "float32", "float64")


@dataclasses.dataclass(frozen=True)
class StoredWeight:
    """A weight in a file, read on demand.

    Attributes:
        name: its name in the file.
        shape: its shape, in the layout of our models.
        read: function that reads it, in the same layout.
        dtype: NumPy's name of the dtype in the file.
    """

    name: str
    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]
    dtype: str = "float32"


@dataclasses.dataclass(eq=False)
class Checkpoint:
    """A stored model.

    Args:
        source: the folder, for messages.
        model: the class of the model, "BertClassifier" for example.
        config: the config of its encoder.
        settings: the other arguments of the model's class.
        weights: the stored weights, keyed by the weight names of our models.
        expected_names: the names that the format uses, keyed by our weight names, for messages.
        generator: ELECTRA's generator, a checkpoint itself.
        task: the settings of the task that the model was fine-tuned for.
        check_content: compares the files with their checksums, which reads all of them. See `check_once`.
        read_tokenizer: returns the arguments of `BertTokenizer`, or None if there is no vocabulary.
        not_carried_over: the content of the source that the reader skipped, one phrase each, for `convert`.
        hub_name: the name of the model on the Hub, `hf://ORG/NAME`, if `source` is a copy of it in the cache.
    """

    source: str
    model: str
    config: BertConfig
    settings: dict
    weights: Mapping[str, StoredWeight]
    expected_names: Mapping[str, str]
    generator: Checkpoint | None = None
    task: dict | None = None
    check_content: Callable[[], None] | None = None
    read_tokenizer: Callable[[], dict | None] | None = None
    not_carried_over: list[str] = dataclasses.field(default_factory=list)
    hub_name: str | None = None

    @property
    def has_pooler(self) -> bool:
        """Whether the weights of a pooler are stored."""
        return "encoder.pooler.kernel" in self.weights

    @property
    def wants_pooler(self) -> bool:
        """Whether the stored model has a pooler. If its weights are missing, that is an error."""
        if self.model in get_architecture(self.config.model_type).needs_pooler:
            return True
        return self.has_pooler and not get_head(self.model).ignores_pooler

    def wants_pooler_for(self, model: str) -> bool:
        """Whether a model of class `model` that is built on this encoder has a pooler."""
        if model in get_architecture(self.config.model_type).needs_pooler:
            return True
        return self.has_pooler and get_head(model).keeps_pooler

    @functools.cached_property
    def tokenizer_settings(self) -> dict | None:
        """The arguments of `BertTokenizer`, or None if there is no vocabulary."""
        return None if self.read_tokenizer is None else self.read_tokenizer()

    def __str__(self) -> str:
        return self.hub_name or self.source

    def check_once(self) -> None:
        """Compare the files with their checksums, the first time it is called.

        Raises:
            InputError: a file was changed or damaged.
        """
        if self.check_content is not None:
            self.check_content()
            self.check_content = None


def check_has_vocabulary(checkpoint: Checkpoint) -> None:
    """Raise `InputError` if the folder has no vocabulary."""
    if checkpoint.tokenizer_settings is None:
        raise InputError(f"{checkpoint} {MISSING_VOCABULARY}")


def describe_unused_tensors(names: Sequence[str], model: str) -> list[str]:
    """Return the phrase for `not_carried_over` that lists tensors which a model does not have, if there are any."""
    return [f"tensors that {model} does not have: {format_names(names)}"] if names else []


def check_num_layers(num_layers: int, names: Iterable[str], prefix: str, source: str) -> None:
    """Raise `InputError` unless tensors belong to `num_layers` layers.

    Call it before any loop over the layers, because the number in an untrusted config can be arbitrarily large.

    Args:
        num_layers: the number of layers in the config.
        names: the names of the tensors in a file.
        prefix: the beginning of the names of the tensors of layer {i}.
        source: the file of the config, for messages.
    """
    layer = re.compile(re.escape(prefix).replace(re.escape("{i}"), r"(\d+)"))
    layers = {match[1] for name in names if (match := layer.match(name))}
    if len(layers) != num_layers:
        raise InputError(
            f"{source}: the config has {num_layers:,} layers and the weights have {len(layers):,}: config and weights "
            "belong to different models"
        )


def check_complete(checkpoint: Checkpoint) -> None:
    """Raise `InputError` unless every weight of the stored model exists with its shape."""
    num_classes = checkpoint.settings.get("num_classes")
    names = list_weights(checkpoint.model, checkpoint.config, pooler=checkpoint.wants_pooler)
    check_weights(checkpoint, {name.ours: name.shape(checkpoint.config, num_classes) for name in names})
    if checkpoint.generator is not None:
        check_complete(checkpoint.generator)


def check_encoder(checkpoint: Checkpoint) -> None:
    """Raise `InputError` unless every weight of the stored encoder exists with its shape."""
    names = list_weights("BertEncoder", checkpoint.config, pooler=checkpoint.has_pooler)
    check_weights(checkpoint, {name.ours: name.shape(checkpoint.config) for name in names})
    if checkpoint.generator is not None:
        check_complete(checkpoint.generator)


def check_num_classes(checkpoint: Checkpoint) -> None:
    """Raise `InputError` if the config has another number of classes than the weights of the head."""
    num_classes = checkpoint.settings.get("num_classes")
    bias = checkpoint.weights.get("classifier.bias")
    if num_classes is not None and (bias is None or tuple(bias.shape) != (num_classes,)):
        stored = "no weights" if bias is None else f"weights of shape {tuple(bias.shape)}"
        raise InputError(
            f"{checkpoint}: the config has a head with {num_classes:,} classes, and the file has {stored} for it: "
            "pass num_classes"
        )


def check_weights(checkpoint: Checkpoint, shapes: Mapping[str, tuple[int, ...]], model: str | None = None) -> None:
    """Compare the names, shapes and dtypes of the stored weights with those of a model, without reading them.

    Args:
        checkpoint: the stored weights.
        shapes: the shape of each weight of the model, keyed by our names.
        model: the class of the model, for messages. Default: that of the checkpoint.

    Raises:
        InputError: a weight is missing, or has another shape or an unsupported dtype.
    """
    stored = checkpoint.weights
    if missing := [checkpoint.expected_names.get(name, name) for name in shapes if name not in stored]:
        raise InputError(
            f"{checkpoint} lacks {len(missing)} of the {len(shapes)} tensors of {model or checkpoint.model} "
            f"({format_names(missing)}): config and weights belong to different models, or the file was written "
            "without them"
        )
    for name, shape in shapes.items():
        if tuple(stored[name].shape) != tuple(shape):
            raise InputError(
                f"{checkpoint}: tensor {stored[name].name}, read as {name}, has shape {tuple(stored[name].shape)}; "
                f"expected {tuple(shape)}, given the config: config and weights belong to different models"
            )
        if stored[name].dtype not in _DTYPES:
            raise InputError(
                f"{checkpoint}: tensor {stored[name].name} holds {stored[name].dtype} numbers, codes of a "
                f"quantized model; expected {', '.join(_DTYPES)}: use the folder of the unquantized model"
            )


def check_finite_weight(name: str, value: np.ndarray, source: str) -> None:
    """Raise `InputError` if a weight that was read from `source` contains NaN or infinity."""
    if not np.isfinite(value).all():
        raise InputError(f"{source}: tensor {name} contains NaN or infinity; {_FIX}")


def check_finite_model(model: keras.Model, source: str) -> None:
    """Raise `InputError` if a weight of a model that was loaded from `source` contains NaN or infinity."""
    from keras import ops

    for variable in model.variables:
        if "float" in str(variable.dtype):
            check_finite_weight(variable.path, ops.convert_to_numpy(variable), source)


def check_finite_outputs(model: keras.Model, *values: np.ndarray) -> None:
    """Raise `InputError` if outputs of a model contain NaN or infinity; the message names weights that do too."""
    if all(np.isfinite(value).all() for value in values):
        return
    from keras import ops

    weights = [variable for variable in model.variables if "float" in str(variable.dtype)]
    names = [weight.path for weight in weights if not np.isfinite(ops.convert_to_numpy(weight)).all()]
    reason = f", as do its weights ({format_names(names)})" if names else " for this text"
    raise InputError(f"the model outputs NaN or infinity{reason}; {_FIX}")
