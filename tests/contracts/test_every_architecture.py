"""The rules that every architecture and each of its heads keep, driven by the records."""

import json
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

import bert_keras as bk
from bert_keras.analysis.cost_model.components import count_parameters
from bert_keras.architectures.known_architectures import ARCHITECTURES
from bert_keras.checkpoints.adapters.adapter_files import select_layers
from bert_keras.checkpoints.building import get_encoder, get_variables, resolve
from bert_keras.checkpoints.huggingface.huggingface_folder import get_class_name, read_config
from bert_keras.checkpoints.huggingface.weight_names import list_weights, normalize_tensor_name
from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.features import to_huggingface_names
from bert_keras.heads.known_heads import HEADS, get_head
from tests.conftest import LABELS
from tests.contracts.test_every_head import OTHER_CONFIG
from tests.contracts.tiny_models import (
    FEATURES,
    add_head,
    assert_identical,
    has_own_class,
    is_in_transformers,
    list_heads,
    make_arguments,
    make_config,
    make_encoder,
)
from tests.marks import slow
from tests.twins import make_tiny_twin, open_folder, run_twin

TOLERANCE = 2e-5  # measured against transformers, both ways: 5.2e-6 (logits, which reach 9); hidden states 1.7e-6
UNPADDED = 2e-6  # measured: 7e-7
ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "relu": "relu"}  # keyed by the name in transformers

by_architecture = pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=ARCHITECTURES)
PAIRS = [(architecture, head) for architecture in ARCHITECTURES.values() for head in list_heads(architecture)]


def name_pair(value: object) -> str:
    """Return the part of a test's name for an architecture or a head."""
    return getattr(value, "model_type", None) or getattr(value, "model_name", str(value))


by_pair = pytest.mark.parametrize(("architecture", "head"), PAIRS, ids=name_pair)


@pytest.fixture(scope="module")
def make(perturb):
    """A function that builds the model of a head once; tests do not change it. ELECTRA has no generator here."""
    built = {}

    def build(architecture, head):
        key = architecture.model_type, head.model_name
        if key not in built:
            encoder = make_encoder(architecture, head)
            arguments = {**make_arguments(head, encoder.config), "generator_config": None}
            arguments = {name: value for name, value in arguments.items() if value is not None}
            built[key] = add_head(head, encoder, **arguments)
            perturb(built[key])
        return built[key]

    return build


@pytest.fixture(scope="module")
def save(make, tmp_path_factory):
    """A function that returns the folder of a head's model, without a tokenizer; tests do not change it."""
    saved = {}

    def save_model(architecture, head):
        key = architecture.model_type, head.model_name
        if key not in saved:
            saved[key] = tmp_path_factory.mktemp("saved") / "folder"
            bk.save(make(architecture, head), None, saved[key])
        return saved[key]

    return save_model


def get_masked_lm(architecture):
    """Return the head that fills masks and nothing else, whose output matrix is tied to the embeddings."""
    return next(head for head in list_heads(architecture) if head.fills_masks and head.task is not None)


# --- the record


@by_architecture
def test_the_record_names_known_heads_and_an_encoder(architecture):
    models = {head.model_name for head in HEADS}
    named = {*architecture.heads, *architecture.needs_pooler, *architecture.models.values(), *architecture.endings}
    assert named <= models
    assert not any(get_head(model).ignores_pooler for model in architecture.needs_pooler)
    assert issubclass(architecture.load_encoder(), bk.BertEncoder)


@pytest.mark.parametrize("architecture", [*filter(is_in_transformers, ARCHITECTURES.values())], ids=name_pair)
def test_transformers_has_the_class_of_each_head(architecture):
    import transformers

    classes = {get_class_name(model, architecture) for model in architecture.heads}
    assert classes <= set(dir(transformers))  # reading an attribute would import torch


@by_architecture
def test_heads_that_the_architecture_does_not_have_are_refused(architecture, save, tmp_path):
    folder = save(architecture, get_head("BertEncoder"))
    for head in HEADS:
        if head not in list_heads(architecture):
            with pytest.raises(bk.InputError, match="for which there is no such head; expected one of"):
                head.load("model").from_checkpoint(folder)
            encoder = bk.BertEncoder.from_checkpoint(folder)
            encoder = encoder if encoder.pooler is None else bk.BertEncoder(encoder.config, pooler=False)
            check_not_stored_as(architecture, head, encoder, tmp_path / head.model_name)


def check_not_stored_as(architecture, head, encoder, folder) -> None:
    """Check that a model is stored as one of another architecture that has the head, or not at all."""
    try:
        bk.save(head.load("model")(encoder), None, folder)
    except bk.InputError as error:
        assert re.search("for which there is no such head|needs an encoder with a pooler", str(error))  # noqa: PT017
        assert not folder.exists()
    else:
        stored = ARCHITECTURES[json.loads((folder / "config.json").read_text())["model_type"]]
        assert stored is not architecture
        assert head in list_heads(stored)


# --- config.json


@by_architecture
def test_config_json_keeps_every_field(architecture, tmp_path):
    fields = {name: value for name, value in OTHER_CONFIG.items() if name in architecture.config_keys}
    fields |= {**architecture.fixed_fields, "model_type": architecture.model_type, "hidden_act": "relu"}
    config = bk.BertConfig(**fields, position_type="sinusoidal")
    bk.save(architecture.load_encoder()(config, pooler=False), None, tmp_path / "folder")
    values = json.loads((tmp_path / "folder/config.json").read_text())
    assert values["model_type"] == architecture.model_type
    assert {theirs: values[theirs] for theirs in architecture.config_keys.values()} == {
        theirs: fields[ours] for ours, theirs in architecture.config_keys.items()
    }
    assert bk.load(tmp_path / "folder").config == read_config(values, "config.json") == config
    assert values[architecture.act_key] == "relu"


@by_architecture
def test_keys_of_config_json_are_read_strictly(architecture, save):
    """Keys with a default may be missing; unknown keys are ignored, except ours and those that change the function."""
    values = json.loads((save(architecture, get_head("BertEncoder")) / "config.json").read_text())
    config = read_config(values, "config.json")
    for name in architecture.config_defaults:
        read_config({key: value for key, value in values.items() if key != name}, "config.json")
    for name in set(architecture.config_keys.values()) - set(architecture.config_defaults):
        with pytest.raises(bk.InputError, match=f"config.json lacks {name}; expected"):
            read_config({key: value for key, value in values.items() if key != name}, "config.json")
    assert read_config({**values, "note": "mine"}, "config.json") == config
    with pytest.raises(bk.InputError, match="has note under 'bert_keras', which this version does not know"):
        read_config({**values, "bert_keras": {**values["bert_keras"], "note": "mine"}}, "config.json")
    with pytest.raises(bk.InputError, match="sets is_decoder to True, which changes what the model computes"):
        read_config({**values, "is_decoder": True}, "config.json")


# --- tensors and folders


@by_pair
def test_a_folder_restores_the_config_and_every_bit_of_the_weights(architecture, head, make, save):
    model = make(architecture, head)
    loaded = bk.load(save(architecture, head))
    assert (type(loaded), type(get_encoder(loaded))) == (type(model), architecture.load_encoder())
    assert get_encoder(loaded).config == get_encoder(model).config
    assert_same_weights(loaded, model)
    values = json.loads((save(architecture, head) / "config.json").read_text())
    assert values["architectures"] == [get_class_name(head.model_name, architecture)]
    assert values["model_type"] == architecture.model_type


def assert_same_weights(ours, theirs) -> None:
    """Check that two models have the same bits."""
    for one, other in zip(ours.get_weights(), theirs.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


@by_pair
def test_the_table_of_tensors_is_complete(architecture, head, make, save):
    """Every weight has the name and shape of the table, and the file has these tensors and no others."""
    model = make(architecture, head)
    encoder = get_encoder(model)
    names = list_weights(head.model_name, encoder.config, pooler=encoder.pooler is not None)
    shapes = {name.ours: name.shape(encoder.config, getattr(model, "num_classes", None)) for name in names}
    assert shapes == {name: tuple(weight.shape) for name, weight in get_variables(model).items()}
    assert sum(map(np.prod, shapes.values())) == model.count_params()
    for format in ("ours", "huggingface", "google", "keras_hub"):
        found = [name for one in names if (name := getattr(one, format)) is not None]
        assert len(set(found)) == len(found), format
    stored = load_file(save(architecture, head) / "model.safetensors")
    assert sorted(map(normalize_tensor_name, stored)) == sorted(name.huggingface for name in names)
    kernels = {name.huggingface for name in names if name.is_kernel}
    sizes = {name.huggingface: shapes[name.ours] for name in names}
    for name, value in stored.items():
        shape = sizes[normalize_tensor_name(name)]
        assert value.shape == (shape[::-1] if normalize_tensor_name(name) in kernels else shape), name


@by_architecture
def test_files_that_lack_a_tensor_or_have_another_one_are_refused(architecture, save, edit):
    head = get_masked_lm(architecture)
    names = list_weights(head.model_name, make_config(architecture), pooler=False)
    for name in (names[0], names[-1], next(name for name in names if ".blocks.1." in name.ours)):
        folder = edit(save(architecture, head), lambda tensors, name=name: _without(tensors, name.huggingface))
        with pytest.raises(bk.InputError, match=f"lacks 1 of the .*{name.huggingface}"):
            bk.load(folder)
    prefix = f"{architecture.model_type}.{architecture.block_prefix.replace('{i}', '0')}"
    folder = edit(save(architecture, head), lambda tensors: {**tensors, f"{prefix}new.weight": np.ones(3, "float32")})
    with pytest.raises(bk.InputError, match=r"new\.weight"):
        bk.load(folder)


@by_architecture
def test_tied_tensors_may_be_stored_if_they_are_equal(architecture, save, edit, make_batch, run):
    head = get_masked_lm(architecture)
    folder = save(architecture, head)
    stored = {normalize_tensor_name(name): value for name, value in load_file(folder / "model.safetensors").items()}
    tied = {name: stored[other] for name, other in architecture.tied.items() if other in stored}
    assert tied
    assert not tied.keys() & stored.keys()
    copied = bk.load(edit(folder, lambda tensors: {**tensors, **{name: one.copy() for name, one in tied.items()}}))
    assert_identical(run(copied, make_batch()), run(bk.load(folder), make_batch()))
    for name, value in tied.items():
        with pytest.raises(bk.InputError, match=name):
            bk.load(edit(folder, lambda tensors, one=name, value=value: {**tensors, one: value + 1}))


@pytest.fixture
def edit(tmp_path):
    """A function that copies a folder with changed tensors, without checksums."""

    def copy(folder, change):
        out = tmp_path / f"copy{len(list(tmp_path.iterdir()))}"
        out.mkdir()
        (out / "config.json").write_bytes((folder / "config.json").read_bytes())
        tensors = change(load_file(folder / "model.safetensors"))
        save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
        return out

    return copy


def _without(tensors: dict, name: str) -> dict:
    return {key: value for key, value in tensors.items() if normalize_tensor_name(key) != name}


@by_pair
def test_a_new_head_keeps_the_encoder(architecture, head, make, save):
    encoder_head = get_head("BertEncoder")
    arguments = {
        key: one for key, one in make_arguments(head, make_config(architecture)).items() if "generator" not in key
    }
    model = head.load("model").from_checkpoint(save(architecture, encoder_head), **arguments)
    ours, stored = get_variables(get_encoder(model)), get_variables(make(architecture, encoder_head))
    assert stored.keys() - ours.keys() <= {"encoder.pooler.kernel", "encoder.pooler.bias"}
    for name, variable in ours.items():
        np.testing.assert_array_equal(variable, stored[name], err_msg=name)


# --- adapters and the cost model


@pytest.mark.parametrize(("architecture", "head"), [pair for pair in PAIRS if pair[1].peft], ids=name_pair)
def test_adapted_layers_exist(architecture, head, make, save):
    checkpoint, model = read_checkpoint(save(architecture, head)), make(architecture, head)
    layers = select_layers(head.model_name, checkpoint)
    stored = set(map(normalize_tensor_name, load_file(save(architecture, head) / "model.safetensors")))
    assert {name.huggingface for name in (*layers.kernels, *layers.trained)} <= stored
    in_blocks = [name for name in layers.kernels if ".blocks." in name.ours]
    assert len(in_blocks) == 6 * len(get_encoder(model).blocks)
    for name in layers.kernels:
        assert isinstance(resolve(model, name.ours.removesuffix(".kernel")), keras.layers.Dense), name.ours
    assert not {name.ours for name in layers.trained} & {name.ours for name in layers.kernels}


@by_pair
def test_the_cost_model_counts_the_parameters(architecture, head, make):
    model = make(architecture, head)
    assert sum(component.parameters for component in count_parameters(model)) == model.count_params()


# --- what the encoder computes


@pytest.mark.parametrize("policy", ["float32", *slow("mixed_bfloat16", "mixed_float16")])
@by_architecture
def test_attention_scores_are_probabilities_over_real_tokens(architecture, policy, make_batch, run, perturb):
    encoder = make_encoder(architecture, get_head("BertEncoder"), dtype=policy)
    perturb(encoder)
    batch = make_batch()
    outputs = run(encoder, batch, return_attention_scores=True, return_hidden_states=True)
    assert len(outputs["attention_scores"]) == 2
    assert [one.shape for one in outputs["hidden_states"]] == [(3, 13, 30)] * 3
    np.testing.assert_array_equal(outputs["hidden_states"][-1], outputs["sequence_output"])
    for layer in outputs["attention_scores"]:
        assert layer.dtype == np.float32
        assert layer.shape == (3, 5, 13, 13)
        np.testing.assert_allclose(layer.sum(axis=-1), 1.0, rtol=0, atol=1e-6)  # measured: 2.4e-7
        padding = np.broadcast_to(batch["padding_mask"][:, None, None, :] == 0, layer.shape)
        assert (layer[padding] == 0.0).all()
        assert (layer.max(axis=(1, 2))[batch["padding_mask"] == 1] > 0.0).all(), "a query attends to each real token"


@pytest.mark.parametrize("option", ["gradient_checkpointing", "unpad_in_training"])
@by_architecture
def test_saving_memory_changes_neither_vectors_nor_gradients(architecture, option, make_batch, perturb):
    config = make_config(architecture, hidden_dropout_rate=0.0, attention_dropout_rate=0.0)
    encoder = make_encoder(architecture, get_head("BertEncoder"), config)
    perturb(encoder)
    batch = make_batch(*FEATURES, lengths=(13, 0, 4))  # the second sequence is empty
    real = batch["padding_mask"].astype(bool)
    factors = np.random.default_rng(2).normal(size=(*real.shape, config.hidden_dim)) * real[:, :, None]
    weights = [weight.value for weight in encoder.trainable_weights if "pooler" not in weight.path]
    vectors, gradients = [], []
    for is_on in (False, True):
        setattr(encoder, option, is_on)
        with tf.GradientTape() as tape:
            vectors.append(encoder(batch, training=True)["sequence_output"])
            loss = tf.reduce_sum(vectors[-1] * factors.astype("float32"))
        gradients.append([tf.convert_to_tensor(one).numpy() for one in tape.gradient(loss, weights)])
    np.testing.assert_allclose(vectors[1].numpy()[real], vectors[0].numpy()[real], rtol=0, atol=10 * UNPADDED)
    for plain, sparing in zip(*gradients, strict=True):
        np.testing.assert_allclose(sparing, plain, rtol=1e-4, atol=1e-4)


# --- the twins in transformers


def list_twins() -> list:
    """Return the heads for which transformers has a class; in the quick suite each has one activation."""
    pairs = [pair for pair in PAIRS if is_in_transformers(pair[0]) and has_own_class(*pair)]
    return [
        pytest.param(*pair, act, marks=[] if index % len(ACTIVATIONS) == number else [pytest.mark.slow])
        for index, pair in enumerate(pairs)
        for number, act in enumerate(ACTIVATIONS)
    ]


@pytest.mark.parametrize(("architecture", "head", "activation"), list_twins(), ids=name_pair)
def test_transformers_computes_the_same_both_ways(architecture, head, activation, make_batch, run, tmp_path):
    class_name = get_class_name(head.model_name, architecture)
    config = make_config(architecture, hidden_act=ACTIVATIONS[activation])
    classes = {"num_labels": len(LABELS)} if head.has_num_classes else {}
    twin = make_tiny_twin(architecture, class_name, config, **classes, **{architecture.act_key: activation})
    twin.save_pretrained(tmp_path / "theirs")
    model, batch = bk.load(tmp_path / "theirs"), make_batch()
    assert type(model) is head.load("model")
    assert get_encoder(model).config == config
    options = {"return_hidden_states": True, "return_attention_scores": True}
    ours = to_huggingface_names(run(model, batch, **options))
    check_outputs(ours, run_twin(twin, batch, output_hidden_states=True, output_attentions=True))
    bk.save(model, None, tmp_path / "ours")
    check_outputs(ours, run_twin(open_folder(tmp_path / "ours", class_name), batch))


def check_outputs(ours: dict, theirs: dict) -> None:
    """Compare all outputs of a twin with ours."""
    theirs = {name: value for name, value in theirs.items() if len(value) > 0}  # an encoder has no cross attentions
    assert theirs.keys() <= ours.keys()
    for name, value in theirs.items():
        parts = zip(value, ours[name], strict=True) if isinstance(value, tuple) else [(value, ours[name])]
        for their_part, our_part in parts:
            assert np.shape(our_part) == np.shape(their_part), name
            np.testing.assert_allclose(our_part, their_part, rtol=0, atol=TOLERANCE, err_msg=name)
