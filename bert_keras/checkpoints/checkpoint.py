"""`Checkpoint`: what every reader gives and every writer takes, whatever the format on disk.

No Keras here: a command reads and checks a folder before it loads TensorFlow.
"""

import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from bert_keras.checkpoints.huggingface.weight_names import list_weights
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.pipelines.text.tokenizer_folder import missing_vocabulary_message

POOLERLESS = ("BertMaskedLM", "BertTokenClassifier", "BertQuestionAnswerer", "ElectraPretrainer")  # never read one
_DTYPES = ("float16", "bfloat16", "float32", "float64")
_LAYER = re.compile(r"encoder[./]layer[._](\d+)[./]")
NEEDS_POOLER = (("BertPretrainer", "bert"), ("BertPretrainer", "electra"), ("BertClassifier", "bert"))
_MAX_NAMED = 3  # tensors that a sentence names


@dataclasses.dataclass(frozen=True)
class StoredWeight:
    """A weight that can be read: its name in the file, its shape and a function that reads it, both in our layout.

    `dtype` is NumPy's name of the type in the file.
    """

    name: str
    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]
    dtype: str = "float32"


@dataclasses.dataclass(eq=False)
class Checkpoint:
    """A model on its way in or out, under our names.

    Args:
        source: where it came from, for messages.
        model: the class that the format names, "BertClassifier" for example.
        config: the encoder's shape.
        settings: the arguments of the model's class beside the encoder.
        weights: our weight names to what is stored; read when asked for.
        expected_names: our weight names to the names that the format gives them, for messages.
        family: "bert" or "electra", the names that Hugging Face gives the head.
        generator: ELECTRA's generator, a checkpoint of its own.
        task: what is stored of the task that the model was fine-tuned for.
        check_content: compares the files with their checksums, which reads all of them. See `check_once`.
        read_tokenizer: returns the arguments of `BertTokenizer`, None where there is no vocabulary.
        not_carried_over: what the reader left in the source, a sentence for each; `convert` lists them.
    """

    source: str
    model: str
    config: BertConfig
    settings: dict
    weights: Mapping[str, StoredWeight]
    expected_names: Mapping[str, str]
    family: str = "bert"
    generator: "Checkpoint | None" = None
    task: dict | None = None
    check_content: Callable[[], None] | None = None
    read_tokenizer: Callable[[], dict | None] | None = None
    not_carried_over: list[str] = dataclasses.field(default_factory=list)

    @property
    def has_pooler(self) -> bool:
        return "encoder.pooler.kernel" in self.weights

    @property
    def wants_pooler(self) -> bool:
        """Whether the model that the checkpoint names has a pooler; a missing one is reported, not made up."""
        if (self.model, self.family) in NEEDS_POOLER:
            return True
        return self.has_pooler and self.model not in POOLERLESS

    @functools.cached_property
    def tokenizer_settings(self) -> dict | None:
        """The arguments of `BertTokenizer`, None where there is no vocabulary; read once."""
        return None if self.read_tokenizer is None else self.read_tokenizer()

    def __str__(self) -> str:
        return self.source

    def check_once(self) -> None:
        """Compares the files with their checksums, the first time it is called.

        Raises:
            InputError: a file was changed or damaged.
        """
        if self.check_content is not None:
            self.check_content()
            self.check_content = None


def check_has_vocabulary(checkpoint: Checkpoint) -> None:
    """Raises `InputError` if the folder has no vocabulary."""
    if checkpoint.tokenizer_settings is None:
        raise InputError(f"{checkpoint} {missing_vocabulary_message()}")


def describe_unused_tensors(names: Sequence[str], model: str) -> list[str]:
    """Returns the sentence for `not_carried_over` that names tensors which a model has no place for; no names: none."""
    if not names:
        return []
    more = f" and {len(names) - _MAX_NAMED:,} more" if len(names) > _MAX_NAMED else ""
    return [f"tensors that {model} has no place for: {', '.join(names[:_MAX_NAMED])}{more}"]


def check_num_layers(num_layers: int, names: Iterable[str], source: str) -> None:
    """Raises `InputError` unless the names of tensors, of Hugging Face or Google, are of so many layers.

    To be called before anything counts to the config's number, which may be any.
    """
    layers = {match[1] for name in names if (match := _LAYER.search(name))}
    if len(layers) != num_layers:
        raise InputError(
            f"{source}: the config has {num_layers:,} layers, the weights have {len(layers):,}: config and weights "
            "are not of one model"
        )


def check_complete(checkpoint: Checkpoint) -> None:
    """Raises `InputError` unless every weight of the model that the checkpoint names is there, in its shape."""
    num_classes = checkpoint.settings.get("num_classes")
    names = list_weights(checkpoint.model, checkpoint.config, pooler=checkpoint.wants_pooler, family=checkpoint.family)
    check_weights(checkpoint, {name.ours: name.shape(checkpoint.config, num_classes) for name in names})
    if checkpoint.generator is not None:
        check_complete(checkpoint.generator)


def check_encoder(checkpoint: Checkpoint) -> None:
    """Raises `InputError` unless every weight of the checkpoint's encoder is there, in its shape."""
    names = list_weights("BertEncoder", checkpoint.config, pooler=checkpoint.has_pooler, family=checkpoint.family)
    check_weights(checkpoint, {name.ours: name.shape(checkpoint.config) for name in names})
    if checkpoint.generator is not None:
        check_complete(checkpoint.generator)


def check_num_classes(checkpoint: Checkpoint) -> None:
    """Raises `InputError` if the checkpoint's head is over classes and its weights are of another number of them."""
    num_classes = checkpoint.settings.get("num_classes")
    bias = checkpoint.weights.get("classifier.bias")
    if num_classes is not None and (bias is None or tuple(bias.shape) != (num_classes,)):
        stored = "no weights of it" if bias is None else f"weights of the shape {tuple(bias.shape)}"
        raise InputError(
            f"{checkpoint}: the config has a head over {num_classes:,} classes, and there are {stored}: say num_classes"
        )


def check_weights(checkpoint: Checkpoint, shapes: Mapping[str, tuple[int, ...]], model: str | None = None) -> None:
    """Compares what is stored with the weights of a model; nothing is read.

    Args:
        checkpoint: what is stored.
        shapes: the shape of each weight, by our names.
        model: the class of the model, for messages; default: the one that the checkpoint names.

    Raises:
        InputError: a weight is missing or of another shape; both shapes are named.
    """
    stored = checkpoint.weights
    if missing := [checkpoint.expected_names.get(name, name) for name in shapes if name not in stored]:
        raise InputError(
            f"{checkpoint.source} lacks {len(missing)} of the {len(shapes)} tensors of {model or checkpoint.model}, "
            f"{', '.join(missing[:3])} {'among them' if len(missing) > 3 else 'in all'}: "
            "config and weights are not of one model, or the file was written without them"
        )
    for name, shape in shapes.items():
        if tuple(stored[name].shape) != tuple(shape):
            raise InputError(
                f"{checkpoint.source}: tensor {stored[name].name}, read as {name}, is {tuple(stored[name].shape)}, "
                f"the config makes it {tuple(shape)}: config and weights are not of one model"
            )
        if stored[name].dtype not in _DTYPES:
            raise InputError(
                f"{checkpoint.source}: tensor {stored[name].name} holds {stored[name].dtype} numbers, which are no "
                f"weights without the scales they were quantized by; expected {', '.join(_DTYPES)}: take the folder "
                "of the model that was not quantized"
            )
