"""Adapters in both directions compute the same in PEFT, an independent implementation of LoRA on PyTorch."""

import json
import types
from typing import NamedTuple

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file

import bert_keras as bk
from bert_keras.checkpoints.adapters.adapter_files import build_adapter_files, count_trained_parameters, select_layers
from bert_keras.checkpoints.adapters.lora_layers import LoraModel
from bert_keras.checkpoints.reading import read_checkpoint
from tests.marks import slow_except

peft = pytest.importorskip("peft")
# PEFT 0.21 reads an attribute of transformers that version 6 will rename
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
TOLERANCE = 1e-5  # measured: 3.1e-6 of logits that reach 8
RANK, ALPHA = 4, 6
NONE = types.MappingProxyType({})


class Case(NamedTuple):
    """A base model of transformers, the class of transformers for the task, ours, and PEFT's settings."""

    base: str
    twin: str
    ours: str
    task_type: str
    outputs: dict
    targets: tuple = ("query", "value")
    head: dict = NONE
    options: dict = NONE
    base_changes: dict = NONE


LOGITS, SPAN = {"logits": "logits"}, {"start_logits": "start_logits", "end_logits": "end_logits"}
ALL_DENSE = (
    *("attention.self.query", "attention.self.key", "attention.self.value"),
    *("attention.output.dense", "intermediate.dense", "output.dense"),
)
CLASSES = {"num_labels": 4}
BERT_CLASSIFIER = ("BertModel", "BertForSequenceClassification", "BertClassifier", "SEQ_CLS", LOGITS)
CASES = {
    "classify": Case(*BERT_CLASSIFIER, (*ALL_DENSE, "pooler.dense"), CLASSES),
    "attention only": Case(*BERT_CLASSIFIER, head=CLASSES),
    "rank-stabilized": Case(*BERT_CLASSIFIER, head=CLASSES, options={"use_rslora": True}),
    "with biases": Case(*BERT_CLASSIFIER, head=CLASSES, options={"bias": "all"}),
    "some layers": Case(*BERT_CLASSIFIER, head=CLASSES, options={"layers_to_transform": [2]}),
    "trained pooler": Case(*BERT_CLASSIFIER, head=CLASSES, options={"modules_to_save": ["pooler"]}),
    "tag": Case(
        "BertModel", "BertForTokenClassification", "BertTokenClassifier", "TOKEN_CLS", LOGITS, ALL_DENSE, CLASSES
    ),
    "answer": Case("BertModel", "BertForQuestionAnswering", "BertQuestionAnswerer", "QUESTION_ANS", SPAN, ALL_DENSE),
    "embed": Case(
        *("BertModel", "BertModel", "BertEncoder", "FEATURE_EXTRACTION", {"sequence_output": "last_hidden_state"}),
        ALL_DENSE,
    ),
    "electra": Case(
        *("ElectraModel", "ElectraForSequenceClassification", "BertClassifier", "SEQ_CLS", LOGITS),
        *(ALL_DENSE, CLASSES),
        base_changes={"embedding_size": 22},
    ),
}


# the twins are run as `base_model`, because PEFT's own wrapper drops token_type_ids in question answering (0.21)
@pytest.fixture
def make_peft(make_twin, tmp_path):
    """A function that writes a base model and an adapter with random numbers on it, and returns PEFT's model."""
    import transformers

    def make(case: Case):
        make_twin(case.base, **case.base_changes).save_pretrained(tmp_path / "base")
        twin = getattr(transformers, case.twin).from_pretrained(
            tmp_path / "base", attn_implementation="eager", **case.head
        )
        config = peft.LoraConfig(
            task_type=case.task_type, r=RANK, lora_alpha=ALPHA, target_modules=list(case.targets), **case.options
        )
        model = peft.get_peft_model(twin, config).eval()
        randomize_trained(model)
        model.save_pretrained(tmp_path / "adapter")
        return model

    return make


def randomize_trained(model) -> None:
    import torch

    rng = np.random.default_rng(5)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = torch.tensor(rng.normal(0, 0.25, tuple(parameter.shape)), dtype=torch.float32)


@pytest.mark.parametrize("name", slow_except(CASES, quick=["classify", "rank-stabilized", "with biases", "tag"]))
def test_an_adapter_of_peft_computes_the_same_merged_into_our_model(
    name, make_peft, run_twin, make_batch, run, tmp_path
):
    case, batch = CASES[name], make_batch()
    theirs = run_twin(make_peft(case).base_model, batch)
    model = bk.load(tmp_path / "base", adapter=tmp_path / "adapter")
    assert type(model).__name__ == case.ours
    ours = run(model, batch)
    before = run(bk.load(tmp_path / "base"), batch) if case.ours == "BertEncoder" else None
    for our_name, their_name in case.outputs.items():
        np.testing.assert_allclose(ours[our_name], theirs[their_name], rtol=0, atol=TOLERANCE)
        assert before is None or np.abs(before[our_name] - theirs[their_name]).max() > 0.1


def test_a_converted_adapter_is_an_ordinary_folder(make_peft, run_twin, open_twin, make_batch, run, tmp_path):
    case, batch = CASES["classify"], make_batch()
    theirs = run_twin(make_peft(case), batch)["logits"]
    converted = bk.convert(tmp_path / "base", tmp_path / "out", adapter=tmp_path / "adapter")
    [lost] = converted.not_carried_over
    assert lost.startswith("label names and the kind of problem, which PEFT does not store: a classifier with several")
    twin = open_twin(tmp_path / "out", case.twin)
    np.testing.assert_allclose(run_twin(twin, batch)["logits"], theirs, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(run(bk.load(tmp_path / "out"), batch)["logits"], theirs, rtol=0, atol=TOLERANCE)


# what we train: the class of the base model, the class with the head, ours, its arguments, frozen blocks, changes
TRAINED = {
    "classify": ("BertModel", "BertForSequenceClassification", "BertClassifier", {"num_classes": 4}, 0),
    "frozen blocks": ("BertModel", "BertForSequenceClassification", "BertClassifier", {"num_classes": 4}, 2),
    "without a pooler": ("BertForMaskedLM", "BertForSequenceClassification", "BertClassifier", {"num_classes": 4}, 0),
    "tag": ("BertModel", "BertForTokenClassification", "BertTokenClassifier", {"num_classes": 4}, 0),
    "answer": ("BertModel", "BertForQuestionAnswering", "BertQuestionAnswerer", {}, 0),
    "embed": ("BertModel", "BertModel", "BertEmbedder", {"normalize": False}, 1),
    "electra": ("ElectraModel", "ElectraForSequenceClassification", "BertClassifier", {"num_classes": 4}, 0),
}


def make_lora(base, our_class: str, head: dict, num_frozen: int) -> tuple[LoraModel, list]:
    """Return a model with adapters and a head of random numbers, and the names of what is trained itself."""
    keras.utils.set_random_seed(3)
    checkpoint = read_checkpoint(base)
    layers = select_layers(our_class, checkpoint, num_frozen)
    lora = LoraModel(getattr(bk, our_class).from_checkpoint(base, **head), layers, RANK, ALPHA)
    rng = np.random.default_rng(6)
    for variable in lora.model.trainable_variables:
        variable.assign(rng.normal(0, 0.25, variable.shape))
    return lora, [name.ours for name in layers.trained]


@pytest.mark.parametrize("name", slow_except(TRAINED, quick=["classify", "without a pooler", "frozen blocks"]))
def test_peft_opens_our_adapter_and_computes_the_same(name, make_twin, run_twin, make_batch, run, tmp_path):
    import transformers

    base, twin_class, our_class, head, num_frozen = TRAINED[name]
    changes = {"embedding_size": 22} if name == "electra" else {}
    make_twin(base, **changes).save_pretrained(tmp_path / "base")
    lora, trained = make_lora(tmp_path / "base", our_class, head, num_frozen)
    assert ("encoder.pooler.kernel" in trained) == (name == "without a pooler")
    (tmp_path / "adapter").mkdir()
    for file, content in build_adapter_files(lora.read_adapter(), tmp_path / "base").items():
        (tmp_path / "adapter" / file).write_bytes(content)
    options = {"num_labels": 4} if "num_classes" in head else {}
    twin = getattr(transformers, twin_class).from_pretrained(tmp_path / "base", attn_implementation="eager", **options)
    twin = peft.PeftModel.from_pretrained(twin, tmp_path / "adapter").eval()
    batch = make_batch()
    theirs = run_twin(twin.base_model, batch)
    merged = lora.merge()
    assert len(merged.trainable_weights) == len(merged.weights) - 2 * (our_class == "BertEmbedder")
    if our_class == "BertEmbedder":
        ours = {"last_hidden_state": run(merged.encoder, batch)["sequence_output"]}
    else:
        ours = run(merged, batch)
    again = run(lora.model.encoder if our_class == "BertEmbedder" else lora.model, batch)
    for output in set(ours) & set(theirs):
        np.testing.assert_allclose(ours[output], theirs[output], rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(
            ours[output], again.get(output, again.get("sequence_output")), rtol=0, atol=TOLERANCE
        )
    assert set(ours) & set(theirs)
    stored = load_file(tmp_path / "adapter/adapter_model.safetensors")
    twins = {name.replace(".default", "").replace("modules_to_save.", "") for name, one in twin.named_parameters()}
    assert stored.keys() <= twins  # so PEFT ignored none of them
    num_classes = head.get("num_classes")
    counted = count_trained_parameters(
        our_class, read_checkpoint(tmp_path / "base"), RANK, num_classes=num_classes, num_frozen_blocks=num_frozen
    )
    actual = sum(np.prod(variable.shape) for variable in lora.model.trainable_variables)
    assert counted == (actual, merged.count_params())
    assert sum(value.size for value in stored.values()) == actual


def test_the_gradients_of_an_adapter_equal_pefts(make_twin, make_batch, tmp_path):
    import tensorflow as tf
    import torch
    import transformers

    make_twin("BertModel").save_pretrained(tmp_path / "base")
    lora, _ = make_lora(tmp_path / "base", "BertClassifier", {"num_classes": 4}, 0)
    adapter = lora.read_adapter()
    (tmp_path / "adapter").mkdir()
    for file, content in build_adapter_files(adapter, tmp_path / "base").items():
        (tmp_path / "adapter" / file).write_bytes(content)
    twin = transformers.BertForSequenceClassification.from_pretrained(tmp_path / "base", num_labels=4)
    twin = peft.PeftModel.from_pretrained(twin, tmp_path / "adapter", is_trainable=True).eval()
    batch, labels = make_batch(), np.array([2, 0, 3])
    names = {"token_ids": "input_ids", "padding_mask": "attention_mask", "segment_ids": "token_type_ids"}
    inputs = {theirs: torch.tensor(batch[name]).long() for name, theirs in names.items()}
    twin(**inputs, labels=torch.tensor(labels)).loss.backward()
    theirs = {
        name.replace(".default", "").replace("modules_to_save.", ""): parameter.grad.numpy()
        for name, parameter in twin.named_parameters()
        if parameter.requires_grad
    }
    variables = lora.model.trainable_variables
    with tf.GradientTape() as tape:
        logits = lora.model(batch)["logits"]
        loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True))
    ours = dict(zip(map(id, variables), tape.gradient(loss, [one.value for one in variables]), strict=True))
    assert len(ours) == len(theirs) == 2 * 19 + 2  # 3 blocks of 6 layers, the pooler and the head
    for place in range(3):
        layer = lora.model.encoder.blocks[place].attention.query
        module = f"base_model.model.bert.encoder.layer.{place}.attention.self.query"
        np.testing.assert_allclose(ours[id(layer.lora_kernel_a)], theirs[f"{module}.lora_A.weight"].T, atol=TOLERANCE)
        np.testing.assert_allclose(ours[id(layer.lora_kernel_b)], theirs[f"{module}.lora_B.weight"].T, atol=TOLERANCE)
    kernel = lora.model.classifier.kernel
    np.testing.assert_allclose(ours[id(kernel)], theirs["base_model.model.classifier.weight"].T, atol=TOLERANCE)


def test_our_config_has_the_keys_and_values_that_peft_writes(make_peft, tmp_path):
    make_peft(CASES["classify"])
    theirs = json.loads((tmp_path / "adapter/adapter_config.json").read_text())
    lora, _ = make_lora(tmp_path / "base", "BertClassifier", {"num_classes": 4}, 0)
    ours = json.loads(build_adapter_files(lora.read_adapter(), tmp_path / "base")["adapter_config.json"])
    assert sorted(ours.pop("target_modules")) == sorted(theirs["target_modules"])
    assert set(ours.pop("modules_to_save")) <= set(theirs["modules_to_save"])
    assert ours == {name: theirs[name] for name in ours}
