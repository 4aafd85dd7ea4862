"""Odd folders of transformers and of ours; `tests/contracts/` compares each head of each architecture with its twin."""

import json
import types
from typing import NamedTuple

import numpy as np
import pytest

import bert_keras as bk
from tests.marks import slow, slow_except

TOLERANCE = 2e-5  # measured, both ways, all classes: 5.2e-6 (logits, which reach 9); hidden states 1.7e-6
ONE_LAYER, ONE_TWIN_LAYER = {"num_layers": 1}, {"num_hidden_layers": 1}
PUBLISHED_NAMES = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}


class Twin(NamedTuple):
    """A class of transformers, our class for its folders, and the names of their outputs."""

    class_name: str
    our_class: str
    outputs: dict  # our name: theirs
    changes: dict = types.MappingProxyType({})


ENCODER_OUTPUTS = {"sequence_output": "last_hidden_state", "pooled_output": "pooler_output"}
LOGITS, MASKED = {"logits": "logits"}, {"mlm_logits": "logits"}
NARROW = {"embedding_size": 22}  # ELECTRA's narrow embeddings, projected
CLASSIFIER = ("BertForSequenceClassification", "BertClassifier", LOGITS)

TWINS = {
    "pretrainer": Twin(
        "BertForPreTraining",
        "BertPretrainer",
        {"mlm_logits": "prediction_logits", "next_sentence_logits": "seq_relationship_logits"},
    ),
    "masked_lm": Twin("BertForMaskedLM", "BertMaskedLM", MASKED),
    "single_label": Twin(*CLASSIFIER, {"num_labels": 4, "problem_type": "single_label_classification"}),
    "multi_label": Twin(*CLASSIFIER, {"num_labels": 4, "problem_type": "multi_label_classification"}),
    "regression": Twin(*CLASSIFIER, {"num_labels": 1, "problem_type": "regression"}),
    "electra_masked_lm_narrow": Twin("ElectraForMaskedLM", "BertMaskedLM", MASKED, NARROW),
}

# kind of model (tests/conftest.py): the class of transformers that its folder names
CLASS_NAMES = {
    "encoder": "BertModel",
    "encoder_without_pooler": "BertModel",
    "pretrainer": "BertForPreTraining",
    "masked_lm": "BertForMaskedLM",
    "classifier": "BertForSequenceClassification",
    "classifier_without_pooler": "ElectraForSequenceClassification",
    "token_classifier": "BertForTokenClassification",
    "question_answerer": "BertForQuestionAnswering",
    "electra": "ElectraForPreTraining",
}
# BERTs that are stored as ELECTRAs, because their embeddings are narrow
NARROW_OURS = {
    "masked_lm": Twin("ElectraForMaskedLM", "BertMaskedLM", MASKED),
    "classifier_without_pooler": Twin("ElectraForSequenceClassification", "BertClassifier", LOGITS),
}


@pytest.mark.parametrize("twin_kind", ["pretrainer", "electra_masked_lm_narrow"])
def test_every_layer_norm_uses_the_configs_epsilon(
    twin_kind, make_twin, run_twin, open_twin, make_batch, run, tmp_path
):
    kind = TWINS[twin_kind]
    # 1e-12 or 1e-5 would make no difference
    twin = make_twin(kind.class_name, layer_norm_eps=0.03, **ONE_TWIN_LAYER, **kind.changes)
    twin.save_pretrained(tmp_path / "theirs")
    model = bk.load(tmp_path / "theirs")
    assert_equal_outputs(run(model, make_batch()), run_twin(twin, make_batch()), kind.outputs)
    bk.save(model, None, tmp_path / "ours")
    back = open_twin(tmp_path / "ours", kind.class_name)
    assert_equal_outputs(run(model, make_batch()), run_twin(back, make_batch()), kind.outputs)


def test_every_number_of_the_config_is_preserved_both_ways(make_twin, open_twin, tmp_path):
    numbers = {
        "hidden_dropout_prob": 0.31,
        "attention_probs_dropout_prob": 0.22,
        "classifier_dropout": 0.13,
        "initializer_range": 0.04,
        "layer_norm_eps": 1e-5,
        "type_vocab_size": 3,
        "hidden_act": "gelu_new",
    }
    twin = make_twin("BertForTokenClassification", num_labels=4, **ONE_TWIN_LAYER, **numbers)
    twin.save_pretrained(tmp_path / "theirs")
    model = bk.load(tmp_path / "theirs")
    config = model.encoder.config
    assert (config.hidden_dropout_rate, config.attention_dropout_rate, model.dropout_rate) == (0.31, 0.22, 0.13)
    assert (config.initializer_range, config.layer_norm_epsilon) == (0.04, 1e-5)
    assert (config.type_vocabulary_size, config.hidden_act) == (3, "gelu_tanh")
    bk.save(model, None, tmp_path / "ours")
    back = open_twin(tmp_path / "ours", "BertForTokenClassification").config.to_dict()
    assert {name: back[name] for name in numbers} == numbers


@pytest.mark.parametrize("twin_kind", ["pretrainer", *slow("masked_lm"), "electra_masked_lm_narrow"])
def test_logits_at_masked_positions_equal_the_twins(twin_kind, make_twin, run_twin, make_batch, run, tmp_path):
    kind = TWINS[twin_kind]
    twin = make_twin(kind.class_name, **ONE_TWIN_LAYER, **kind.changes)
    twin.save_pretrained(tmp_path / "theirs")
    batch = make_batch("token_ids", "padding_mask", "segment_ids", "mask_positions")
    ours = run(bk.load(tmp_path / "theirs"), batch)["mlm_logits"]
    theirs = run_twin(twin, batch)[kind.outputs["mlm_logits"]]
    wanted = np.take_along_axis(theirs, batch["mask_positions"][:, :, None], axis=1)
    np.testing.assert_allclose(ours, wanted, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("kind", NARROW_OURS)
def test_narrow_embeddings_load_as_electra(kind, make_model, make_batch, run, open_twin, run_twin, tmp_path):
    model = make_model(kind, embedding_dim=22, num_layers=2)
    bk.save(model, None, tmp_path / "ours")
    twin = open_twin(tmp_path / "ours", NARROW_OURS[kind].class_name)
    assert twin.config.embedding_size == 22
    batch = make_batch()
    assert_equal_outputs(run(model, batch), run_twin(twin, batch), NARROW_OURS[kind].outputs)


@pytest.mark.parametrize("kind", [*slow("encoder"), "pretrainer"])
def test_a_pooler_with_narrow_embeddings_survives_save_and_load(kind, make_model, make_batch, run, tmp_path):
    # transformers has no such class, because its ELECTRA has no pooler
    model = make_model(kind, embedding_dim=22, **ONE_LAYER)
    bk.save(model, None, tmp_path / "ours")
    ours, wanted = run(bk.load(tmp_path / "ours"), make_batch()), run(model, make_batch())
    for name, value in wanted.items():
        np.testing.assert_array_equal(ours[name], value, err_msg=name)


@pytest.mark.parametrize(
    ("hidden_act", "head_act", "embedding_dim"),
    [("gelu", "relu", 30), ("relu", "relu", 22), ("gelu_tanh", "gelu_tanh", 22), ("gelu", "silu", 30)],
)
def test_a_masked_lm_head_that_transformers_lacks_is_refused(hidden_act, head_act, embedding_dim, sizes):
    # transformers' BertForMaskedLM has one activation for all, its ElectraForMaskedLM "gelu" in the head
    config = bk.BertConfig(**{**sizes, **ONE_LAYER}, hidden_act=hidden_act, embedding_dim=embedding_dim)
    encoder = bk.BertEncoder(config, pooler=False)
    with pytest.raises(bk.InputError, match=rf"head_act is '{head_act}', expected 'gelu'"):
        bk.BertMaskedLM(encoder, head_act=head_act)


def test_a_classifier_refuses_a_pooler_with_narrow_embeddings(sizes):
    with pytest.raises(bk.InputError, match=r"embeddings narrower than its hidden width.*pooler=False"):
        bk.BertClassifier(bk.BertEncoder(bk.BertConfig(**{**sizes, **ONE_LAYER}, embedding_dim=22)), 4)


@pytest.mark.parametrize(
    ("hidden_act", "head_act", "embedding_dim"),
    [("relu", "gelu", 30), ("relu", None, 22), *slow(("relu", None, 30), ("gelu_tanh", None, 22))],
)
def test_a_masked_lm_head_computes_the_same_in_transformers(
    hidden_act, head_act, embedding_dim, make_batch, perturb, run, open_twin, run_twin, sizes, tmp_path
):
    config = bk.BertConfig(**{**sizes, **ONE_LAYER}, hidden_act=hidden_act, embedding_dim=embedding_dim)
    model = bk.BertMaskedLM(bk.BertEncoder(config, pooler=False), head_act=head_act)
    perturb(model)
    bk.save(model, None, tmp_path / "ours")
    architecture = json.loads((tmp_path / "ours" / "config.json").read_text())["architectures"][0]
    twin = open_twin(tmp_path / "ours", architecture)
    assert_equal_outputs(run(model, make_batch()), run_twin(twin, make_batch()), {"mlm_logits": "logits"})


@pytest.mark.parametrize("kind", ["token_classifier", *slow("question_answerer", "masked_lm")])
def test_a_pooler_that_the_head_does_not_use_is_not_saved(kind, make_model, sizes, open_twin, tmp_path):
    without = make_model(kind, **ONE_LAYER)
    settings = {key: value for key, value in without.get_config().items() if key in ("num_classes", "labels")}
    model = type(without)(bk.BertEncoder(bk.BertConfig(**{**sizes, **ONE_LAYER})), **settings)
    bk.save(model, None, tmp_path / "ours")
    open_twin(tmp_path / "ours", json.loads((tmp_path / "ours/config.json").read_text())["architectures"][0])


def test_transformers_loads_sinusoidal_positions(shared_model, make_batch, run, open_twin, run_twin, saved_folder):
    model = shared_model("encoder", position_type="sinusoidal", **ONE_LAYER)
    twin = open_twin(saved_folder("encoder", position_type="sinusoidal", **ONE_LAYER), "BertModel")
    assert_equal_outputs(run(model, make_batch()), run_twin(twin, make_batch()), ENCODER_OUTPUTS)


def test_positions_that_transformers_trained_are_not_lost(saved_folder, make_batch, run, open_twin, run_twin, tmp_path):
    # in transformers the positions are an ordinary table, which fine-tuning changes
    twin = open_twin(saved_folder("encoder", position_type="sinusoidal", **ONE_LAYER), "BertModel")
    twin.embeddings.position_embeddings.weight.data += 0.1
    twin.save_pretrained(tmp_path / "theirs")
    try:
        model = bk.load(tmp_path / "theirs")
    except bk.InputError as error:
        assert "position" in str(error)  # noqa: PT017
        return
    assert_equal_outputs(run(model, make_batch()), run_twin(twin, make_batch()), ENCODER_OUTPUTS)


def test_transformers_loads_the_generator_alone(make_model, make_batch, run, open_twin, run_twin, tmp_path):
    model = make_model("electra_with_generator", **ONE_LAYER)
    bk.save(model, None, tmp_path / "ours")
    discriminator = open_twin(tmp_path / "ours", "ElectraForPreTraining")
    generator = open_twin(tmp_path / "ours" / "generator", "ElectraForMaskedLM")
    batch = make_batch()
    wanted = run(model, batch)["replaced_logits"]
    np.testing.assert_allclose(run_twin(discriminator, batch)["logits"], wanted, rtol=0, atol=TOLERANCE)
    batch = make_batch("token_ids", "padding_mask", "segment_ids", "mask_positions")
    wanted = run(model, batch)["mlm_logits"]
    logits = run_twin(generator, batch)["logits"]
    logits = np.take_along_axis(logits, batch["mask_positions"][:, :, None], axis=1)
    np.testing.assert_allclose(logits, wanted, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("class_name", ["BertForSequenceClassification", *slow("BertForTokenClassification")])
def test_labels_are_preserved_both_ways(class_name, make_twin, open_twin, tmp_path):
    names = {0: "LOC", 1: "né", 2: "O"}
    numbers = {name: index for index, name in names.items()}
    twin = make_twin(class_name, id2label=names, label2id=numbers, **ONE_TWIN_LAYER)
    twin.save_pretrained(tmp_path / "theirs")
    model = bk.load(tmp_path / "theirs")
    assert list(model.labels) == list(names.values())
    bk.save(model, None, tmp_path / "ours")
    config = open_twin(tmp_path / "ours", class_name).config
    assert config.id2label == names
    assert config.label2id == twin.config.label2id


@pytest.mark.parametrize("kind", ["multi_label", *slow("single_label", "regression")])
def test_the_problem_is_preserved_both_ways(kind, make_twin, open_twin, tmp_path):
    twin = make_twin(TWINS[kind].class_name, **ONE_TWIN_LAYER, **TWINS[kind].changes)
    twin.save_pretrained(tmp_path / "theirs")
    model = bk.load(tmp_path / "theirs")
    assert model.problem == kind
    bk.save(model, None, tmp_path / "ours")
    assert open_twin(tmp_path / "ours", TWINS[kind].class_name).config.problem_type == twin.config.problem_type


@pytest.mark.parametrize(("num_labels", "problem"), [(1, "regression"), (2, "single_label"), (4, "single_label")])
def test_a_missing_problem_type_means_the_same_as_in_transformers(
    num_labels, problem, make_twin, run_twin, make_batch, run, tmp_path
):
    # with 2 labels transformers omits `id2label` in config.json, so only the tensors have the size
    twin = make_twin("BertForSequenceClassification", num_labels=num_labels, **ONE_TWIN_LAYER)
    twin.save_pretrained(tmp_path / "theirs")
    model = bk.load(tmp_path / "theirs")
    assert model.problem == problem
    assert_equal_outputs(run(model, make_batch()), run_twin(twin, make_batch()), {"logits": "logits"})


def test_files_with_the_published_names_load(make_twin, run_twin, make_batch, run, edit_tensors, edit_config, tmp_path):
    # google-bert/bert-base-uncased: gamma and beta, a "bert." prefix, the buffer position_ids, and the
    # pooler and next-sentence head although its config says BertForMaskedLM
    twin = make_twin("BertForPreTraining")
    twin.save_pretrained(tmp_path)
    edit_config(tmp_path, architectures=["BertForMaskedLM"])
    edit_tensors(tmp_path, published_names)
    model = bk.load(tmp_path)
    assert type(model).__name__ == "BertMaskedLM"
    theirs = run_twin(twin, make_batch())
    assert_equal_outputs(run(model, make_batch()), theirs, {"mlm_logits": "prediction_logits"})


def published_names(tensors: dict) -> dict:
    """Rename tensors as in the files of 2018 to 2020."""
    for new, old in PUBLISHED_NAMES.items():
        tensors = {name.replace(new, old): value for name, value in tensors.items()}
    tensors["bert.embeddings.position_ids"] = np.arange(17, dtype="int64")[None]
    tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"].copy()
    tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"].copy()
    return tensors


def test_an_encoder_file_can_have_the_prefix(make_twin, run_twin, make_batch, run, edit_tensors, tmp_path):
    twin = make_twin("BertModel", **ONE_TWIN_LAYER)
    twin.save_pretrained(tmp_path)
    edit_tensors(tmp_path, lambda tensors: {f"bert.{name}": value for name, value in tensors.items()})
    assert_equal_outputs(run(bk.load(tmp_path), make_batch()), run_twin(twin, make_batch()), ENCODER_OUTPUTS)


def test_a_file_with_a_head_can_lack_the_prefix(make_twin, run_twin, make_batch, run, edit_tensors, tmp_path):
    twin = make_twin("BertForTokenClassification", num_labels=4, **ONE_TWIN_LAYER)
    twin.save_pretrained(tmp_path)
    edit_tensors(tmp_path, lambda tensors: {name.removeprefix("bert."): value for name, value in tensors.items()})
    assert_equal_outputs(run(bk.load(tmp_path), make_batch()), run_twin(twin, make_batch()), {"logits": "logits"})


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_files_load_as_float32(dtype, make_twin, make_batch, run_twin, run, open_twin, tmp_path):
    import torch

    make_twin("BertModel", **ONE_TWIN_LAYER).to(getattr(torch, dtype)).save_pretrained(tmp_path)
    twin = open_twin(tmp_path, "BertModel", dtype=torch.float32)
    assert_equal_outputs(run(bk.load(tmp_path), make_batch()), run_twin(twin, make_batch()), ENCODER_OUTPUTS)


def test_sharded_weights_load(make_twin, make_batch, run_twin, run, tmp_path):
    twin = make_twin("BertModel")
    twin.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    assert_equal_outputs(run(bk.load(tmp_path), make_batch()), run_twin(twin, make_batch()), ENCODER_OUTPUTS)


def test_an_untied_output_matrix_is_refused(make_twin, tmp_path):
    make_twin("BertForMaskedLM", tie_word_embeddings=False).save_pretrained(tmp_path)
    with pytest.raises(bk.InputError, match=r"tie_word_embeddings|decoder"):
        bk.load(tmp_path)


@pytest.mark.parametrize("kind", slow_except(CLASS_NAMES, quick=["pretrainer", "masked_lm", "electra"]))
def test_our_config_names_the_class_of_transformers(kind, saved_folder):
    config = json.loads((saved_folder(kind, **ONE_LAYER) / "config.json").read_text(encoding="utf-8"))
    assert config["architectures"] == [CLASS_NAMES[kind]]
    assert config["model_type"] == ("electra" if CLASS_NAMES[kind].startswith("Electra") else "bert")


def assert_equal_outputs(ours: dict, theirs: dict, names: dict) -> None:
    """Check that every output has the same shape and, within the tolerance, the same values."""
    for our_name, their_name in names.items():
        assert np.shape(ours[our_name]) == np.shape(theirs[their_name]), our_name
        np.testing.assert_allclose(
            ours[our_name], theirs[their_name], rtol=0, atol=TOLERANCE, err_msg=f"{our_name} against {their_name}"
        )
