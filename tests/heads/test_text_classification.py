"""Predictions and training of text classifiers, compared with transformers, scikit-learn and torch."""

import dataclasses
import json

import numpy as np
import pytest
from sklearn import metrics
from sklearn.utils import class_weight

from bert_keras.engines.keras_engine import KerasEngine
from bert_keras.engines.predictor import Predictor
from bert_keras.engines.sequence_runner import SequenceRunner
from bert_keras.errors import InputError
from bert_keras.heads.classify.task import TextClassification, TextExample

TOLERANCE = 2e-6  # measured: 3.9e-7, for probabilities
LABELS = ("angry", "calm", "glad", "sad")
TEXTS = [
    "A naïve café owner in Zürich paid 1,234.56 for 3 coffee-machines!",
    "unaffable antidisestablishmentarianism",
    "",
    " Tabs\tand\nnew lines — and “quotes”. ",
    "東京は日本の首都です。",
    "so 😀 happy 👨‍👩‍👧",
    "cafe\u0301 \x07 \u200b",
    "word " * 70,
]
LONG = " ".join(f"number {index} is followed by another one," for index in range(20))


@pytest.fixture(scope="module")
def single(save_task):
    """Single-label classifier: (predictor, folder)."""
    return save_task(TextClassification(labels=LABELS))


@pytest.fixture(scope="module")
def multi_label(save_task):
    """Multi-label classifier: (predictor, folder)."""
    return save_task(TextClassification(problem="multi_label", labels=LABELS))


@pytest.fixture(scope="module")
def regression(save_task):
    """Regression model: (predictor, folder)."""
    return save_task(TextClassification(problem="regression"))


def make_inputs(pairs):
    """Return the texts, or text pairs, in our format and in that of transformers."""
    if not pairs:
        return TEXTS, TEXTS
    # transformers ignores a second text of ""; we encode it as an empty text, as both do with " "
    text_pairs = [(TEXTS[0], TEXTS[3]), (TEXTS[4], TEXTS[1]), ("", TEXTS[5]), (TEXTS[6], " ")]
    return text_pairs, [{"text": first, "text_pair": second} for first, second in text_pairs]


@pytest.mark.parametrize("pairs", [False, True], ids=["texts", "pairs"])
def test_class_probabilities_equal_transformers(pairs, single, their_pipeline):
    predictor, folder = single
    ours, theirs = make_inputs(pairs)
    answers = predictor(ours)
    expected = their_pipeline("text-classification", folder)(theirs, top_k=None)
    assert len({answer["label"] for answer in answers}) > 1
    for answer, ranked in zip(answers, expected, strict=True):
        assert answer["label"] == ranked[0]["label"]
        probabilities = {one["label"]: one["score"] for one in ranked}
        np.testing.assert_allclose(
            answer["probabilities"], [probabilities[name] for name in LABELS], rtol=0, atol=TOLERANCE
        )
        assert answer["probability"] == max(answer["probabilities"])
        best = predictor.task.to_json(answer, 3)["best"]
        assert [one["label"] for one in best] == [one["label"] for one in ranked[:3]]


@pytest.mark.parametrize("pairs", [False, True], ids=["texts", "pairs"])
def test_predicted_label_sets_equal_transformers(pairs, multi_label, their_pipeline):
    predictor, folder = multi_label
    ours, theirs = make_inputs(pairs)
    answers = predictor(ours)
    expected = their_pipeline("text-classification", folder, function_to_apply="sigmoid")(theirs, top_k=None)
    for answer, ranked in zip(answers, expected, strict=True):
        probabilities = {one["label"]: one["score"] for one in ranked}
        assert answer["labels"] == [name for name in LABELS if probabilities[name] >= 0.5]
        np.testing.assert_allclose(
            answer["probabilities"], [probabilities[name] for name in LABELS], rtol=0, atol=TOLERANCE
        )
    assert len({len(answer["labels"]) for answer in answers}) > 1


def test_regression_values_equal_transformers(regression, their_pipeline):
    predictor, folder = regression
    expected = their_pipeline("text-classification", folder)(TEXTS, function_to_apply="none")
    values = [answer["value"] for answer in predictor(TEXTS)]
    np.testing.assert_allclose(values, [one["score"] for one in expected], rtol=0, atol=1e-5)  # measured: 1.4e-6


@pytest.mark.parametrize("pairs", [False, True], ids=["texts", "pairs"])
def test_windowed_text_uses_the_mean_logits_of_its_windows(pairs, single, their_tokenizer, their_model):
    predictor, folder = single
    windows = dataclasses.replace(predictor.task, max_sequence_length=40, window_overlap=9)
    [answer] = Predictor(predictor.model, predictor.tokenizer, windows)([(TEXTS[0], LONG) if pairs else LONG])
    cut = their_tokenizer(
        *([TEXTS[0], LONG] if pairs else [LONG]),
        max_length=40,
        stride=9,
        truncation="only_second" if pairs else True,
        return_overflowing_tokens=True,
        padding=True,
    )
    names = ("input_ids", "attention_mask", "token_type_ids")
    import torch

    logits = their_model(folder, "BertForSequenceClassification")(**{name: cut[name] for name in names})["logits"]
    assert len(logits) > 4
    expected = torch.tensor(logits).double().mean(dim=0).softmax(dim=0)
    np.testing.assert_allclose(answer["probabilities"], expected, rtol=0, atol=TOLERANCE)


def make_examples():
    """Return examples with four labels and texts of one to nine windows."""
    texts = [" ".join(LONG.split()[: 6 * index]) for index in range(1, 24, 3)]
    return [TextExample(text, None, LABELS[index % 3 % 2 + index % 2 * 2]) for index, text in enumerate(texts)]


def test_window_weights_of_a_text_sum_to_one(tokenizer):
    task = TextClassification(labels=LABELS, max_sequence_length=24, window_overlap=5)
    examples = make_examples()
    labelled = task.add_labels(task.encode(tokenizer, examples), examples)
    assert np.bincount(labelled.sequences.examples).tolist() == [1, 2, 3, 4, 5, 7, 8, 9]
    np.testing.assert_allclose(
        np.bincount(labelled.sequences.examples, labelled.weights), 1, rtol=4e-7
    )  # measured: 4.5e-8
    assert [LABELS[label] for label in labelled.labels] == [
        examples[index].label for index in labelled.sequences.examples
    ]


def test_texts_in_one_window_have_no_weights(tokenizer):
    task = TextClassification(labels=LABELS)
    examples = make_examples()
    assert task.add_labels(task.encode(tokenizer, examples), examples).weights is None


def test_balanced_weights_equal_scikit_learn_and_loss_equals_torch(build, tokenizer):
    task = TextClassification(labels=LABELS, class_weights="balanced")
    examples = make_examples()
    labelled = task.add_labels(task.encode(tokenizer, examples), examples)
    names = [example.label for example in examples]
    weights = class_weight.compute_class_weight("balanced", classes=np.array(LABELS), y=names)
    assert len(set(weights)) > 2
    np.testing.assert_allclose(labelled.weights, weights[labelled.labels], rtol=2e-7)  # measured: 3.0e-8

    model = build(task)
    model.compile("sgd", task.loss())
    [[*batch]] = labelled.batches(len(examples))
    loss = model.test_on_batch(*batch, return_dict=True)["loss"]
    logits = SequenceRunner(KerasEngine(model), is_token_level=False)(labelled.sequences)["logits"]
    import torch

    torch_loss = torch.nn.CrossEntropyLoss(weight=torch.tensor(weights, dtype=torch.float32))
    expected = torch_loss(torch.tensor(logits), torch.tensor(labelled.labels).long())
    np.testing.assert_allclose(loss, expected, rtol=7e-7)  # measured: 7.8e-8


def test_window_weights_of_a_text_sum_to_its_balanced_weight(tokenizer):
    task = TextClassification(labels=LABELS, class_weights="balanced", max_sequence_length=24, window_overlap=5)
    examples = make_examples()
    labelled = task.add_labels(task.encode(tokenizer, examples), examples)
    names = [example.label for example in examples]
    expected = class_weight.compute_sample_weight("balanced", names)
    actual = np.bincount(labelled.sequences.examples, labelled.weights)
    np.testing.assert_allclose(actual, expected, rtol=4e-7)  # measured: 4.5e-8


def test_labels_have_the_shape_that_the_loss_expects(tokenizer):
    examples = [TextExample("a", None, ["sad", "calm"]), TextExample("b", None, [])]
    task = TextClassification(problem="multi_label", labels=LABELS)
    assert task.add_labels(task.encode(tokenizer, examples), examples).labels.tolist() == [[0, 1, 0, 1], [0] * 4]
    numbers = [TextExample("a", None, 2.5), TextExample("b", None, -1.0)]
    task = TextClassification(problem="regression")
    assert task.add_labels(task.encode(tokenizer, numbers), numbers).labels.tolist() == [2.5, -1.0]


def test_scores_equal_scikit_learn(single, multi_label, regression):
    rng = np.random.default_rng(3)
    truth = rng.integers(4, size=len(TEXTS))
    predictor, _ = single
    answers = predictor(TEXTS)
    examples = [TextExample(text, None, LABELS[label]) for text, label in zip(TEXTS, truth, strict=True)]
    scores = predictor.task.score(answers, examples)
    predicted = [answer["label"] for answer in answers]
    expected = [example.label for example in examples]
    assert scores["accuracy"] == metrics.accuracy_score(expected, predicted)
    probabilities = np.stack([answer["probabilities"] for answer in answers])
    loss = metrics.log_loss(truth, probabilities, labels=range(4))
    np.testing.assert_allclose(scores["loss"], loss, rtol=4e-16)  # measured: 0; the limit is two ULPs
    matrix = predictor.task.compute_confusion_matrix(answers, examples)
    np.testing.assert_array_equal(matrix, metrics.confusion_matrix(expected, predicted, labels=LABELS))

    predictor, _ = multi_label
    sets = rng.integers(2, size=(len(TEXTS), 4))
    examples = [
        TextExample(text, None, [name for name, is_set in zip(LABELS, label_set, strict=True) if is_set])
        for text, label_set in zip(TEXTS, sets, strict=True)
    ]
    answers = predictor(TEXTS)
    predicted = [[name in answer["labels"] for name in LABELS] for answer in answers]
    assert predictor.task.score(answers, examples)["micro_f1"] == metrics.f1_score(sets, predicted, average="micro")

    predictor, _ = regression
    values = rng.normal(size=len(TEXTS)).astype("float32")
    answers = predictor(TEXTS)
    examples = [TextExample(text, None, value) for text, value in zip(TEXTS, values, strict=True)]
    expected = np.corrcoef(values, [answer["value"] for answer in answers])[0, 1]
    pearson = predictor.task.score(answers, examples)["pearson"]
    np.testing.assert_allclose(pearson, expected, rtol=7e-15)  # measured: 7.4e-16


def test_answers_convert_to_json_with_the_requested_alternatives(single, multi_label, regression):
    predictor, _ = single
    answer = predictor(TEXTS)[0]
    assert json.loads(json.dumps(predictor.task.to_json(answer))) == {
        "label": answer["label"],
        "probability": answer["probability"],
    }
    best = json.loads(json.dumps(predictor.task.to_json(answer, 9)))["best"]
    assert [one["probability"] for one in best] == sorted(answer["probabilities"], reverse=True)
    predictor, _ = multi_label
    for answer in predictor(TEXTS):
        converted = json.loads(json.dumps(predictor.task.to_json(answer)))
        assert {one["label"] for one in converted["best"]} >= set(answer["labels"])
        assert len(converted["best"]) == max(1, len(answer["labels"]))
    predictor, _ = regression
    assert list(json.loads(json.dumps(predictor.task.to_json(predictor(TEXTS)[0])))) == ["value"]


def test_mix_of_texts_and_pairs_is_rejected(single):
    predictor, _ = single
    with pytest.raises(InputError, match="1 of 3 examples are single texts, and the others are pairs; expected one"):
        predictor([("a", "b"), "c", ("d", "e")])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"problem": "ranking"}, "problem is 'ranking'; expected one of single_label, multi_label, regression"),
        ({"class_weights": "none"}, "class_weights is 'none'; expected one of equal, balanced"),
        ({"class_weights": "balanced", "problem": "multi_label"}, "class weights are for single_label, .* leave them"),
    ],
)
def test_invalid_settings_are_rejected(settings, message):
    with pytest.raises(InputError, match=message):
        TextClassification(**settings)


@pytest.mark.parametrize(("problem", "label"), [("single_label", "mad"), ("multi_label", ["sad", "mad"])])
def test_unknown_label_is_rejected(problem, label, tokenizer):
    task, examples = TextClassification(problem=problem, labels=LABELS), [TextExample("a", None, label)]
    with pytest.raises(
        InputError,
        match="the label 'mad' is not one of the task's, which are 'angry', 'calm', 'glad', 'sad': correct one",
    ):
        task.add_labels(task.encode(tokenizer, examples), examples)


def test_first_of_equally_likely_classes_is_the_best():
    task = TextClassification(labels=("a", "b", "c"))
    answer = {"label": "a", "probability": 0.4, "probabilities": np.array([0.4, 0.4, 0.2])}
    assert [one["label"] for one in task.to_json(answer, 3)["best"]] == ["a", "b", "c"]
