"""The losses of a `Distiller` equal those that PyTorch computes from the same two models in transformers."""

import keras
import numpy as np
import pytest

import bert_keras as bk
from bert_keras.architectures.distillation import NO_LABEL, Distiller, map_layers
from bert_keras.errors import InputError
from tests.marks import slow_except

SIZES = {"vocabulary_size": 61, "num_heads": 2, "intermediate_dim": 24, "max_sequence_length": 16}
TOLERANCE = 2e-5  # of a loss of about 20; measured: 2e-6
LABELS = np.array([1, 0, 2, NO_LABEL])
# of the loss on labels, of hidden states and of attention
WEIGHTS = {
    "outputs": (0.3, 0.0, 0.0),
    "hidden states": (0.3, 0.7, 0.0),
    "attention": (0.0, 0.0, 0.9),
    "all": (0.4, 0.5, 0.6),
}


def make_classifier(perturb, num_layers, hidden_dim=16, **sizes):
    config = bk.BertConfig(**{**SIZES, "num_layers": num_layers, "hidden_dim": hidden_dim, **sizes})
    model = bk.BertClassifier(bk.BertEncoder(config), num_classes=3)
    perturb(model)
    return model


@pytest.fixture(scope="module")
def features():
    rng = np.random.default_rng(0)
    mask = (np.arange(9) < np.array([9, 5, 7, 3])[:, None]).astype("int32")
    return {"token_ids": rng.integers(5, 61, mask.shape).astype("int32") * mask, "padding_mask": mask}


@pytest.fixture(scope="module")
def pair(perturb):
    """A student of two layers and a teacher of four."""
    return make_classifier(perturb, 2), make_classifier(perturb, 4)


@pytest.fixture(scope="module")
def torch_outputs(pair, features, tmp_path_factory):
    """The outputs of student and teacher in transformers."""
    import torch
    import transformers

    outputs = []
    for number, model in enumerate(pair):
        folder = tmp_path_factory.mktemp("torch") / str(number)
        bk.save(model, None, folder)
        theirs = transformers.BertForSequenceClassification.from_pretrained(folder, attn_implementation="eager").eval()
        ids, mask = (torch.tensor(features[name]).long() for name in ("token_ids", "padding_mask"))
        with torch.no_grad():
            outputs.append(theirs(ids, mask, output_hidden_states=True, output_attentions=True))
    return outputs


def compute_in_torch(own, theirs, features, weights, temperature):
    """The weighted sum of the four losses, from the outputs of transformers."""
    import torch

    label, hidden, attention = weights
    mask = torch.tensor(features["padding_mask"]).float()
    soft = torch.nn.functional.kl_div(
        torch.log_softmax(own.logits / temperature, -1),
        torch.softmax(theirs.logits / temperature, -1),
        reduction="batchmean",
    )
    total = (1 - label) * soft * temperature**2
    total += label * torch.nn.functional.cross_entropy(own.logits[:3], torch.tensor(LABELS[:3]))
    squares = [
        (own.hidden_states[layer] - theirs.hidden_states[other]).pow(2).mean(-1)
        for layer, other in ((0, 0), (1, 2), (2, 4))
    ]
    total += hidden * (torch.stack(squares).mean(0) * mask).sum() / mask.sum()
    divergences = [
        (theirs.attentions[other] * (theirs.attentions[other].log() - own.attentions[layer].log()).nan_to_num())
        .sum(-1)
        .mean(1)
        for layer, other in ((0, 1), (1, 3))
    ]
    return total + attention * (torch.stack(divergences).mean(0) * mask).sum() / mask.sum()


@pytest.mark.parametrize("compared", slow_except(WEIGHTS, quick=["outputs", "all"]))
def test_the_losses_equal_those_of_pytorch(compared, pair, features, torch_outputs):
    label, hidden, attention = weights = WEIGHTS[compared]
    distiller = Distiller(*pair, temperature=1.7, label_weight=label, hidden_weight=hidden, attention_weight=attention)
    distiller.compile("sgd", run_eagerly=True)
    found = distiller.evaluate(features, LABELS, verbose=0, return_dict=True)["loss"]
    assert found == pytest.approx(float(compute_in_torch(*torch_outputs, features, weights, 1.7)), abs=TOLERANCE)


def test_outputs_given_with_the_labels_equal_those_of_the_teacher(pair, features, run):
    student, teacher = pair
    expected = Distiller(student, teacher)
    given = Distiller(student, None)
    labels = {"labels": LABELS, "teacher_logits": np.asarray(run(teacher, features)["logits"])}
    for model in (expected, given):
        model.compile("sgd", run_eagerly=True)
    theirs = expected.evaluate(features, LABELS, verbose=0)
    ours = given.evaluate(features, labels, verbose=0)
    assert ours[0] == pytest.approx(theirs[0], abs=1e-6)


def test_only_the_student_and_its_projection_are_trained_and_stored(perturb):
    student, teacher = make_classifier(perturb, 2, hidden_dim=8), make_classifier(perturb, 4)
    distiller = Distiller(student, teacher, hidden_weight=1.0)
    own = {id(one) for one in [*student.variables, *distiller.hidden_projection.variables]}
    assert {id(one) for one in distiller.variables} == own
    assert len(distiller.trainable_variables) == len(student.trainable_variables) + 2


@pytest.mark.parametrize("unpad", [False, True])
def test_a_step_changes_the_student_and_not_the_teacher(unpad, perturb, features):
    student, teacher = make_classifier(perturb, 2, hidden_dim=8), make_classifier(perturb, 4)
    before = [[np.array(weight) for weight in model.weights] for model in (student, teacher)]
    distiller = Distiller(student, teacher, hidden_weight=1.0)
    distiller.compile(keras.optimizers.SGD(0.1), unpad=unpad, run_eagerly=True)
    distiller.train_on_batch(features, LABELS)
    changed = [
        any(np.any(one != np.array(weight)) for one, weight in zip(values, model.weights, strict=True))
        for values, model in zip(before, (student, teacher), strict=True)
    ]
    assert changed == [True, False]


def test_leaving_out_padding_changes_no_loss(perturb, features):
    pair = [make_classifier(perturb, layers, hidden_dropout_rate=0, attention_dropout_rate=0) for layers in (2, 4)]
    losses = []
    for unpad in (False, True):
        distiller = Distiller(*pair, hidden_weight=1.0, attention_weight=1.0)
        distiller.compile(keras.optimizers.SGD(0.0), unpad=unpad, run_eagerly=True)
        losses.append(distiller.train_on_batch(features, LABELS)[0])
    assert losses[0] == pytest.approx(losses[1], abs=TOLERANCE)


def test_the_student_reads_ids_of_a_part_of_the_vocabulary(pair, perturb, features):
    student = make_classifier(perturb, 2, vocabulary_size=7)
    teacher_ids = np.array([0, 9, 11, 30, 31, 40, 60])
    small = {**features, "token_ids": features["token_ids"] % 7}
    distiller = Distiller(student, pair[1], teacher_ids=teacher_ids)
    taught = distiller(small)["teacher_logits"]
    whole = {**features, "token_ids": teacher_ids[small["token_ids"]].astype("int32")}
    np.testing.assert_allclose(taught, pair[1](whole)["logits"], atol=1e-6)


@pytest.mark.parametrize(
    ("num_layers", "num_teacher_layers", "expected"), [(3, 6, [2, 4, 6]), (1, 6, [6]), (4, 2, [1, 1, 2, 2])]
)
def test_layers_learn_from_layers_at_equal_distances(num_layers, num_teacher_layers, expected):
    assert map_layers(num_layers, num_teacher_layers) == expected


def test_weights_and_labels_have_the_shapes_that_keras_accepts(pair, features, run):
    student, teacher = pair
    logits = np.asarray(run(teacher, features)["logits"])
    weights = np.array([1.0, 2.0, 0.0, 3.0], "float32")
    losses = []
    for labels in (LABELS, LABELS[:, None]):
        given = {"labels": labels, "teacher_logits": logits}
        for model, y in ((Distiller(student, teacher), labels), (Distiller(student, None), given)):
            model.compile("sgd", run_eagerly=True)
            losses.append(model.evaluate(features, y, sample_weight=weights, verbose=0)[0])
    assert losses == pytest.approx([losses[0]] * 4, abs=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 0.0}, r"temperature is 0\.0; expected a number above 0"),
        ({"label_weight": 1.5}, r"label_weight is 1\.5; expected a number from 0 to 1"),
        ({"hidden_weight": -1.0}, r"hidden_weight is -1\.0; expected a number from 0 on"),
        ({"attention_weight": float("nan")}, "attention_weight is nan; expected a number from 0 on"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message, pair):
    with pytest.raises(InputError, match=message):
        Distiller(*pair, **settings)


def test_labels_without_the_outputs_of_a_teacher_are_refused(pair, features):
    distiller = Distiller(pair[0], None)
    distiller.compile("sgd", run_eagerly=True)
    with pytest.raises(InputError, match="the labels come without teacher_logits, and the Distiller has no teacher"):
        distiller.train_on_batch(features, LABELS)


def test_vocabularies_and_widths_of_vectors_are_compared(pair, perturb):
    with pytest.raises(InputError, match=r"the student has 7 tokens and the teacher 61; .* pass teacher_ids"):
        Distiller(make_classifier(perturb, 2, vocabulary_size=7), pair[1])
    narrow = make_classifier(perturb, 2, hidden_dim=8)
    with pytest.raises(InputError, match="a BertEmbedder with 8 outputs and the teacher a BertEmbedder with 16"):
        Distiller(bk.BertEmbedder(narrow.encoder), bk.BertEmbedder(pair[1].encoder))


def test_models_that_do_not_fit_are_refused(pair, perturb):
    student, teacher = pair
    with pytest.raises(InputError, match="the student has 4 heads per layer and the teacher 2; expected the same"):
        Distiller(make_classifier(perturb, 2, num_heads=4), teacher, attention_weight=0.1)
    with pytest.raises(InputError, match="a BertClassifier with 2 outputs"):
        Distiller(bk.BertClassifier(student.encoder, num_classes=2), teacher)
    with pytest.raises(InputError, match="no teacher to compare with"):
        Distiller(student, None, hidden_weight=0.1)
    with pytest.raises(InputError, match=r"save distiller\.student"):
        Distiller(student, teacher).get_config()
