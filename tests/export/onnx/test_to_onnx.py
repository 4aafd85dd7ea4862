"""ONNX files: same outputs as Keras for any batch size and length, in a folder that other tools can open."""

import collections
import json
import shutil
import sys

import keras
import numpy as np
import onnx
import onnxruntime
import pytest
import tokenizers
from onnx import helper, numpy_helper
from onnxruntime import quantization

import bert_keras as bk
from bert_keras.checkpoints.huggingface.weight_names import list_weights
from bert_keras.errors import MissingExtraError, ParityError
from bert_keras.export.ids_graph import HUGGINGFACE_NAMES
from bert_keras.export.onnx import onnx_calibrated, to_onnx
from bert_keras.export.onnx.onnx_calibrated import write_calibrated_onnx
from bert_keras.export.onnx.onnx_patterns import ANY, Graph
from bert_keras.export.onnx.to_onnx import write_onnx, write_onnx_folder
from bert_keras.features import to_huggingface_names
from tests.conftest import MODELS
from tests.marks import slow_except

TOLERANCE = 2e-5  # measured: 7.7e-6 with factorized embeddings, 5.2e-6 otherwise; values are up to 5.9
SHAPES = {(13, 9, 4): 13, (1,): 1, (17, 2): 17}  # text lengths: padded length of the batch
ANY_SIZES = ["batch", "sequence"]
SHORT = slow_except(MODELS, quick=["masked_lm", "embedder"])
ENCODERS = [{"hidden_act": "gelu_tanh"}, {"embedding_dim": 18, "position_type": "sinusoidal"}]
MORE_ENCODERS = [{"hidden_act": "relu"}, {"embedding_dim": 18}, {"position_type": "sinusoidal"}]


@pytest.fixture(scope="module")
def exported(make_model, tmp_path_factory):
    """Function that returns a model of a kind and its ONNX file, written once."""
    folder, cache = tmp_path_factory.mktemp("onnx"), {}

    def export(kind, num_layers=2, **changes):
        key = "-".join([kind, *map(str, (num_layers, *changes.values()))])
        if key not in cache:
            cache[key] = make_model(kind, num_layers=num_layers, **changes), folder / f"{key}.onnx"
            write_onnx(*cache[key])
        return cache[key]

    return export


def open_session(path, **options):
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    for name, value in options.items():
        setattr(settings, name, value)
    return onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])


def run_session(session, batch):
    names = [output.name for output in session.get_outputs()]
    ids = {theirs: batch[ours].astype("int64") for ours, theirs in HUGGINGFACE_NAMES.items()}
    return dict(zip(names, session.run(names, ids), strict=True))


def count_operations(model) -> collections.Counter:
    return collections.Counter(node.op_type for node in model.graph.node)


def count_optimized_operations(path, folder) -> collections.Counter:
    """Count the operations of a file after onnxruntime's optimization."""
    open_session(path, optimized_model_filepath=str(folder / "optimized.onnx"))
    return count_operations(onnx.load(folder / "optimized.onnx"))


def check_same(model, path, make_batch, run):
    session = open_session(path)
    for seed, (lengths, length) in enumerate(SHAPES.items()):
        batch = make_batch(seed=seed, lengths=lengths, length=length)
        expected, got = to_huggingface_names(run(model, batch)), run_session(session, batch)
        for name, value in expected.items():
            assert got[name].dtype == value.dtype == np.float32
            np.testing.assert_allclose(got[name], value, rtol=0, atol=TOLERANCE, err_msg=name)


@pytest.mark.filterwarnings("ignore:You are using a softmax over axis")  # raised by Keras for one-token texts
@pytest.mark.parametrize("kind", SHORT)
def test_outputs_of_every_model_equal_keras(kind, exported, make_batch, run):
    check_same(*exported(kind), make_batch, run)


@pytest.mark.filterwarnings("ignore:You are using a softmax over axis")
@pytest.mark.parametrize(
    "changes", [*ENCODERS, *(pytest.param(changes, marks=pytest.mark.slow) for changes in MORE_ENCODERS)]
)
def test_outputs_of_every_kind_of_encoder_equal_keras(changes, exported, make_batch, run):
    check_same(*exported("encoder", num_layers=1, **changes), make_batch, run)


@pytest.mark.parametrize("kind", SHORT)
def test_inputs_are_int64_and_axes_have_names(kind, exported):
    session = open_session(exported(kind)[1])
    inputs = {one.name: (one.type, one.shape) for one in session.get_inputs()}
    assert inputs == dict.fromkeys(HUGGINGFACE_NAMES.values(), ("tensor(int64)", ANY_SIZES))
    for output in session.get_outputs():
        axes = [size for size in output.shape if isinstance(size, str)]
        assert axes
        assert axes == ANY_SIZES[: len(axes)]


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("question_answerer", ["start_logits", "end_logits"]),  # not in alphabetical order
        ("embedder", ["last_hidden_state", "sentence_embedding"]),
        pytest.param("encoder", ["last_hidden_state", "pooler_output"], marks=pytest.mark.slow),
    ],
)
def test_outputs_are_in_model_order(kind, names, exported):
    num_layers = 1 if kind == "question_answerer" else 2  # the embedder of other tests has 2
    assert [output.name for output in open_session(exported(kind, num_layers)[1]).get_outputs()] == names


def test_embedder_also_returns_token_vectors(exported, make_batch, run):
    model, path = exported("embedder")
    batch = make_batch()
    tokens = run(model.encoder, batch)["sequence_output"]
    np.testing.assert_allclose(
        run_session(open_session(path), batch)["last_hidden_state"], tokens, rtol=0, atol=TOLERANCE
    )


def test_weights_are_written_once_and_have_hugging_face_names(exported):
    model, path = exported("masked_lm")
    file = onnx.load(path)
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in file.graph.initializer}
    for name in list_weights("BertMaskedLM", model.encoder.config, pooler=False):
        assert name.huggingface in weights
    kernel = model.encoder.blocks[1].attention.key.kernel
    np.testing.assert_array_equal(weights["encoder.layer.1.attention.self.key.weight"], kernel)
    vocabulary_size = model.encoder.config.vocabulary_size
    assert [name for name, value in weights.items() if vocabulary_size in value.shape] == [
        "embeddings.word_embeddings.weight",  # tied to the matrix of the head
        "cls.predictions.bias",
    ]


@pytest.mark.parametrize("kind", SHORT)
def test_file_contains_only_standard_onnx(kind, exported):
    path = exported(kind)[1]
    file = onnx.load(path)
    onnx.checker.check_model(file, full_check=True)
    assert [(opset.domain, opset.version) for opset in file.opset_import] == [("", to_onnx.OPSET)]
    assert file.ByteSize() == path.stat().st_size


def test_onnxruntime_fuses_every_block(exported, tmp_path):
    model, path = exported("token_classifier")
    num_layers = model.encoder.config.num_layers
    counts = count_optimized_operations(path, tmp_path)
    assert counts["LayerNormalization"] == 2 * num_layers + 1
    assert counts["Gemm"] == 6 * num_layers  # every dense layer is fused with its bias
    assert counts["Gelu"] == num_layers
    assert counts["FusedMatMul"] == num_layers  # attention scores with their scale
    assert not {"ReduceMean", "Sqrt", "Erf", "Less"} & set(counts)


def test_onnxruntime_fuses_googles_gelu(exported, tmp_path):
    model, path = exported("encoder", num_layers=1, hidden_act="gelu_tanh")
    counts = count_optimized_operations(path, tmp_path)
    assert counts["FastGelu"] == model.config.num_layers
    assert counts["Tanh"] == 0  # tanh of the pooler is fused with its dense layer


def test_operation_missing_from_onnx_is_rejected_and_nothing_is_written(make_model, tmp_path, monkeypatch):
    from bert_keras.architectures import layers

    monkeypatch.setitem(layers.ACTIVATIONS, "gelu", lambda x: keras.ops.gelu(x, approximate=False))  # uses Erfc
    with pytest.raises(ParityError, match=r"cannot convert Erfc to ONNX, so nothing was written"):
        write_onnx(make_model("encoder_without_pooler", num_layers=1), tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_graph_with_a_missing_input_is_rejected(make_model, tmp_path, monkeypatch):
    def drop_input(model):
        model = rewrite_model(model)
        inputs = [one for one in model.graph.input if one.name != "token_type_ids"]
        model.graph.ClearField("input")
        model.graph.input.extend(inputs)
        return model

    rewrite_model = to_onnx.rewrite_model
    monkeypatch.setattr(to_onnx, "rewrite_model", drop_input)
    with pytest.raises(ParityError, match=r"with the inputs \['attention_mask', 'input_ids'\]; expected"):
        write_onnx(make_model("encoder_without_pooler", num_layers=1), tmp_path / "model.onnx")


@pytest.mark.parametrize("error", ["ImportError", "AttributeError"])
def test_missing_converter_error_contains_the_install_command(error, make_model, tmp_path, monkeypatch):
    (tmp_path / "tf2onnx.py").write_text(f"raise {error}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "tf2onnx", raising=False)
    with pytest.raises(MissingExtraError, match=r"'tf2onnx', which is not installed: run .*bert-keras\[onnx\]"):
        write_onnx(make_model("encoder", num_layers=1), tmp_path / "model.onnx")


def test_missing_onnx_error_contains_the_install_command(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=r"'onnx', which is not installed: run .*bert-keras\[onnx\]"):
        write_calibrated_onnx(tmp_path / "model.onnx", tmp_path / "model_quantized.onnx", {})


def test_patterns_bind_names_to_tensors_and_match_sums_in_either_order():
    nodes = [helper.make_node("Mul", ["a", "half"], ["b"]), helper.make_node("Add", ["a", "b"], ["c"])]
    info = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [3]) for name in "ac"]
    half = numpy_helper.from_array(np.float32(0.5), "half")
    graph = Graph(helper.make_model(helper.make_graph(nodes, "graph", info[:1], info[1:], [half])))
    assert graph.match(("Add", ("Mul", 0.5, "x"), "x"), "c") == {"x": "a"}
    assert graph.match(("Add", ("Mul", 0.5, "x"), "y"), "c") == {"x": "a", "y": "a"}
    assert graph.match(("Add", ("Mul", ANY, ANY), ANY), "c") == {}
    assert graph.match(("Add", ("Mul", "x", "x"), ANY), "c") is None
    assert graph.match(("Add", ("Mul", 0.25, "x"), "x"), "c") is None
    assert graph.match(("Sub", ("Mul", 0.5, "x"), "x"), "c") is None


@pytest.mark.parametrize("kind", slow_except(["classifier", "masked_lm", "embedder"], quick=["masked_lm"]))
def test_quantized_weights_change_outputs_a_little(kind, exported, make_batch, tmp_path):
    path = exported(kind)[1]
    write_calibrated_onnx(path, tmp_path / "model.onnx", {})
    batch = make_batch()
    expected, got = run_session(open_session(path), batch), run_session(open_session(tmp_path / "model.onnx"), batch)
    for name, value in expected.items():
        error = np.abs(got[name] - value).max() / value.std()
        assert error < 0.5  # measured: 0.15 with these random weights


@pytest.mark.parametrize("kind", slow_except(["classifier", "masked_lm"], quick=["masked_lm"]))
def test_quantized_files_equal_those_of_onnxruntimes_quantizer(kind, exported, make_batch, tmp_path):
    path = exported(kind)[1]
    write_calibrated_onnx(path, tmp_path / "ours.onnx", {})
    graph = Graph(onnx.load(path))
    graph.replace_all(("Gather", "table", "ids", {"axis": 0}), onnx_calibrated.gather_quantized)
    graph.replace_all(("MatMul", "x", ("Transpose", "table")), onnx_calibrated.multiply_by_quantized_table)
    model = graph.build_model()
    onnx.helper.set_model_props(model, {"onnx.quant.pre_process": "onnxruntime.quant"})  # silences advice
    settings = {"per_channel": True, "reduce_range": True, "weight_type": quantization.QuantType.QInt8}
    quantization.quantize_dynamic(model, tmp_path / "theirs.onnx", op_types_to_quantize=["MatMul"], **settings)
    ours, theirs = (count_operations(onnx.load(tmp_path / name)) for name in ("ours.onnx", "theirs.onnx"))
    assert ours == theirs
    ours, theirs = (run_session(open_session(tmp_path / name), make_batch()) for name in ("ours.onnx", "theirs.onnx"))
    for name, values in theirs.items():
        np.testing.assert_array_equal(ours[name], values, err_msg=name)


def test_quantized_files_contain_no_float32_matrices_or_tables(exported, tmp_path):
    model, path = exported("masked_lm")
    write_calibrated_onnx(path, tmp_path / "model.onnx", {})
    arrays = {one.name: numpy_helper.to_array(one) for one in onnx.load(tmp_path / "model.onnx").graph.initializer}
    floats = {name: array.shape for name, array in arrays.items() if array.dtype == np.float32 and array.ndim > 1}
    size = model.encoder.config.vocabulary_size
    assert floats["embeddings.word_embeddings.weight_scales"] == (size, 1)
    assert all(1 in shape for shape in floats.values()), floats  # one scale per table row
    assert np.abs(arrays["embeddings.word_embeddings.weight_8_bits"]).max() == 127
    kernels = [array for name, array in arrays.items() if name.endswith("_integers")]
    assert len(kernels) == 6 * model.encoder.config.num_layers + 1
    assert all(np.abs(kernel).max(axis=0).min() == 64 for kernel in kernels)  # one scale per column


@pytest.mark.slow
def test_quantized_file_is_a_quarter_of_the_size(tmp_path):
    config = bk.BertConfig.from_preset("mini", vocabulary_size=9000)
    write_onnx(bk.BertMaskedLM(bk.BertEncoder(config, pooler=False)), tmp_path / "model.onnx")  # tied
    write_calibrated_onnx(tmp_path / "model.onnx", tmp_path / "small.onnx", {})
    share = (tmp_path / "small.onnx").stat().st_size / (tmp_path / "model.onnx").stat().st_size
    assert share < 0.27  # measured: 0.2642; with real sizes 0.2559 (MiniLM-L6 with this head), 0.2525 (base)


def test_folder_contains_the_files_of_hugging_face_tools(exported, tmp_path, monkeypatch):
    monkeypatch.setattr(to_onnx, "write_onnx", lambda model, path: copy_file(exported("masked_lm")[1], path))
    words = "the cat sat on a mat .".split()
    tokenizer = bk.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words], max_sequence_length=11)
    config = bk.BertConfig.from_preset("tiny", vocabulary_size=12, max_sequence_length=17)
    write_onnx_folder(
        bk.BertClassifier(bk.BertEncoder(config), 2, labels=["nö", "ja"]), tokenizer, tmp_path / "classifier"
    )
    write_onnx_folder(bk.BertEmbedder(bk.BertEncoder(config)), tokenizer, tmp_path / "embedder")
    common = {"config.json", "vocab.txt", "tokenizer.json", "tokenizer_config.json", "onnx/model.onnx"}
    assert list_files(tmp_path / "classifier") == common
    assert list_files(tmp_path / "embedder") == common | {
        "modules.json",
        "config_sentence_transformers.json",
        "sentence_bert_config.json",
        "1_Pooling/config.json",
    }
    assert json.loads((tmp_path / "classifier/config.json").read_text("utf-8"))["id2label"] == {"0": "nö", "1": "ja"}
    loaded = tokenizers.Tokenizer.from_file(str(tmp_path / "classifier/tokenizer.json"))
    assert loaded.encode("the cat").ids == [2, *tokenizer.tokenize(["the cat"]).to_list()[0], 3]


@pytest.mark.slow
def test_transformers_opens_the_folder(tmp_path):
    import transformers

    words = "the cat sat on a mat .".split()
    tokenizer = bk.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words], max_sequence_length=11)
    config = bk.BertConfig.from_preset("tiny", vocabulary_size=12, max_sequence_length=17)
    classifier = bk.BertClassifier(bk.BertEncoder(config), 2, labels=["nö", "ja"])
    write_onnx_folder(classifier, tokenizer, tmp_path)
    assert transformers.AutoConfig.from_pretrained(tmp_path).id2label == {0: "nö", 1: "ja"}
    ids = transformers.AutoTokenizer.from_pretrained(tmp_path)(["the cat", "a mat ."], padding=True)
    session = open_session(tmp_path / "onnx/model.onnx")
    [logits] = session.run(["logits"], {name: np.array(value, "int64") for name, value in ids.items()})
    assert logits.shape == (2, 2)


def copy_file(source, path) -> None:
    path.parent.mkdir(parents=True)
    shutil.copy(source, path)


def list_files(folder) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
