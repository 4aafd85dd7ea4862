"""Untrusted model folders: every invalid value is reported in one sentence before anything is built."""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import bert_keras as bk
from bert_keras.checkpoints.reading import read_without_tensorflow
from bert_keras.checkpoints.task_loading import read_checkpoint_task
from tests.checkpoints.tiny_folders import (
    LABELS,
    edit_json,
    make_tensors,
    write_classifier,
    write_electra,
    write_embedder,
    write_json,
)
from tests.marks import slow

WEIGHTS = "model.safetensors"
KERNEL = "bert.encoder.layer.1.intermediate.dense.weight"


@pytest.fixture
def folder(tmp_path):
    """The folder of a classifier."""
    return write_classifier(tmp_path / "classifier")


@pytest.fixture
def refused():
    """A function that checks that reading a folder, without TensorFlow, fails with one short sentence."""

    def check(folder, pattern):
        with pytest.raises(bk.InputError, match=pattern) as caught:
            read_all(folder)
        text = str(caught.value)
        assert "\n" not in text
        assert len(text) < 700
        text.encode()

    return check


def read_all(folder):
    """Read everything that a command reads before it loads TensorFlow."""
    checkpoint = read_without_tensorflow(folder)
    assert checkpoint.tokenizer_settings is not None
    return checkpoint, read_checkpoint_task(checkpoint)


def test_the_folders_are_valid(folder, tmp_path):
    checkpoint, task = read_all(folder)
    assert (checkpoint.model, checkpoint.settings["labels"], task.max_sequence_length) == ("BertClassifier", LABELS, 16)
    checkpoint, _ = read_all(write_embedder(tmp_path / "embedder"))
    assert (checkpoint.model, checkpoint.settings["pooling"]) == ("BertEmbedder", "mean")
    assert read_without_tensorflow(write_electra(tmp_path / "electra")).generator.model == "BertMaskedLM"


WRONG_VALUES = [
    ({"vocab_size": 10**9}, "13|vocab_size"),
    ({"hidden_size": 3 * 10**8}, r"\(13, 6\).*300000000"),
    ({"num_hidden_layers": 10**9}, "1,000,000,000 layers and the weights have 2"),
    ({"intermediate_size": 10**9}, "1000000000"),
    ({"max_position_embeddings": 10**9}, "1000000000"),
    ({"type_vocab_size": 10**9}, "1000000000"),
    ({"hidden_size": 10**30}, "sets hidden_size to 1000000000000.*; expected an integer"),
    ({"hidden_size": 6.0}, "sets hidden_size to 6.0; expected an integer"),
    ({"hidden_size": True}, "sets hidden_size to True"),
    ({"num_hidden_layers": [2]}, "sets num_hidden_layers to"),
    ({"layer_norm_eps": float("nan")}, "sets layer_norm_eps to nan; expected a number"),
    ({"layer_norm_eps": "1e-12"}, "sets layer_norm_eps to '1e-12'"),
    ({"hidden_act": ["gelu"]}, "sets hidden_act to .*; expected one of gelu"),
    ({"hidden_act": "x" * 70_000}, "sets hidden_act to 'xxx"),
    ({"hidden_act": {}}, "sets hidden_act to"),
    ({"model_type": ["bert"]}, r"has model_type \['bert'\]"),
    ({"model_type": None}, "has model_type None"),
    ({"architectures": "BertModel"}, "sets architectures to 'BertModel'; expected a list of strings"),
    ({"architectures": [["BertModel"]]}, "sets architectures to"),
    ({"architectures": ["\x1b[2J" + "x" * 70_000]}, r"architecture '\\x1b"),
    ({"problem_type": ["regression"]}, "sets problem_type to"),
    ({"problem_type": "ranking"}, "sets problem_type to 'ranking'; expected one of single_label_classification"),
    ({"classifier_dropout": "0.1"}, "sets classifier_dropout to '0.1'"),
    ({"id2label": ["a", "b", "c"]}, "sets id2label to .*; expected an object of strings"),
    ({"id2label": {"zero": "a", "one": "b", "two": "c"}}, "none for class 0"),
    ({"id2label": {"0": "a", "2": "b", "3": "c"}}, "none for class 1"),
    ({"id2label": {"0": "a", "1": 1, "2": "c"}}, "sets id2label to"),
    (
        {"id2label": {"0": "a", "1": "b", "2": "a"}},
        r"config\.json has the label 'a' for more than one class in id2label",
    ),
    ({"id2label": None, "num_labels": 10**9}, "1000000000"),
    ({"id2label": None, "num_labels": "3"}, "sets num_labels to '3'"),
    ({"bert_keras": []}, "sets bert_keras to"),
    ({"bert_keras": {"format": 1, "model": ["BertClassifier"]}}, "under 'bert_keras', sets model to"),
    ({"bert_keras": {"format": 1, "model": "os"}}, "under 'bert_keras', sets model to 'os'"),
    ({"bert_keras": {"format": 1, "settings": 5}}, "under 'bert_keras', sets settings to 5"),
    ({"bert_keras": {"format": 1, "task": "classify"}}, "under 'bert_keras', sets task to 'classify'"),
    ({"bert_keras": {"format": 1, "x" * 70_000: 1}}, r"has xxx.* under 'bert_keras'"),
    ({"bert_keras": {"format": 1, "position_type": "sinusoidal"}, "max_position_embeddings": 10**9}, "sinusoidal"),
]


def test_a_model_of_null_is_ignored(tmp_path):
    folder = write_embedder(tmp_path / "encoder")
    (folder / "modules.json").unlink()
    edit_json(folder / "config.json", bert_keras={"format": 1, "model": None})
    assert read_without_tensorflow(folder).model == "BertEncoder"


@pytest.mark.parametrize(("changes", "pattern"), WRONG_VALUES, ids=lambda value: json.dumps(value)[:60])
def test_an_invalid_value_in_config_json_is_reported(folder, refused, changes, pattern):
    edit_json(folder / "config.json", **changes)
    refused(folder, pattern)


@pytest.mark.parametrize(
    ("changes", "pattern"),
    [
        ({"max_sequence_length": "16"}, "in its task, sets max_sequence_length to '16'; expected an integer"),
        ({"max_sequence_length": 0}, "sets max_sequence_length to 0; expected an integer >= 1"),
        ({"max_sequence_length": float("inf")}, "sets max_sequence_length to inf"),
        ({"window_overlap": [4]}, r"sets window_overlap to \[4\]"),
        ({"window_overlap": -1}, "sets window_overlap to -1; expected an integer >= 0"),
        ({"has_pairs": "no"}, "sets has_pairs to 'no'; expected true or false"),
        ({"class_weights": {}}, "sets class_weights to"),
        ({"problem": None}, "sets problem to None"),
        ({"labels": "red"}, "sets labels to 'red'; expected a list of strings"),
        ({"y" * 70_000: 1}, "has the task setting yyy"),
    ],
    ids=lambda value: json.dumps(value)[:60],
)
def test_an_invalid_setting_of_the_task_is_reported(folder, refused, changes, pattern):
    edit_json(folder / "config.json", "bert_keras", "task", **changes)
    refused(folder, pattern)


def test_half_a_surrogate_pair_in_a_label_is_refused(folder, refused):
    path = folder / "config.json"
    path.write_text(path.read_text().replace("green", "\\ud83d"))
    refused(folder, "surrogates not allowed")


def test_nothing_is_built_if_config_and_weights_do_not_match(folder, monkeypatch):
    from bert_keras.architectures import encoder

    def build(*_args, **_options):
        raise AssertionError("the encoder was built")

    monkeypatch.setattr(encoder, "BertEncoder", build)
    with pytest.raises(AssertionError, match="was built"):
        bk.load(folder)
    edit_json(folder / "config.json", intermediate_size=10**9)
    for action in (
        lambda: bk.load(folder),
        lambda: bk.BertClassifier.from_checkpoint(folder, num_classes=2),
        lambda: bk.BertTokenClassifier.from_checkpoint(folder, num_classes=2),
        lambda: bk.BertClassifier.from_checkpoint(folder),
    ):
        with pytest.raises(bk.InputError, match="1000000000"):
            action()


def test_a_kept_head_must_be_stored(folder):
    edit_json(folder / "config.json", id2label=None, num_labels=10**9)
    with pytest.raises(bk.InputError, match=r"a head with 1,000,000,000 classes.*\(3,\) for it: pass num_classes"):
        bk.BertClassifier.from_checkpoint(folder)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "bool", "int32", "int64"])
def test_integer_weights_are_refused(folder, refused, dtype):
    tensors = load_file(folder / WEIGHTS)
    save_file({**tensors, KERNEL: tensors[KERNEL].astype(dtype)}, folder / WEIGHTS)
    refused(
        folder, rf"tensor {KERNEL} holds (I8|U8|BOOL|I32|I64) numbers.*; expected float16, bfloat16, float32, float64"
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_every_floating_point_dtype_loads(folder, dtype):
    import ml_dtypes  # noqa: F401, registers bfloat16 with NumPy

    tensors = {name: value.astype(dtype) for name, value in load_file(folder / WEIGHTS).items()}
    save_file(tensors, folder / WEIGHTS)
    checkpoint, _ = read_all(folder)
    stored = checkpoint.weights["encoder.blocks.1.intermediate.kernel"]
    assert stored.dtype == dtype
    assert stored.read().dtype == np.float32
    np.testing.assert_array_equal(stored.read(), tensors[KERNEL].astype("float32").T)


def test_position_ids_can_be_integers(folder):
    tensors = load_file(folder / WEIGHTS)
    save_file({**tensors, "bert.embeddings.position_ids": np.arange(17)[np.newaxis]}, folder / WEIGHTS)
    read_all(folder)


def test_two_names_of_one_weight_are_refused(folder, refused):
    tensors = load_file(folder / WEIGHTS)
    save_file({**tensors, KERNEL.removeprefix("bert."): tensors[KERNEL]}, folder / WEIGHTS)
    refused(folder, "two names of one weight")


@pytest.mark.parametrize("name", ["../outside.safetensors", "/etc/passwd", "x/../../outside.safetensors"])
def test_shards_outside_the_folder_are_refused(folder, refused, name):
    shutil.copy(folder / WEIGHTS, folder.parent / "outside.safetensors")
    (folder / WEIGHTS).unlink()
    write_json(folder / f"{WEIGHTS}.index.json", {"weight_map": dict.fromkeys(make_tensors("BertClassifier"), name)})
    refused(folder, r"index\.json names '.*'; expected a path inside")


@pytest.mark.parametrize("value", [{}, {"weight_map": []}, {"weight_map": {"a": 1}}, {"weight_map": None}])
def test_an_invalid_index_is_refused(folder, refused, value):
    (folder / WEIGHTS).rename(folder / "model-00001-of-00001.safetensors")
    write_json(folder / f"{WEIGHTS}.index.json", value)
    refused(folder, r"index\.json (sets|lacks|names)")


def _rewritten(path, change) -> None:
    """Rewrite a safetensors file with `change(header text)` as its header."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = change(content[8 : 8 + size].decode().rstrip()).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + content[8 + size :])


@pytest.mark.parametrize(
    ("change", "pattern"),
    [
        (lambda text: "[" * 100_000, "nested too deeply"),
        (lambda text: "[]", "holds a JSON list"),
        (lambda text: text[:-1] + ', "a": 1}', "sets a to 1"),
        (lambda text: text[:-1] + "," + text[1:], "a name is repeated"),
        (lambda text: text.replace("[0,", "[-4,"), "not a"),
        (lambda text: text.replace("[0,", "[4,"), "not a valid safetensors file"),
        (lambda text: text.replace('"F32"', '"F31"', 1), "not a valid safetensors file"),
        (lambda text: text.replace('"data_offsets":[', '"data_offsets":["', 1), "not readable JSON"),
    ],
)
def test_an_invalid_header_is_refused(folder, refused, change, pattern):
    _rewritten(folder / WEIGHTS, change)
    refused(folder, pattern)


def test_a_header_longer_than_its_file_is_refused(folder, refused):
    (folder / WEIGHTS).write_bytes((2**40).to_bytes(8, "little") + b"{}")
    refused(folder, "its header is larger than the file")


@pytest.mark.parametrize("path", ["/etc", "..", "../other", 5, None, "1_Pooling\0", "\ud800"])
def test_modules_outside_the_folder_are_refused(tmp_path, refused, path):
    folder = write_embedder(tmp_path / "embedder")
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["path"] = path
    write_json(folder / "modules.json", modules)
    refused(folder, r"modules\.json")


@pytest.mark.parametrize("modules", [{}, [], 5, [5], [{"type": 5}], [{"type": "a.Transformer"}], "[" * 5000])
def test_an_invalid_list_of_modules_is_refused(tmp_path, refused, modules):
    folder = write_embedder(tmp_path / "embedder")
    (folder / "modules.json").write_text(modules if isinstance(modules, str) else json.dumps(modules))
    refused(folder, r"modules\.json")


def test_an_electra_as_generator_is_refused(tmp_path):
    folder = write_electra(tmp_path / "electra")
    shutil.rmtree(folder / "generator")
    (folder / "generator").symlink_to(folder)
    with pytest.raises(bk.InputError, match="generator holds a ElectraPretrainer; expected BertMaskedLM"):
        read_without_tensorflow(folder)


def test_the_config_of_the_generator_is_checked(tmp_path):
    folder = write_electra(tmp_path / "electra")
    edit_json(folder / "generator/config.json", intermediate_size=10**9)
    with pytest.raises(bk.InputError, match=r"generator.*1000000000"):
        read_without_tensorflow(folder)


def test_hashes_of_files_outside_the_folder_are_refused(folder, refused):
    (folder / "SHA256SUMS").write_text("0" * 64 + "  ../../etc/passwd\n")
    refused(folder, r"SHA256SUMS:1 names '\.\./\.\./etc/passwd'; expected a path inside")


@pytest.mark.parametrize("value", [float("nan"), *slow(float("inf"))])
def test_weights_with_nan_or_infinity_are_refused(folder, tmp_path, value):
    tensors = load_file(folder / WEIGHTS)
    tensors[KERNEL][3, 2] = value
    save_file(tensors, folder / WEIGHTS)
    for action in (
        lambda: bk.load(folder),
        lambda: bk.convert(folder, tmp_path / "out"),
        lambda: bk.Predictor.from_checkpoint(folder),
        lambda: bk.BertTokenClassifier.from_checkpoint(folder, num_classes=2),
    ):
        with pytest.raises(bk.InputError, match=rf"tensor {KERNEL} contains NaN or infinity; expected finite numbers"):
            action()
    assert not (tmp_path / "out").exists()


def test_a_float64_weight_beyond_float32_is_refused(folder):
    tensors = load_file(folder / WEIGHTS)
    save_file({**tensors, KERNEL: tensors[KERNEL].astype("float64") * 1e300}, folder / WEIGHTS)
    with pytest.raises(bk.InputError, match=rf"tensor {KERNEL} contains NaN or infinity"):
        bk.load(folder)
