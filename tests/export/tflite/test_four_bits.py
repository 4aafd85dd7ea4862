"""Files with 4-bit weights, run in LiteRT."""

import numpy as np
import pytest

from bert_keras.export.tflite import tflite_file
from bert_keras.export.tflite.tflite_file import list_constant_types, parse_tflite
from bert_keras.export.tflite.to_tflite import trace_tflite_source, write_tflite, write_tflite_from_source

from .test_to_tflite import expect, largest_difference, run_litert

LENGTH = 9


@pytest.fixture
def exact_model(make_model):
    """A model whose matrices in products have values that 4 bits represent exactly."""
    model, rng = (
        make_model("encoder_without_pooler", num_layers=1, num_heads=3, hidden_dim=36, intermediate_dim=40),
        np.random,
    )
    for variable in model.variables:
        if len(variable.shape) > 1 and "embeddings" not in variable.path:
            steps = rng.default_rng(3).integers(-7, 8, variable.shape)
            steps.reshape(variable.shape)[0] = 7  # along the axis of inputs, so that every scale is that of `steps`
            variable.assign(0.01 * steps)
    return model


def test_weights_of_four_bits_are_exact_in_litert(exact_model, make_batch, tmp_path):
    batch, path = make_batch(length=LENGTH), tmp_path / "model.tflite"
    write_tflite(exact_model, path, length=LENGTH, quantization="dynamic_int4")
    assert {"INT4", "INT8"} <= list_constant_types(parse_tflite(path.read_bytes()))
    expected = expect("encoder_without_pooler", exact_model, batch)
    assert largest_difference(run_litert(path, batch), expected) < 0.05  # the activations have 8 bits


def test_signatures_share_their_weights_of_four_bits(exact_model, make_batch, tmp_path):
    sizes = {}
    for quantization in ("dynamic_int8", "dynamic_int4"):
        with trace_tflite_source(exact_model, {"short": 5, "long": LENGTH}) as source:
            sizes[quantization] = write_tflite_from_source(source, tmp_path / quantization, quantization).constant_bytes
    assert sizes["dynamic_int4"] < 0.9 * sizes["dynamic_int8"]
    batch = make_batch(length=5, lengths=(5, 3))
    expected = expect("encoder_without_pooler", exact_model, batch)
    assert largest_difference(run_litert(tmp_path / "dynamic_int4", batch, "short"), expected) < 0.05


def test_rows_of_odd_length_keep_eight_bits(make_model, tmp_path):
    model = make_model("encoder_without_pooler", num_layers=1, hidden_dim=35)
    write_tflite(model, tmp_path / "model.tflite", length=LENGTH, quantization="dynamic_int4")
    content = parse_tflite((tmp_path / "model.tflite").read_bytes())
    shapes = {
        tuple(tensor.ShapeAsNumpy().tolist())
        for tensor in map(content.Subgraphs(0).Tensors, range(content.Subgraphs(0).TensorsLength()))
        if tensor.Type() == tflite_file.schema.TensorType.INT4
    }
    assert all(shape[-1] % 2 == 0 for shape in shapes)


def test_clipping_never_makes_the_error_larger():
    matrix = np.random.default_rng(0).standard_t(4, (50, 384)).astype(np.float32)  # with large values
    matrix[0] = 0
    values, scales = tflite_file._round_rows(matrix)
    plain_scales = np.maximum(np.abs(matrix).max(axis=1, keepdims=True) / 7, 1e-9)
    plain = np.round(matrix / plain_scales) * plain_scales
    errors, plain_errors = (np.square(one - matrix).sum(axis=1) for one in (values * scales[:, np.newaxis], plain))
    assert values.min() >= -8
    assert values.max() <= 7
    assert (errors <= plain_errors + 1e-6).all()
    assert errors.sum() < 0.9 * plain_errors.sum()
    assert not values[0].any()
