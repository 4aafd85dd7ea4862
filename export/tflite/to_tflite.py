"""A model as a TFLite file: ids of one length in, named answers out, all weights inside, builtin operators only."""

import contextlib
import dataclasses
import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

import keras
import tensorflow as tf

from bert_keras.checkpoints.building import get_encoder
from bert_keras.checks import check_integer
from bert_keras.compat import TFLITE_CONVERTER_ERROR
from bert_keras.errors import InputError, ParityError
from bert_keras.export.ids_graph import ids_function
from bert_keras.export.tflite.tflite_file import constant_bytes, operators, read_file
from bert_keras.modeling import BertClassifier
from bert_keras.publishing import publish_file

LENGTHS = (32, 64, 128)
SIGNATURE = "serving_default"

# Bytes a parameter takes in a file: in a matrix, and in a vector (biases and norms, which dynamic int8 leaves alone).
# There is no static int8: see `docs/design/decisions.md`.
_WEIGHT_BYTES = {"float32": (4, 4), "float16": (2, 2), "dynamic_int8": (1, 4)}
QUANTIZATIONS = tuple(_WEIGHT_BYTES)


class TfliteFacts(NamedTuple):
    """What a checked file holds.

    Attributes:
        size_bytes: the whole file.
        constant_bytes: its constants. On MiniLM 1.000003 times `weight_bytes` at most, with dynamic int8 1.007 times.
        weight_bytes: the least that the model's weights take.
        operators: names of its operators, all of them builtin ones, sorted.
    """

    size_bytes: int
    constant_bytes: int
    weight_bytes: int
    operators: tuple[str, ...]


def write_tflite(
    model: keras.Model, path: str | os.PathLike, *, length: int = 128, quantization: str = "float32"
) -> TfliteFacts:
    """Writes a model for one row of `length` ids, the shape that phones' accelerators want.

    Inputs of the one signature, `serving_default`, are `input_ids`, `attention_mask` and `token_type_ids`, int32
    (1, S); its outputs are those of `device_answers`, float32. MiniLM takes 89.7, 44.9 and 23.0 MB by quantization.

    Args:
        model: an encoder, with a head or without, that computes in float32.
        path: the file to write, or to replace.
        length: S, from 2 ([CLS] and [SEP]) to what the model reads.
        quantization: "float32"; "float16", half the size; "dynamic_int8", a quarter: matrices of 8 bits, multiplied
            by activations whose scale is found as they come. A masked LM's token table then stands there twice, with
            a scale for all of it where it is looked up and one for each token where it gives logits.

    Returns:
        What was found in the file.

    Raises:
        InputError: an argument is out of its range, or the model computes in 16 bits.
        ParityError: the file would lack weights, or need operators that are not TFLite's own; none is written.
    """
    _check_quantization(quantization)
    with tflite_source(model, {SIGNATURE: length}) as source:
        return write_tflite_source(source, path, quantization)


def write_multi_length_tflite(
    model: keras.Model, path: str | os.PathLike, *, lengths: Sequence[int] = LENGTHS, quantization: str = "float32"
) -> TfliteFacts:
    """Writes a model for rows of several lengths: a signature `length_S` for each, over the same weights.

    A short text then costs what a short row costs. On MiniLM three lengths take 0.3 % more bytes than one, 3 % with
    dynamic int8. MediaPipe cannot use such a file; arguments and errors are those of `write_tflite`.
    """
    if not lengths or len(set(lengths)) != len(lengths):
        raise InputError(f"the lengths are {list(lengths)}; expected at least one, each once: name them anew")
    _check_quantization(quantization)
    with tflite_source(model, {f"length_{length}": length for length in lengths}) as source:
        return write_tflite_source(source, path, quantization)


@dataclasses.dataclass(frozen=True)
class TfliteSource:
    """A model's functions as a SavedModel, from which files of each quantization are converted.

    Attributes:
        model: the model.
        folder: the SavedModel.
        lengths: of the sequences of each signature.
        read: ids of the variables that the functions read.
    """

    model: keras.Model
    folder: str
    lengths: Mapping[str, int]
    read: Set[int]


@contextlib.contextmanager
def tflite_source(model: keras.Model, lengths: Mapping[str, int]) -> Iterator[TfliteSource]:
    """Traces and saves a model once for all its TFLite files: 2.4 s of processor time for base.

    The variables have an owner of their own and go in as such. Under a Keras model as the owner they stay handles
    without values, and nothing is said of it (test_a_file_without_weights_is_refused). Frozen into each function
    first they give the same file, but three lengths of MiniLM then take 9.0 GB of memory and 60 s, not 1.9 GB and 17 s.

    Args:
        model: as in `write_tflite`.
        lengths: of the sequences that each signature takes.

    Raises:
        InputError: a length is out of its range, or the model computes in 16 bits.
    """
    _check_model(model, lengths.values())
    answers = device_answers(model)
    functions = {
        name: ids_function(model, batch_size=1, length=length, answers=answers) for name, length in lengths.items()
    }
    owner = tf.Module()
    owner.weights = [variable.value for variable in model.variables]
    read = set().union(*map(_variables_read, functions.values()))
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(owner, folder, signatures=functions)
        yield TfliteSource(model, folder, lengths, read)


def write_tflite_source(source: TfliteSource, path: str | os.PathLike, quantization: str) -> TfliteFacts:
    """Writes one file of a source; see `write_tflite`."""
    content = _converted(source, quantization)
    longest = max(source.lengths.values())
    facts = check_tflite(content, weight_bytes=_weight_bytes(source.model, source.read, longest, quantization))
    with publish_file(path) as staging:
        staging.write_bytes(content)
    return facts


def _converted(source: TfliteSource, quantization: str) -> bytes:
    """Returns a TFLite file of a source's functions, a signature each."""
    converter = tf.lite.TFLiteConverter.from_saved_model(source.folder, signature_keys=list(source.lengths))
    converter.optimizations = [] if quantization == "float32" else [tf.lite.Optimize.DEFAULT]
    converter.target_spec.supported_types = [tf.float16] if quantization == "float16" else []
    converter.exclude_conversion_metadata = True  # what converted it and how; packing base anew for that takes 2.5 s
    try:
        return converter.convert()
    except TFLITE_CONVERTER_ERROR.get() as error:
        needed = ", ".join(re.findall(r"^(?:Custom|Flex|TF Select) ops: (.+)$", str(error), re.MULTILINE))
        raise ParityError(f"TFLite's builtin operators cannot compute the model: {needed or error}") from error


def device_answers(model: keras.Model) -> Callable[[dict[str, tf.Tensor]], dict[str, tf.Tensor]]:
    """Returns what a file makes of a model's outputs, named as at the border.

    A classifier's become one output, as MediaPipe wants: `probabilities` (1, C), or `scores` (1, C) of a
    regression. Those of other models stay as they are.
    """
    if not isinstance(model, BertClassifier):
        return dict
    name, function = {
        "single_label": ("probabilities", tf.nn.softmax),
        "multi_label": ("probabilities", tf.sigmoid),
        "regression": ("scores", tf.identity),
    }[model.problem]
    return lambda outputs: {name: function(outputs["logits"])}


def check_tflite(content: bytes, *, weight_bytes: int) -> TfliteFacts:
    """Checks what a converter gave.

    Args:
        content: of a TFLite file.
        weight_bytes: the least that the model's weights take.

    Raises:
        ParityError: there are operators other than builtin ones, or fewer bytes of constants.
    """
    file = read_file(content)
    builtin, foreign = operators(file)
    if foreign:
        raise ParityError(f"the TFLite file needs {', '.join(foreign)}; expected TFLite's builtin operators alone")
    found = constant_bytes(file)
    if found < weight_bytes:
        raise ParityError(
            f"the TFLite file holds {found:,} bytes of constants; expected {weight_bytes:,} or more, "
            "since the model's weights take as many: the converter left some out"
        )
    return TfliteFacts(len(content), found, weight_bytes, builtin)


def _check_quantization(quantization: str) -> None:
    if quantization not in QUANTIZATIONS:
        raise InputError(f"quantization is {quantization!r}; expected one of {', '.join(QUANTIZATIONS)}")


def _check_model(model, lengths: Iterable[int]) -> None:
    encoder = get_encoder(model)
    longest = encoder.config.max_sequence_length
    for length in lengths:
        check_integer("length", length, 2, longest)
    if encoder.compute_dtype != "float32":
        raise InputError(
            f"the model computes in {encoder.compute_dtype}, for which TFLite has no operators: load it under Keras' "
            "policy float32 and choose the quantization of the file"
        )


def _variables_read(function) -> set[int]:
    """Returns the ids of the variables that a concrete function's outputs depend on; an embedder's pooler is none."""
    seen, waiting = set(), [tensor.op for tensor in function.outputs]
    while waiting:
        operation = waiting.pop()
        if operation not in seen:
            seen.add(operation)
            waiting += [tensor.op for tensor in operation.inputs]
    handles = {id(handle) for handle, inside in function.graph.captures if inside.op in seen}
    return {id(variable) for variable in function.variables if id(variable.handle) in handles}


def _weight_bytes(model, read: set[int], length: int, quantization: str) -> int:
    """Returns the least that those weights take whose variables are `read`.

    The converter keeps one of equal constants, folds those of one value (a new model's biases and norms), and drops
    the positions beyond `length`.
    """
    of_matrix, of_vector = _WEIGHT_BYTES[quantization]
    positions = get_encoder(model).embeddings.position
    sizes = {}
    for variable in model.variables:
        if id(variable.value) not in read:
            continue
        values = variable.value.numpy()
        if positions is not None and variable is positions.embeddings:
            values = values[:length]
        if (values != values.flat[0]).any():
            bytes_each = of_matrix if values.ndim > 1 else of_vector
            sizes[hashlib.sha256(values.tobytes()).digest()] = values.size * bytes_each
    return sum(sizes.values())
