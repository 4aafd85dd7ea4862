"""Students equal transformers models with the same layers; projected embeddings are scikit-learn's."""

import dataclasses

import numpy as np
import pytest
import sklearn.decomposition

import bert_keras as bk
from bert_keras.checkpoints.building import build_head, build_model
from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.checkpoints.students import choose_layers, compute_principal_components, cut_layers, resize
from bert_keras.errors import InputError

CONFIG = bk.BertConfig(
    vocabulary_size=61, num_layers=5, num_heads=2, hidden_dim=16, intermediate_dim=24, max_sequence_length=12
)


@pytest.fixture(scope="module")
def teacher(perturb, tmp_path_factory):
    """A checkpoint of a classifier with five layers."""
    model = bk.BertClassifier(bk.BertEncoder(CONFIG), num_classes=3)
    perturb(model)
    folder = tmp_path_factory.mktemp("teacher") / "teacher"
    bk.save(model, None, folder)
    return read_checkpoint(folder)


def test_a_cut_model_equals_transformers_with_the_same_layers(teacher):
    import torch
    import transformers

    layers = choose_layers(3, 5)
    assert layers == [0, 2, 4]
    ours = build_model(cut_layers(teacher, layers))
    theirs = transformers.BertForSequenceClassification.from_pretrained(teacher.source).eval()
    theirs.bert.encoder.layer = torch.nn.ModuleList(theirs.bert.encoder.layer[layer] for layer in layers)
    ids = np.random.default_rng(0).integers(5, 61, (3, 7)).astype("int32")
    found = ours({"token_ids": ids, "padding_mask": np.ones_like(ids)})["logits"]
    with torch.no_grad():
        expected = theirs(torch.tensor(ids).long()).logits
    np.testing.assert_allclose(found, expected.numpy(), atol=2e-5)  # measured: 2e-6


@pytest.mark.parametrize(
    ("num_layers", "num_teacher_layers", "expected"),
    [(6, 12, [0, 2, 4, 7, 9, 11]), (1, 6, [0]), (2, 6, [0, 5]), (3, 6, [0, 3, 5]), (6, 6, [0, 1, 2, 3, 4, 5])],
)
def test_the_layers_that_are_kept_are_those_of_distilbert(num_layers, num_teacher_layers, expected):
    assert choose_layers(num_layers, num_teacher_layers) == expected


def test_more_layers_than_the_teacher_has_are_refused():
    with pytest.raises(InputError, match="num_layers is 7 and the teacher has 6 layers; expected at most that many"):
        choose_layers(7, 6)


def test_narrow_embeddings_are_the_principal_components_of_the_teacher(teacher):
    config = dataclasses.replace(CONFIG, num_layers=2, hidden_dim=6, embedding_dim=6)
    student = build_head(bk.BertClassifier, resize(teacher, config), {"num_classes": 3})
    table = teacher.weights["encoder.embeddings.token.embeddings"].read()
    components = sklearn.decomposition.PCA(6, svd_solver="full").fit(table).components_.T
    ours = np.array(student.encoder.embeddings.token.embeddings)
    expected = table @ components
    signs = np.sign((ours * expected).sum(axis=0))  # a direction and its opposite are the same component
    np.testing.assert_allclose(ours, expected * signs, atol=1e-4)
    positions = teacher.weights["encoder.embeddings.position.embeddings"].read() @ components * signs
    np.testing.assert_allclose(student.encoder.embeddings.position.embeddings, positions, atol=1e-4)


def test_equal_widths_copy_embeddings_pooler_and_head(teacher):
    config = dataclasses.replace(CONFIG, num_layers=2, intermediate_dim=40)
    student, whole = build_model(resize(teacher, config)), build_model(teacher)
    for part in ("embeddings", "pooler"):
        ours, theirs = (getattr(model.encoder, part).weights for model in (student, whole))
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(student.classifier.kernel, whole.classifier.kernel)


def test_new_weights_follow_bert_and_the_seed(teacher):
    config = dataclasses.replace(CONFIG, hidden_dim=64, embedding_dim=64, intermediate_dim=256, num_layers=1)
    first, second, other = (
        build_head(bk.BertClassifier, resize(teacher, config, seed=seed), {"num_classes": 3}) for seed in (0, 0, 1)
    )
    kernel = np.array(first.encoder.blocks[0].intermediate.kernel)
    assert np.abs(kernel).max() <= 2 * config.initializer_range
    # the deviation of a normal cut at two deviations is 0.88 of the whole one
    assert kernel.std() == pytest.approx(0.88 * config.initializer_range, rel=0.02)
    np.testing.assert_array_equal(kernel, second.encoder.blocks[0].intermediate.kernel)
    assert np.any(kernel != np.array(other.encoder.blocks[0].intermediate.kernel))
    assert np.all(np.array(first.encoder.blocks[0].attention_norm.gamma) == 1)


def test_wider_embeddings_keep_the_dot_products(teacher):
    config = dataclasses.replace(CONFIG, hidden_dim=20, embedding_dim=20, num_layers=1)
    table = resize(teacher, config).weights["encoder.embeddings.token.embeddings"].read()
    whole = teacher.weights["encoder.embeddings.token.embeddings"].read()
    np.testing.assert_allclose(table @ table.T, whole @ whole.T, atol=1e-4)


def test_the_signs_of_principal_components_do_not_depend_on_the_machine(monkeypatch):
    values = np.random.default_rng(0).normal(size=(40, 6))
    expected = compute_principal_components(values, 4)
    eigh = np.linalg.eigh
    monkeypatch.setattr(np.linalg, "eigh", lambda matrix: (eigh(matrix)[0], -eigh(matrix)[1]))
    np.testing.assert_array_equal(compute_principal_components(values, 4), expected)
    assert (expected[np.abs(expected).argmax(axis=0), range(4)] > 0).all()
