"""Entity scores equal seqeval."""

import random

import pytest
import seqeval.metrics
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.errors import InputError
from bert_keras.metrics.tag_schemes import entity_scores

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "E-LOC", "S-LOC", "B-PER-LOC", "B", "I"]
TRUTH = ["B-PER I-PER O B-LOC B-LOC".split(), "O B-ORG O".split()]
PREDICTED = ["B-PER I-PER O B-LOC I-LOC".split(), "B-MISC B-ORG I-ORG".split()]


@st.composite
def tagged_corpora(draw):
    """Draw true and predicted tags of sentences; at least a fifth of the predicted tags are correct on average."""
    rng, same_rate = draw(st.randoms(use_true_random=False)), draw(st.sampled_from([0.2, 0.8, 1.0]))
    tags = draw(st.lists(st.sampled_from(TAGS), min_size=1, max_size=len(TAGS), unique=True))
    truth = [rng.choices(tags, k=rng.randrange(9)) for _ in range(draw(st.integers(1, 8)))]
    return truth, [[tag if rng.random() < same_rate else rng.choice(tags) for tag in sentence] for sentence in truth]


def seqeval_scores(truth, predicted) -> dict[str, float]:
    names = {"precision": "precision_score", "recall": "recall_score", "f1": "f1_score"}
    return {
        name: getattr(seqeval.metrics, function)(truth, predicted, zero_division=0) for name, function in names.items()
    }


@settings(max_examples=80, deadline=None)
@given(tagged_corpora())
def test_scores_equal_seqeval(corpora):
    assert entity_scores(*corpora) == pytest.approx(seqeval_scores(*corpora), rel=0, abs=1e-15)  # measured: 1.1e-16


def test_hand_computed_scores():
    # correct: one PER; predicted: PER, LOC, MISC, ORG; true: PER, LOC, LOC, ORG
    assert entity_scores(TRUTH, PREDICTED) == {"precision": 1 / 4, "recall": 1 / 4, "f1": 1 / 4}


def test_entities_end_with_their_sentence():
    assert entity_scores([["B-X"], ["I-X"]], [["B-X"], ["I-X"]]) == {"precision": 1, "recall": 1, "f1": 1}


def test_scores_are_zero_without_entities():
    assert entity_scores([["O"]], [["O"]]) == {"precision": 0, "recall": 0, "f1": 0}


def test_truth_and_predictions_can_use_different_schemes():
    assert entity_scores([["S-X", "B-Y", "E-Y"]], [["I-X", "I-Y", "I-Y"]])["f1"] == 1


def test_order_of_sentences_does_not_change_the_scores():
    rng = random.Random(0)
    pairs = [([rng.choice(TAGS) for _ in range(7)], [rng.choice(TAGS) for _ in range(7)]) for _ in range(9)]
    assert entity_scores(*zip(*pairs, strict=True)) == entity_scores(*zip(*pairs[::-1], strict=True))


@pytest.mark.parametrize(
    ("truth", "predicted", "message"),
    [
        ([["O"]], [["O"], ["O"]], r"there are 2 predictions for 1 sentences"),
        ([], [], r"there are no sentences to score"),
        ([["O"], ["O", "O"]], [["O"], ["O"]], r"sentence 1 has 2 words and 1 predicted tags; .* use O"),
        ([["O", "NOUN"]], [["O", "O"]], r"the tag of word 1 is 'NOUN'"),
    ],
)
def test_invalid_tags_are_an_error(truth, predicted, message):
    with pytest.raises(InputError, match=message):
        entity_scores(truth, predicted)
