"""Scores of entities: an entity is right if its label and both its ends are.

This is how CoNLL-2000 and CoNLL-2003 were scored, by the script `conlleval` (Tjong Kim Sang and Buchholz, 2000).
"""

import collections
from collections.abc import Sequence

from bert_keras.errors import InputError
from bert_keras.metrics.prediction_counts import check_pairs
from bert_keras.metrics.tag_schemes import find_entities


def entity_scores(truth: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, float]:
    """Returns how well the entities were found, all labels together.

    Args:
        truth: the right tags of each sentence, in a scheme that `find_entities` reads.
        predicted: as many tags for each sentence.

    Returns:
        `precision`: the share of predicted entities that are right; `recall`: the share of true entities that were
        found; `f1`: their harmonic mean. Each is 0 where it would divide by 0.

    Raises:
        InputError: sentences or tags do not pair up, a tag is not one of entities, or there is no sentence.

    Example:
        >>> entity_scores([["B-PER", "O", "B-LOC"]], [["B-PER", "O", "O"]])["recall"]
        0.5
    """
    counts = _counts(truth, predicted)
    return _scores(*map(sum, zip(*counts.values(), strict=True))) if counts else _scores(0, 0, 0)


def entity_report(truth: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, dict[str, float]]:
    """Returns how well the entities of each label were found.

    Args:
        truth, predicted: as for `entity_scores`.

    Returns:
        By label, in their order: `precision`, `recall` and `f1` as in `entity_scores`, and `support`, how many
        entities of this label are true. A label that was predicted only has a support of 0.

    Raises:
        InputError: as for `entity_scores`.
    """
    counts = _counts(truth, predicted)
    return {label: {**_scores(*counts[label]), "support": counts[label][2]} for label in sorted(counts)}


def _scores(num_right: int, num_predicted: int, num_true: int) -> dict[str, float]:
    return {
        "precision": num_right / num_predicted if num_predicted else 0.0,
        "recall": num_right / num_true if num_true else 0.0,
        "f1": 2 * num_right / (num_predicted + num_true) if num_predicted + num_true else 0.0,
    }


def _counts(truth, predicted) -> dict[str, tuple[int, int, int]]:
    """Returns how many entities are right, predicted and true, by label."""
    check_pairs(len(truth), len(predicted), what="sentences")
    counts = collections.defaultdict(lambda: [0, 0, 0])
    for number, (true_tags, predicted_tags) in enumerate(zip(truth, predicted, strict=True)):
        if len(true_tags) != len(predicted_tags):
            raise InputError(
                f"sentence {number} has {len(true_tags)} words and {len(predicted_tags)} predicted tags; expected a "
                "tag for each word: a word that the model did not see gets O"
            )
        true_entities, predicted_entities = set(find_entities(true_tags)), set(find_entities(predicted_tags))
        found = (true_entities & predicted_entities, predicted_entities, true_entities)
        for place, entities in enumerate(found):
            for entity in entities:
                counts[entity.label][place] += 1
    return {label: tuple(three) for label, three in counts.items()}
