"""Adapters that cannot be merged are rejected with one sentence."""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import bert_keras as bk
from bert_keras.checkpoints.adapters.adapter_folder import read_adapter_folder
from bert_keras.checkpoints.adapters.merged_checkpoint import merge_adapter
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


def test_a_head_of_another_width_is_rejected(base, tmp_path):
    head = {**HEAD, "base_model.model.classifier.weight": np.ones((3, 7), "float32")}
    adapter = write_adapter(tmp_path / "adapter", tensors={**TENSORS, **head})
    with pytest.raises(InputError, match=r"classifier\.weight.* has shape \(7, 3\); expected \(6, 3\)"):
        bk.load(base, adapter=adapter)


def test_a_kernel_that_the_checkpoint_lacks_is_rejected(base, tmp_path):
    weights = load_file(base / "model.safetensors")
    pooled = rename(TENSORS, "encoder.layer.0.attention.self.query", "pooler.dense")
    save_file({name: value for name, value in weights.items() if "pooler" not in name}, base / "model.safetensors")
    with pytest.raises(InputError, match=r"adapts encoder\.pooler\.kernel, which .* does not have; expected the model"):
        merge_adapter(read_checkpoint(base), write_adapter(tmp_path / "adapter", tensors=pooled))


def test_folders_without_an_adapter_are_rejected(base, tmp_path):
    with pytest.raises(InputError, match=r"has no adapter_config\.json; expected a folder with an adapter of PEFT"):
        read_adapter_folder(base)
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
