"""Convert a model to a TFLite file with inputs of a fixed length, builtin operators only, and all weights."""

import contextlib
import dataclasses
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Set
from typing import NamedTuple

import keras
import tensorflow as tf

from bert_keras.checkpoints.building import get_encoder
from bert_keras.checks import check_integer
from bert_keras.compat import TFLITE_CONVERTER_ERROR
from bert_keras.errors import InputError, ParityError
from bert_keras.export.ids_graph import build_ids_function
from bert_keras.export.settings import QUANTIZATIONS
from bert_keras.export.tflite.output_conversion import get_output_conversion
from bert_keras.export.tflite.tflite_file import count_constant_bytes, list_operators, parse_tflite, round_to_four_bits
from bert_keras.publishing import publish_file

SIGNATURE = "serving_default"

# Bytes per parameter in a file: in matrices, and in vectors (biases and norms, which dynamic int8 does not quantize).
# There is no static int8: see `docs/design/decisions.md`.
_WEIGHT_BYTES = {"float32": (4, 4), "float16": (2, 2), "dynamic_int8": (1, 4)}  # dynamic int4 is made from int8


class TfliteFacts(NamedTuple):
    """The contents of a TFLite file that passed `check_tflite`.

    Attributes:
        size_bytes: the size of the file.
        constant_bytes: the size of its constants. For MiniLM at most 1.000003 times `weight_bytes`, and 1.007 times
            with dynamic int8.
        weight_bytes: the smallest size that the model's weights can have.
        operators: the sorted names of its operators, all of which are builtin.
    """

    size_bytes: int
    constant_bytes: int
    weight_bytes: int
    operators: tuple[str, ...]


def write_tflite(
    model: keras.Model, path: str | os.PathLike, *, length: int = 128, quantization: str = "float32"
) -> TfliteFacts:
    """Write a model for one sequence of a fixed length, the shape that accelerators of phones require.

    The file has one signature, `serving_default`. Its inputs are `input_ids`, `attention_mask` and `token_type_ids`,
    int32 (1, S); its outputs are those of `output_conversion.py`, float32. MiniLM takes 89.7 MB in float32, 44.9 MB in
    float16 and 23.0 MB in dynamic int8.

    Args:
        model: an encoder, with or without a head, that computes in float32.
        path: the file to write, or to replace.
        length: S, from 2 ([CLS] and [SEP]) to the model's maximum.
        quantization: "float32"; "float16", half the size; or "dynamic_int8", a quarter of the size: matrices have 8
            bits, and activations are quantized at run time. A masked LM's token table is then in the file twice, with
            one scale for the lookup and one scale per token for the logits. Or "dynamic_int4": as dynamic int8, but
            the matrices of products have 4 bits; MiniLM takes 17.7 MB.

    Returns:
        The contents of the file.

    Raises:
        InputError: an argument is out of range, or the model computes in 16 bits.
        ParityError: the file would lack weights, or need operators that are not builtin. Nothing is written.
    """
    if quantization not in QUANTIZATIONS:
        raise InputError(f"quantization is {quantization!r}; expected one of {', '.join(QUANTIZATIONS)}")
    with trace_tflite_source(model, {SIGNATURE: length}) as source:
        return write_tflite_from_source(source, path, quantization)


@dataclasses.dataclass(frozen=True)
class TfliteSource:
    """A traced model as a SavedModel, from which the files of all quantizations are converted.

    Attributes:
        model: the model.
        folder: the SavedModel.
        lengths: the sequence length of each signature, keyed by its name.
        used_variables: the `id` of each variable that the outputs depend on.
    """

    model: keras.Model
    folder: str
    lengths: Mapping[str, int]
    used_variables: Set[int]


@contextlib.contextmanager
def trace_tflite_source(model: keras.Model, lengths: Mapping[str, int]) -> Iterator[TfliteSource]:
    """Trace and save a model once for all of its TFLite files, which takes 2.4 s of processor time for base.

    A separate `tf.Module` owns the variables. If a Keras model owns them, the converter silently writes handles without
    values (test_file_without_weights_is_rejected). Freezing them into each function gives the same file, but three
    lengths of MiniLM then take 9.0 GB of memory and 60 s instead of 1.9 GB and 17 s.

    Args:
        model: see `write_tflite`.
        lengths: the sequence length of each signature, keyed by its name.

    Raises:
        InputError: a length is out of range, or the model computes in 16 bits.
    """
    encoder = get_encoder(model)
    for length in lengths.values():
        check_integer("length", length, 2, encoder.config.max_sequence_length)
    if encoder.compute_dtype != "float32":
        raise InputError(
            f"the model computes in {encoder.compute_dtype}, for which TFLite has no operators: load it under the "
            "Keras policy float32, and choose a quantization for the file"
        )
    convert = get_output_conversion(model).convert
    functions = {
        name: build_ids_function(model, batch_size=1, length=length, convert_outputs=convert)
        for name, length in lengths.items()
    }
    owner = tf.Module()
    owner.weights = [variable.value for variable in model.variables]
    used_variables = set().union(*map(_find_used_variables, functions.values()))
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(owner, folder, signatures=functions)
        yield TfliteSource(model, folder, lengths, used_variables)


def write_tflite_from_source(source: TfliteSource, path: str | os.PathLike, quantization: str) -> TfliteFacts:
    """Write the file of one quantization; see `write_tflite`."""
    has_four_bits = quantization == "dynamic_int4"
    converted = "dynamic_int8" if has_four_bits else quantization
    content = _convert(source, converted)
    facts = check_tflite(content, weight_bytes=_count_weight_bytes(source, converted))
    if has_four_bits:
        content = round_to_four_bits(content)
        facts = facts._replace(size_bytes=len(content), constant_bytes=count_constant_bytes(parse_tflite(content)))
    with publish_file(path) as staging:
        staging.write_bytes(content)
    return facts


def _convert(source: TfliteSource, quantization: str) -> bytes:
    """Convert a traced model to the content of a TFLite file."""
    converter = tf.lite.TFLiteConverter.from_saved_model(source.folder, signature_keys=list(source.lengths))
    converter.optimizations = [] if quantization == "float32" else [tf.lite.Optimize.DEFAULT]
    converter.target_spec.supported_types = [tf.float16] if quantization == "float16" else []
    converter.exclude_conversion_metadata = True  # adding it repacks the file, 2.5 s for base
    try:
        return converter.convert()
    except TFLITE_CONVERTER_ERROR.get() as error:
        needed = ", ".join(re.findall(r"^(?:Custom|Flex|TF Select) ops: (.+)$", str(error), re.MULTILINE))
        raise ParityError(f"the model needs operators that TFLite does not have: {needed or error}") from error


def check_tflite(content: bytes, *, weight_bytes: int) -> TfliteFacts:
    """Check the operators and the size of the weights of a converted file.

    Args:
        content: the content of a TFLite file.
        weight_bytes: the smallest size that the model's weights can have.

    Raises:
        ParityError: there are operators that are not builtin, or too few bytes of constants.
    """
    file = parse_tflite(content)
    builtin, other = list_operators(file)
    if other:
        raise ParityError(f"the TFLite file needs {', '.join(other)}; expected only TFLite's builtin operators")
    found = count_constant_bytes(file)
    if found < weight_bytes:
        raise ParityError(
            f"the TFLite file contains {found:,} bytes of constants; expected {weight_bytes:,} or more for the model's "
            "weights: the converter left some out"
        )
    return TfliteFacts(len(content), found, weight_bytes, builtin)


def _find_used_variables(function: tf.types.experimental.ConcreteFunction) -> set[int]:
    """Return the `id` of each variable that a function's outputs depend on, which excludes an embedder's pooler."""
    seen, waiting = set(), [tensor.op for tensor in function.outputs]
    while waiting:
        operation = waiting.pop()
        if operation not in seen:
            seen.add(operation)
            waiting += [tensor.op for tensor in operation.inputs]
    handles = {id(handle) for handle, inside in function.graph.captures if inside.op in seen}
    return {id(variable) for variable in function.variables if id(variable.handle) in handles}


def _count_weight_bytes(source: TfliteSource, quantization: str) -> int:
    """Return the smallest size that the weights of a traced model can have in a file.

    The converter merges equal constants, folds constants whose values are all the same (a new model's biases and
    norms), and drops positions beyond the longest signature.
    """
    matrix_bytes, vector_bytes = _WEIGHT_BYTES[quantization]
    positions = get_encoder(source.model).embeddings.position
    sizes = {}
    for variable in source.model.variables:
        if id(variable.value) not in source.used_variables:
            continue
        values = variable.value.numpy()
        if positions is not None and variable is positions.embeddings:
            values = values[: max(source.lengths.values())]
        if (values != values.flat[0]).any():
            num_bytes = matrix_bytes if values.ndim > 1 else vector_bytes
            sizes[hashlib.sha256(values.tobytes()).digest()] = values.size * num_bytes
    return sum(sizes.values())
