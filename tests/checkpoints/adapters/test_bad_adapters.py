"""Adapters that cannot be merged are rejected with one sentence."""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import bert_keras as bk
from bert_keras.checkpoints.adapters.merged_checkpoint import merge_adapter, read_adapter_folder
from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.cli.main import main
from bert_keras.errors import InputError
from tests.checkpoints.tiny_folders import write_classifier, write_embedder

CONFIG = {"peft_type": "LORA", "task_type": None, "r": 2, "lora_alpha": 4}
QUERY = "base_model.model.bert.encoder.layer.0.attention.self.query"
TENSORS = {f"{QUERY}.lora_A.weight": np.ones((2, 6), "float32"), f"{QUERY}.lora_B.weight": np.ones((6, 2), "float32")}
HEAD = {"base_model.model.classifier.weight": np.ones((3, 6), "float32")}
HEAD |= {"base_model.model.classifier.bias": np.ones(3, "float32")}


@pytest.fixture
def base(tmp_path):
    """A tiny classifier with three labels."""
    return write_classifier(tmp_path / "base")


def write_adapter(folder, config=CONFIG, tensors=TENSORS):
    folder.mkdir(exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps(config))
    save_file(tensors, folder / "adapter_model.safetensors")
    return folder


def test_an_adapter_adds_its_scaled_product_to_a_kernel(base, tmp_path):
    merged = merge_adapter(read_checkpoint(base), write_adapter(tmp_path / "adapter"))
    name = "encoder.blocks.0.attention.query.kernel"
    before = read_checkpoint(base).weights[name].read()
    np.testing.assert_allclose(merged.weights[name].read(), before + 2 * 2)  # s = 4/2, and A B sums two ones
    assert merged.settings["labels"] == ["red", "green", "blue"]
    assert merged.task is not None


def test_a_head_with_another_number_of_classes_has_no_labels(base, tmp_path):
    head = {name: np.concatenate([value] * 2) for name, value in HEAD.items()}
    adapter = write_adapter(tmp_path / "adapter", {**CONFIG, "task_type": "SEQ_CLS"}, {**TENSORS, **head})
    model = bk.load(base, adapter=adapter)
    assert (model.num_classes, model.labels, model.problem) == (6, None, "single_label")


REFUSED = {
    "another kind": ({"peft_type": "IA3"}, "has peft_type 'IA3'; expected 'LORA': merge the adapter with PEFT's merge"),
    "DoRA": ({"use_dora": True}, "sets use_dora to True, which changes what the adapter computes; expected False"),
    "ranks": ({"rank_pattern": {"query": 4}}, r"sets rank_pattern to \{'query': 4\}, which changes"),
    "PiSSA": ({"init_lora_weights": "pissa"}, "sets init_lora_weights to 'pissa', which changes what"),
    "trained biases": ({"lora_bias": True}, "sets lora_bias to True, which changes what the adapter computes; exp"),
    "no rank": ({"r": 0}, "sets r to 0; expected an integer"),
    "another rank": ({"r": 3}, r"lora_A\.weight' of shape \(2, 6\) and lora_B .*; expected \(3, 6\) and \(6, 3\)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_adapter_of_another_kind_is_rejected(name, base, tmp_path):
    changes, message = REFUSED[name]
    with pytest.raises(InputError, match=message):
        merge_adapter(read_checkpoint(base), write_adapter(tmp_path / "adapter", {**CONFIG, **changes}))


def rename(tensors: dict, old: str, new: str) -> dict:
    return {name.replace(old, new): value for name, value in tensors.items()}


BAD_TENSORS = {
    "an unknown layer": (rename(TENSORS, "query", "gate"), r"tensor '.*gate\.lora_A\.weight', which belongs to no lay"),
    "a layer too many": (rename(TENSORS, "layer.0", "layer.9"), "which belongs to no layer of a BertClassifier"),
    "an embedding": (rename(TENSORS, "encoder.layer.0.attention.self.query", "embeddings.word_embeddings"), "no layer"),
    "half an adapter": (dict(list(TENSORS.items())[:1]), r"lora_A\.weight' without the other matrix of its layer; exp"),
    "another width": ({**TENSORS, f"{QUERY}.lora_A.weight": np.ones((2, 9), "float32")}, r"expected \(2, 6\) and \(6"),
    "no adapter": (HEAD, r"has no tensors of LoRA \(lora_A, lora_B\)"),
    "two names": (
        TENSORS | rename(TENSORS, ".bert.encoder", ".encoder"),
        "two names of one weight; expected one of",
    ),
    "a scalar bias": (
        {**TENSORS, **HEAD, "base_model.model.classifier.bias": np.array(1, "float32")},
        r"adapter: tensor base_model\.model\.classifier\.bias, read as .*, has shape \(\); expected \(3,\)",
    ),
    "half a head": (
        TENSORS | dict(list(HEAD.items())[1:]),
        r"adapter has 'base_model\.model\.classifier\.bias' without classifier\.weight; expected all weights",
    ),
    "a head of another width": (
        {**TENSORS, **HEAD, "base_model.model.classifier.weight": np.ones((3, 7), "float32")},
        r"adapter: tensor .*classifier\.weight.* has shape \(7, 3\); expected \(6, 3\)",
    ),
    "integers": (
        {**TENSORS, f"{QUERY}.lora_A.weight": np.ones((2, 6), "int8")},
        r"adapter: tensor .*query\.lora_A\.weight holds I8 numbers",
    ),
    "integers in the head": (
        TENSORS | {name: value.astype("int8") for name, value in HEAD.items()},
        "holds I8 numbers",
    ),
}


@pytest.mark.parametrize("name", BAD_TENSORS)
def test_tensors_that_do_not_belong_to_the_model_are_rejected(name, base, tmp_path):
    tensors, message = BAD_TENSORS[name]
    with pytest.raises(InputError, match=message):
        merge_adapter(read_checkpoint(base), write_adapter(tmp_path / "adapter", tensors=tensors))


def test_a_task_without_a_head_is_rejected(tmp_path):
    checkpoint = read_checkpoint(write_embedder(tmp_path / "embedder"))
    adapter = write_adapter(tmp_path / "adapter", {**CONFIG, "task_type": "TOKEN_CLS"})
    with pytest.raises(InputError, match=r"adapter for a BertTokenClassifier, and neither it nor .* has classifier\."):
        merge_adapter(checkpoint, adapter)


def test_a_bias_that_peft_stores_twice_is_read_once(base, tmp_path):
    bias = np.arange(6, dtype="float32")
    twice = {f"{QUERY}.bias": bias, f"{QUERY}.base_layer.bias": bias}
    adapter = write_adapter(tmp_path / "adapter", {**CONFIG, "bias": "all"}, {**TENSORS, **twice})
    merged = merge_adapter(read_checkpoint(base), adapter)
    np.testing.assert_array_equal(merged.weights["encoder.blocks.0.attention.query.bias"].read(), bias)
    twice = {f"{QUERY}.bias": bias, f"{QUERY.replace('.bert', '')}.base_layer.bias": bias}
    write_adapter(adapter, tensors={**TENSORS, **twice})
    with pytest.raises(InputError, match="two names of one weight"):
        merge_adapter(read_checkpoint(base), adapter)


def test_a_trained_bias_of_the_head_keeps_the_kernel_of_the_checkpoint(base, tmp_path):
    bias = {"base_model.model.classifier.bias": np.full(3, 5, "float32")}
    adapter = write_adapter(tmp_path / "adapter", {**CONFIG, "bias": "all"}, TENSORS | bias)
    merged = merge_adapter(read_checkpoint(base), adapter)
    np.testing.assert_array_equal(merged.weights["classifier.bias"].read(), 5)
    assert merged.settings["labels"] == ["red", "green", "blue"]
    write_adapter(adapter, {**CONFIG, "bias": "all"}, TENSORS | {name: np.ones(4, "float32") for name in bias})
    with pytest.raises(InputError, match=r"adapter: tensor .*classifier\.bias.* has shape \(4,\); expected \(3,\)"):
        merge_adapter(read_checkpoint(base), adapter)


@pytest.mark.parametrize("name", [f"{QUERY}.lora_A.weight", f"{QUERY}.lora_B.weight", *HEAD])
def test_nan_in_an_adapter_names_the_adapter(name, base, tmp_path):
    tensors = {**TENSORS, **HEAD}
    adapter = write_adapter(tmp_path / "adapter", tensors={**tensors, name: np.full_like(tensors[name], np.nan)})
    with pytest.raises(InputError, match=f"{adapter}: tensor {name} contains NaN or infinity"):
        bk.load(base, adapter=adapter)


def edit_base(base, **changes):
    """Replace tensors of a checkpoint; None leaves one out."""
    weights = load_file(base / "model.safetensors") | changes
    save_file({name: value for name, value in weights.items() if value is not None}, base / "model.safetensors")


def test_a_checkpoint_without_its_head_is_rejected(base, tmp_path):
    edit_base(base, **{"classifier.bias": None})
    with pytest.raises(InputError, match=r"neither it nor .*base has classifier\.bias; expected the weights of the"):
        merge_adapter(read_checkpoint(base), write_adapter(tmp_path / "adapter"))


def test_a_kernel_of_the_checkpoint_that_is_no_matrix_is_rejected(base, tmp_path):
    name = "bert.encoder.layer.0.attention.self.query.weight"
    edit_base(base, **{name: np.ones(36, "float32")})
    with pytest.raises(InputError, match=rf"base: tensor {name}, .* has shape \(36,\); expected \(6, 6\)"):
        merge_adapter(read_checkpoint(base), write_adapter(tmp_path / "adapter"))


@pytest.mark.parametrize("problem", ["multi_label", "regression"])
def test_the_labels_and_the_problem_of_our_adapters_are_read(problem, base, tmp_path):
    adapter = write_adapter(tmp_path / "adapter", {**CONFIG, "task_type": "SEQ_CLS"}, TENSORS | HEAD)
    labels = ["c", "a", "b"]
    (adapter / "bert_keras.json").write_text(json.dumps({"problem": problem, "labels": labels}))
    merged = merge_adapter(read_checkpoint(base), adapter)
    assert merged.settings == {"num_classes": 3, "problem": problem, "labels": labels}
    assert merged.task is None
    assert merged.not_carried_over == []


BAD_HEADS = {
    "a label too few": ({"labels": ["a", "b"]}, "has 2 labels in bert_keras.json, and a head with 3 classes; expected"),
    "a label twice": ({"labels": ["a", "a", "b"]}, "has the label 'a' for more than one class; expected a different"),
    "no labels": ({"labels": 3}, "sets labels to 3; expected a list of strings"),
    "a problem": ({"problem": "clustering"}, "sets problem to 'clustering'; expected one of single_label"),
}


@pytest.mark.parametrize("name", BAD_HEADS)
def test_a_bad_description_of_the_head_is_rejected(name, base, tmp_path):
    values, message = BAD_HEADS[name]
    adapter = write_adapter(tmp_path / "adapter")
    (adapter / "bert_keras.json").write_text(json.dumps(values))
    with pytest.raises(InputError, match=message):
        merge_adapter(read_checkpoint(base), adapter)


def test_null_means_the_default(base, tmp_path):
    adapter = write_adapter(tmp_path / "adapter", {**CONFIG, "use_rslora": None, "lora_bias": None})
    assert read_adapter_folder(adapter).scale == 2
    write_adapter(adapter, {**CONFIG, "use_rslora": True})
    assert read_adapter_folder(adapter).scale == pytest.approx(4 / 2**0.5)


def test_a_kernel_that_the_checkpoint_lacks_is_rejected(base, tmp_path):
    weights = load_file(base / "model.safetensors")
    pooled = rename(TENSORS, "encoder.layer.0.attention.self.query", "pooler.dense")
    save_file({name: value for name, value in weights.items() if "pooler" not in name}, base / "model.safetensors")
    with pytest.raises(InputError, match=r"adapts encoder\.pooler\.kernel, which .* does not have; expected the model"):
        merge_adapter(read_checkpoint(base), write_adapter(tmp_path / "adapter", tensors=pooled))


def test_folders_without_an_adapter_are_rejected(base, tmp_path):
    with pytest.raises(InputError, match=r"has no adapter_config\.json; expected a folder with an adapter of PEFT"):
        read_adapter_folder(base)
    with pytest.raises(InputError, match="none does not exist; expected the folder of an adapter: check the path"):
        read_adapter_folder(tmp_path / "none")
    with pytest.raises(InputError, match=r"^hf://me/adapter is on the Hub; expected a folder on this machine: down"):
        read_adapter_folder("hf://me/adapter")
    pickled = write_adapter(tmp_path / "adapter")
    (pickled / "adapter_model.safetensors").rename(pickled / "adapter_model.bin")
    with pytest.raises(InputError, match=r"has no adapter_model\.safetensors; .* because a pickle can run code"):
        read_adapter_folder(pickled)


def test_a_damaged_adapter_is_rejected(tmp_path):
    adapter = write_adapter(tmp_path / "adapter")
    path = adapter / "adapter_model.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(InputError, match=r"has [\d,]+ bytes; expected [\d,]+, as in its header"):
        read_adapter_folder(adapter)


def test_a_keras_file_takes_no_adapter(base, tmp_path):
    path = tmp_path / "model.keras"
    bk.load(base).save(path)
    for call in (lambda: bk.load(path, adapter="a"), lambda: bk.convert(path, tmp_path / "out", adapter="a")):
        with pytest.raises(InputError, match=r"is a \.keras file, which cannot take the adapter a; expected a checkp"):
            call()


def test_the_command_merges_an_adapter_and_reports_bad_ones(base, tmp_path, capsys):
    adapter = write_adapter(tmp_path / "adapter")
    assert main(["convert", str(base), str(tmp_path / "out"), "--adapter", str(adapter), "--json"]) == 0
    printed = capsys.readouterr()
    assert str(adapter) in printed.err
    assert json.loads(printed.out)["model"] == "BertClassifier"
    before, after = (load_file(folder / "model.safetensors") for folder in (base, tmp_path / "out"))
    changed = [name for name in before if not np.array_equal(before[name], after[name])]
    assert changed == ["bert.encoder.layer.0.attention.self.query.weight"]
    assert main(["convert", str(base), str(adapter / "out"), "--adapter", str(tmp_path / "none")]) == 2
    assert f"{tmp_path / 'none'} does not exist" in capsys.readouterr().err
    shutil.rmtree(tmp_path / "out")
    write_adapter(adapter, {**CONFIG, "peft_type": "IA3"})
    assert main(["convert", str(base), str(tmp_path / "out"), "--adapter", str(adapter)]) == 2
    assert "expected 'LORA'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


BEFORE_TENSORFLOW = {
    "a kernel of another shape": ({f"{QUERY}.lora_A.weight": np.ones((2, 9), "float32")}, "of shape (2, 9) and lora_B"),
    "an unknown layer": (rename(TENSORS, "query", "gate"), "which belongs to no layer"),
}


@pytest.mark.parametrize("name", BEFORE_TENSORFLOW)
def test_the_command_checks_the_adapter_before_it_loads_tensorflow(name, base, tmp_path, capsys, monkeypatch):
    def fail():
        raise AssertionError("TensorFlow is loaded")

    monkeypatch.setattr("bert_keras.cli.commands.convert.load_tensorflow", fail)
    changes, message = BEFORE_TENSORFLOW[name]
    adapter = write_adapter(tmp_path / "adapter", tensors=TENSORS | changes)
    assert main(["convert", str(base), str(tmp_path / "out"), "--adapter", str(adapter)]) == 2
    assert message in capsys.readouterr().err
    assert main(["convert", str(base), str(tmp_path / "out"), "--adapter", "hf://me/adapter"]) == 2
    assert "hf://me/adapter is on the Hub; expected a folder" in capsys.readouterr().err
