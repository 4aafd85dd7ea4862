"""With constant weights for few rows, and with rewritten operations, a SavedModel returns the same answers."""

import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.export.parity.parity_check import start_saved_model_check
from bert_keras.export.saved_model import short_texts
from bert_keras.export.saved_model.graph_rewriting import rewrite_saved_model
from bert_keras.export.saved_model.op_audit import audit_saved_model, read_meta_graph
from bert_keras.export.saved_model.to_saved_model import ServedModel, write_saved_model
from tests.export.conftest import KINDS, LENGTH
from tests.export.saved_model.test_to_saved_model import check_report
from tests.made_once import made_once
from tests.marks import slow_except

IDS = ("input_ids", "attention_mask", "token_type_ids")
TOLERANCE = 2e-5


@pytest.fixture(scope="session")
def fast(references, tmp_path_factory):
    """Function that returns the folder of a kind's SavedModel with constant weights, written once."""

    def folder(kind: str):
        reference = references(kind)
        parts = reference.model, reference.tokenizer, reference.task
        return made_once(
            tmp_path_factory,
            f"{kind}.fast_saved_model",
            lambda path: write_saved_model(*parts, path, fast_short_texts=True),
        )

    return folder


def make_ids(batch_size, length, num_padding=0):
    ids = np.random.default_rng(batch_size * length).integers(5, 20, (batch_size, length)).astype(np.int32)
    mask = np.ones_like(ids)
    mask[0, length - num_padding :] = 0
    return {name: tf.constant(values) for name, values in zip(IDS, (ids, mask, ids % 2), strict=True)}


@pytest.mark.parametrize("kind", slow_except(KINDS, quick=["classifier", "token_classifier", "masked_lm"]))
def test_predictions_with_constant_weights_equal_the_checkpoint(kind, references, fast, in_this_process):
    check_report(start_saved_model_check(references(kind), fast(kind)).report())
    audit_saved_model(fast(kind), "2.13")


@pytest.mark.parametrize(
    ("batch_size", "length", "num_padding", "is_constant"),
    [
        (1, 7, 0, False),
        (1, 8, 0, True),
        (2, 10, 0, True),
        (2, 10, 1, False),  # padding
        (5, 16, 0, True),
        (5, LENGTH, 0, False),
    ],
)
def test_8_to_80_tokens_without_padding_use_the_constants(batch_size, length, num_padding, is_constant, fast):
    model = tf.saved_model.load(str(fast("classifier")))
    ids = make_ids(batch_size, length, num_padding)
    before = model.signatures["ids"](**ids)["logits"].numpy()
    for variable in model.signatures["ids"].variables:
        if len(variable.shape) == 2 and 40 in variable.shape:  # the feed-forward matrices of the blocks
            variable.assign(tf.zeros_like(variable))
    after = model.signatures["ids"](**ids)["logits"].numpy()
    assert np.allclose(before, after, rtol=0, atol=TOLERANCE) == is_constant


def test_texts_and_ids_share_one_copy_of_the_constants(references, fast):
    functions = read_meta_graph(fast("classifier")).graph_def.library.function
    (few,) = filter(is_few_rows, functions)
    assert few.attr["_noinline"].b
    callers = [node for one in functions for node in one.node_def if node.attr["f"].func.name == few.signature.name]
    assert len(callers) == 2
    kernels = [
        variable.numpy().nbytes
        for block in references("classifier").model.encoder.blocks
        for variable in block.variables
        if len(variable.shape) == 2
    ]
    sizes = [len(node.attr["value"].tensor.tensor_content) for one in functions for node in one.node_def]
    assert sorted(size for size in sizes if size > 5_000) == sorted(kernels)


def test_size_of_the_constants_is_returned(references, tmp_path):
    reference = references("masked_lm")
    parts = reference.model, reference.tokenizer, reference.task
    size = write_saved_model(*parts, tmp_path / "1", fast_short_texts=True)
    matrices = 2 * (4 * 36 * 36 + 2 * 36 * 40) * 4
    assert size == 2 * matrices  # texts have positions of masks, which ids do not have, so there are two functions


def test_constants_too_large_for_a_graph_are_refused(references, monkeypatch):
    reference = references("classifier")
    monkeypatch.setattr(short_texts, "_MAX_BYTES", 10_000)
    served = ServedModel(reference.model, reference.tokenizer, reference.task, fast_short_texts=True)
    with pytest.raises(InputError, match=r"take 64,512 bytes, .* at most 10,000: leave out fast_short_texts"):
        served.signatures()


def test_without_the_option_no_weights_are_constants(saved):
    assert not any(map(is_few_rows, read_meta_graph(saved("classifier")).graph_def.library.function))


def is_few_rows(function):
    return short_texts.FUNCTION_NAME in function.signature.name


def test_heads_are_transposed_as_integers_and_short_softmax_is_split(fast):
    functions = read_meta_graph(fast("classifier")).graph_def.library.function
    few = [node.op for function in functions if is_few_rows(function) for node in function.node_def]
    assert few.count("Softmax") == 0
    assert few.count("Bitcast") == 2 * few.count("RealDiv") * 4  # 4 transposes and one softmax in each block
    rest = [node for function in functions if not is_few_rows(function) for node in function.node_def]
    assert [node.op for node in rest].count("Softmax") > 0
    assert any(node.op == "Transpose" and node.attr["T"].type == tf.int32.as_datatype_enum for node in rest)


@pytest.mark.parametrize("permutation", [[0, 2, 1, 3], [0, 1, 3, 2], [3, 0, 2, 1]])
def test_rewritten_operations_return_the_same_values(permutation, tmp_path):
    x = np.random.default_rng(0).normal(0, 50, (2, 3, 4, 5)).astype("float32")
    x[0, 0, 0] = -10_000
    x[1, 1] = [np.nan, np.inf, -np.inf, 0.0, -0.0]

    def few_rows(x):
        return {"both": tf.nn.softmax(tf.transpose(x, permutation)), "transposed": tf.transpose(x, permutation)}

    spec = tf.TensorSpec([None, None, None, None], tf.float32, name="x")
    inner = tf.function(few_rows, experimental_attributes={"_noinline": True}).get_concrete_function(spec)
    outer = tf.function(lambda x: inner(x), autograph=False).get_concrete_function(spec)
    tf.saved_model.save(tf.Module(), str(tmp_path), signatures=outer)
    rewrite_saved_model(tmp_path)
    got = tf.saved_model.load(str(tmp_path)).signatures["serving_default"](x=tf.constant(x))
    expected = x.transpose(permutation)
    assert got["transposed"].numpy().tobytes() == np.ascontiguousarray(expected).tobytes()  # also NaN and -0
    with np.errstate(invalid="ignore"):
        probabilities = scipy.special.softmax(expected, axis=-1)
    np.testing.assert_allclose(got["both"], probabilities, rtol=1e-5, atol=1e-7)
