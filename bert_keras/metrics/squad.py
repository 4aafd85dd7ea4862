"""Scores of answers to questions about a text, as SQuAD counts them.

The numbers are those of the official `evaluate-v2.0.py` (Rajpurkar et al., 2018, "Know What You Don't Know"). For
questions that all have an answer they are those of `evaluate-v1.1.py` too, but for accepted texts of which
normalization leaves nothing ("the", "..."): v2.0 passes over them, and v1.1 does not.

The gold answers are a mapping from the id of a question to its accepted texts. A question without any is unanswerable,
and the right prediction for it is the empty text.
"""

import collections
import re
import string
from collections.abc import Mapping, Sequence

import numpy as np

from bert_keras.errors import InputError
from bert_keras.metrics.prediction_counts import check_pairs

_ARTICLES = re.compile(r"\b(?:an?|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)  # ASCII only, as in the official script


def normalize_answer(text: str) -> str:
    """Returns an answer as it is compared: in lower case, without ASCII punctuation, articles and extra space.

    Example:
        >>> normalize_answer("The  U.S.A.")
        'usa'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


def exact_match(prediction: str, gold_texts: Sequence[str]) -> float:
    """Returns 1.0 if a prediction, normalized, equals one of the gold texts, else 0.0.

    Args:
        prediction: the text that the model answers; empty: it says that there is no answer.
        gold_texts: the accepted texts; empty: there is no answer.

    Raises:
        InputError: `gold_texts` is a single string.
    """
    predicted = normalize_answer(prediction)
    return float(any(predicted == gold for gold in _normalized_golds(gold_texts)))


def f1(prediction: str, gold_texts: Sequence[str]) -> float:
    """Returns the F1 of the words that a prediction shares with the gold text that it is nearest to, 0 to 1.

    A word counts as often as both have it. Where either has no words, F1 is 1 if both have none, else 0.

    Args:
        prediction, gold_texts: as for `exact_match`.

    Raises:
        InputError: `gold_texts` is a single string.

    Example:
        >>> f1("the tall tower", ["tower of Paris", "tower"])
        0.6666666666666666
    """
    predicted = normalize_answer(prediction).split()
    return max(_word_f1(predicted, gold.split()) for gold in _normalized_golds(gold_texts))


def answer_scores(predictions: Mapping[str, str], gold: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Returns how well questions were answered, in percent.

    Args:
        predictions: the text that the model answers, by the id of the question; empty: it says that there is no
            answer. Ids that are not in `gold` are not looked at.
        gold: the accepted texts, by id; none: the question is unanswerable.

    Returns:
        `exact_match` and `f1`, means over the questions, 0 to 100. If some are unanswerable, also `no_answer_exact` and
        `no_answer_f1` of these, and `has_answer_exact` and `has_answer_f1` of the others, if there are any.

    Raises:
        InputError: a question has no prediction (the official scripts pass over it, or count it as wrong), or there is
            no question.

    Example:
        >>> answer_scores({"q1": "in 1889", "q2": ""}, {"q1": ["1889"], "q2": []})["exact_match"]
        50.0
    """
    _check_ids(predictions, gold, "prediction")
    exact, overlap = _percents(predictions, gold)
    scores = {"exact_match": float(exact.mean()), "f1": float(overlap.mean())}
    answerable = np.array([bool(texts) for texts in gold.values()])
    for name, chosen in (("has_answer", answerable), ("no_answer", ~answerable)):
        if chosen.any() and not answerable.all():
            scores[f"{name}_exact"] = float(exact[chosen].mean())
            scores[f"{name}_f1"] = float(overlap[chosen].mean())
    return scores


def find_null_threshold(
    null_score_differences: Mapping[str, float], predictions: Mapping[str, str], gold: Mapping[str, Sequence[str]]
) -> tuple[float, float, float]:
    """Finds from which score on "there is no answer" is the better thing to say.

    A question counts as unanswerable if its difference is above the threshold. Of the thresholds that tell the
    questions apart, the lowest with the highest F1 is chosen, as in BERT's paper. The official script's
    `find_best_thresh` walks the same way, with three faults that are mended here: it stops also between equal
    differences, where no threshold can; it calls "none is answered" 0.0, which is wrong for differences below 0; and it
    counts an answer such as "the" to an unanswerable question as wrong, which is right everywhere else in that script.

    Args:
        null_score_differences: by id, the score of no answer minus the score of the best answer, in logits; any number
            that rises with the doubt will do.
        predictions: by id, the best text, not empty where the model would rather not answer.
        gold: the accepted texts, by id; none: the question is unanswerable.

    Returns:
        The threshold, and the `exact_match` and `f1` of `answer_scores` under it, in percent. The threshold is a
        difference that occurs, or, where none should be answered, the lowest one less 1.

    Raises:
        InputError: a question has no prediction or no finite difference, or there is no question.
    """
    _check_ids(predictions, gold, "prediction")
    _check_ids(null_score_differences, gold, "null score difference")
    differences = np.array([null_score_differences[identity] for identity in gold], np.float64)
    _check_finite(differences, gold)
    order = np.argsort(differences, kind="stable")  # (Q,): the surest answers first
    differences = differences[order]
    silent_exact, silent_overlap = _percents(dict.fromkeys(gold, ""), gold)
    exact, overlap = _percents(predictions, gold)
    exact = _means_if_the_first_are_answered(exact[order], silent_exact[order])
    overlap = _means_if_the_first_are_answered(overlap[order], silent_overlap[order])
    thresholds = np.concatenate([[differences[0] - 1], differences])
    possible = np.append(thresholds[:-1] < thresholds[1:], True)  # of equal differences, all are answered or none
    best = np.flatnonzero(possible)[np.argmax(overlap[possible])]
    return float(thresholds[best]), float(exact[best]), float(overlap[best])


def _means_if_the_first_are_answered(answered: np.ndarray, silent: np.ndarray) -> np.ndarray:
    """Returns `(Q + 1,)`: at k the mean of `answered` of the first k questions and of `silent` of the others."""
    return (silent.sum() + np.concatenate([[0], np.cumsum(answered - silent)])) / len(answered)


def _percents(predictions: Mapping[str, str], gold: Mapping[str, Sequence[str]]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the exact match and the F1 of each question, `(Q,)` each, 0 to 100, in the order of `gold`."""
    exact = [exact_match(predictions[identity], texts) for identity, texts in gold.items()]
    overlap = [f1(predictions[identity], texts) for identity, texts in gold.items()]
    return 100 * np.array(exact), 100 * np.array(overlap)


def _normalized_golds(gold_texts: Sequence[str]) -> list[str]:
    """Returns the accepted texts, normalized; the empty one alone where nothing is left of any."""
    if isinstance(gold_texts, str):
        raise InputError(
            f"the gold texts are the string {gold_texts!r}; expected a list of accepted texts: write [{gold_texts!r}], "
            "or [] where there is no answer"
        )
    return [gold for gold in map(normalize_answer, gold_texts) if gold] or [""]


def _word_f1(predicted: list[str], gold: list[str]) -> float:
    if not predicted or not gold:
        return float(predicted == gold)
    num_shared = (collections.Counter(predicted) & collections.Counter(gold)).total()
    return 2 * num_shared / (len(predicted) + len(gold))


def _check_ids(given: Mapping[str, object], gold: Mapping[str, Sequence[str]], what: str) -> None:
    missing = [identity for identity in gold if identity not in given]
    if missing:
        raise InputError(
            f"{len(missing):,} of {len(gold):,} questions have no {what}, the first is {missing[0]!r}; expected one "
            "for each: answer them all, or take these questions out"
        )
    check_pairs(len(gold), len(gold), what="questions")


def _check_finite(differences: np.ndarray, gold: Mapping[str, Sequence[str]]) -> None:
    wrong = np.flatnonzero(~np.isfinite(differences))
    if wrong.size:
        identity = list(gold)[wrong[0]]
        raise InputError(
            f"the null score difference of {identity!r} is {differences[wrong[0]]}; expected a finite number: look at "
            "the scores that the model gave"
        )
