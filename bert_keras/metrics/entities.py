"""Scores of entities: an entity is correct if its label and both ends are correct.

This is how the script `conlleval` (Tjong Kim Sang and Buchholz, 2000) scored CoNLL-2000 and CoNLL-2003.
"""

from collections.abc import Sequence

from bert_keras.errors import InputError
from bert_keras.metrics.prediction_counts import check_counts
from bert_keras.metrics.tag_schemes import find_entities


def entity_scores(truth: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, float]:
    """Compute precision, recall and F1 over the entities of all labels.

    Args:
        truth: the true tags of each sentence, in a scheme that `find_entities` accepts.
        predicted: the predicted tags of each sentence.

    Returns:
        `precision`: the share of predicted entities that are correct; `recall`: the share of true entities that are
        predicted; `f1`: their harmonic mean. Each is 0 if its denominator is 0.

    Raises:
        InputError: the numbers of sentences or tags differ, a tag is not an entity tag, or there are no sentences.

    Example:
        >>> entity_scores([["B-PER", "O", "B-LOC"]], [["B-PER", "O", "O"]])["recall"]
        0.5
    """
    check_counts(len(truth), len(predicted), what="sentences")
    num_correct = num_predicted = num_true = 0
    for number, (true_tags, predicted_tags) in enumerate(zip(truth, predicted, strict=True)):
        if len(true_tags) != len(predicted_tags):
            raise InputError(
                f"sentence {number} has {len(true_tags)} words and {len(predicted_tags)} predicted tags; expected one "
                "tag per word: use O for words that the model did not see"
            )
        true_entities, predicted_entities = set(find_entities(true_tags)), set(find_entities(predicted_tags))
        num_correct += len(true_entities & predicted_entities)
        num_predicted += len(predicted_entities)
        num_true += len(true_entities)
    return {
        "precision": num_correct / num_predicted if num_predicted else 0.0,
        "recall": num_correct / num_true if num_true else 0.0,
        "f1": 2 * num_correct / (num_predicted + num_true) if num_predicted + num_true else 0.0,
    }
