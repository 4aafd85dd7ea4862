"""Measure the ranges of activations, which fixed 8-bit scales are chosen from."""

from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bert_keras.compat import import_onnxruntime
from bert_keras.engines.sequence_runner import make_batches, make_features
from bert_keras.errors import MissingExtraError
from bert_keras.export.ids_graph import HUGGINGFACE_NAMES

if TYPE_CHECKING:
    import onnx

    from bert_keras.config import BertConfig
    from bert_keras.pipelines.batches.encoding import EncodedSequences
    from bert_keras.pipelines.text.tokenizer import BertTokenizer

Batch = Mapping[str, np.ndarray]  # the inputs of a file for one batch, (B, S) int64 each

MAX_CALIBRATION_TOKENS = 16_384  # base takes 12 s for them
_TOKENS_PER_BATCH = 1024
_LENGTHS = (8, 12, 16, 24, 32, 48, 96, 160)  # of drawn sequences
_MIN_TOKEN_COUNT = 100  # tokens of the drawn distribution that are about equally frequent


class Range(NamedTuple):
    """The smallest and largest values of an activation (..., K).

    Attributes:
        low, high: `(K,)` float32, of each channel.
        rank: the number of axes of the activation.
    """

    low: np.ndarray
    high: np.ndarray
    rank: int


def measure_ranges(path: str | os.PathLike, batches: Iterable[Batch]) -> dict[str, Range]:
    """Run a float32 ONNX file and return the range of each activation that a weight matrix multiplies, keyed by name.

    Args:
        path: a file that `write_onnx` wrote.
        batches: at least one batch of inputs.

    Raises:
        MissingExtraError: onnx or onnxruntime is not installed.
    """
    try:
        import onnx

        onnxruntime = import_onnxruntime()
    except ImportError as error:
        raise MissingExtraError("measuring activations", error.name, "onnx") from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory(dir=pathlib.Path(path).parent) as folder:
        measured = pathlib.Path(folder) / "measured.onnx"
        model = onnx.load(path)
        names = _add_ranges_to_outputs(model)
        onnx.save(model, measured)
        del model  # before the session loads another copy of the weights
        session = onnxruntime.InferenceSession(os.fspath(measured), options, providers=["CPUExecutionProvider"])
    outputs = [f"{part}_{number}" for number in range(len(names)) for part in ("low", "high", "shape")]
    ranges: dict[str, Range] = {}
    for batch in batches:
        values = iter(session.run(outputs, dict(batch)))
        for name, low, high, shape in zip(names, values, values, values, strict=True):
            known = ranges.get(name, Range(low, high, len(shape)))
            ranges[name] = Range(np.minimum(low, known.low), np.maximum(high, known.high), len(shape))
    return ranges


def draw_batches(config: BertConfig, tokenizer: BertTokenizer, seed: int = 0) -> list[Batch]:
    """Draw sequences of vocabulary tokens, frequent ones first, for a calibration without texts.

    A vocabulary lists tokens by frequency, so the n-th token is drawn with probability proportional to 1 / (n + 100).

    Args:
        config: the encoder's configuration.
        tokenizer: its tokenizer.
        seed: of the random numbers.
    """
    rng = np.random.default_rng(seed)
    unused = {tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id, tokenizer.unk_id}
    vocabulary = tokenizer.vocabulary[: config.vocabulary_size]
    ids = np.array([i for i, token in enumerate(vocabulary) if i not in unused and not token.startswith("[unused")])
    weights = 1 / (np.arange(len(ids)) + _MIN_TOKEN_COUNT)
    longest = min(config.max_sequence_length, tokenizer.max_sequence_length or config.max_sequence_length)
    batches = []
    for length in sorted({min(length, longest) for length in (*_LENGTHS, longest)}):
        shape = (max(2, _TOKENS_PER_BATCH // length), length)
        token_ids = rng.choice(ids, shape, p=weights / weights.sum())
        token_ids[:, 0], token_ids[:, -1] = tokenizer.cls_id, tokenizer.sep_id
        segments = np.zeros(shape, "int64")
        if length > 4 and config.type_vocabulary_size > 1:  # every other sequence is a pair
            token_ids[::2, length // 2] = tokenizer.sep_id
            segments[::2, length // 2 + 1 :] = 1
        batches.append(_name_inputs(token_ids, np.ones(shape, "int64"), segments))
    return batches


def make_calibration_batches(sequences: EncodedSequences) -> list[Batch]:
    """Return batches of a user's sequences, at most 16,384 tokens drawn from all of them."""
    order = np.random.default_rng(0).permutation(len(sequences))
    count = max(1, int(np.searchsorted(np.cumsum(sequences.lengths[order]), MAX_CALIBRATION_TOKENS)))
    chosen = order[:count]
    batches = []
    for indices in make_batches(sequences.lengths[chosen], _TOKENS_PER_BATCH):
        some = chosen[indices]
        features = make_features(sequences, some, int(sequences.lengths[some].max()))
        batches.append(_name_inputs(*(features[name] for name in ("token_ids", "padding_mask", "segment_ids"))))
    return batches


def _name_inputs(*arrays: np.ndarray) -> dict[str, np.ndarray]:
    """Return the inputs of a file, given ids, mask and segments."""
    return {name: array.astype("int64") for name, array in zip(HUGGINGFACE_NAMES.values(), arrays, strict=True)}


def _add_ranges_to_outputs(model: onnx.ModelProto) -> Sequence[str]:
    """Replace a model's outputs by the ranges of the activations that matrices multiply; return their names."""
    import onnx
    from onnx import helper

    matrices = {tensor.name: tensor.dims[0] for tensor in model.graph.initializer if len(tensor.dims) == 2}
    found = [node.input for node in model.graph.node if node.op_type == "MatMul" and node.input[1] in matrices]
    num_channels = {x: matrices[kernel] for x, kernel in found}
    model.graph.ClearField("output")
    axis = onnx.numpy_helper.from_array(np.array([0]), "ranges_axis")
    model.graph.initializer.append(axis)
    for number, (x, size) in enumerate(num_channels.items()):
        shape = onnx.numpy_helper.from_array(np.array([-1, size]), f"ranges_shape_{number}")
        model.graph.initializer.append(shape)
        flat, low, high, dims = (f"{part}_{number}" for part in ("flat", "low", "high", "shape"))
        model.graph.node.extend(
            [
                helper.make_node("Reshape", [x, shape.name], [flat]),
                helper.make_node("ReduceMin", [flat, axis.name], [low], keepdims=0),
                helper.make_node("ReduceMax", [flat, axis.name], [high], keepdims=0),
                helper.make_node("Shape", [x], [dims]),
            ]
        )
        for name in (low, high):
            model.graph.output.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [size]))
        model.graph.output.append(helper.make_tensor_value_info(dims, onnx.TensorProto.INT64, None))
    return list(num_channels)
