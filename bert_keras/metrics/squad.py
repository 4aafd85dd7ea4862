"""SQuAD's scores of answers to questions about a text.

The scores equal those of the official `evaluate-v2.0.py` (Rajpurkar et al., 2018, "Know What You Don't Know"). If all
questions have an answer, they also equal those of `evaluate-v1.1.py`, except for accepted texts that are empty after
normalization ("the", "..."), which only v2.0 ignores.

Gold answers map the id of a question to its accepted texts. A question without accepted texts is unanswerable, and its
correct prediction is the empty text.
"""

import collections
import re
import string
from collections.abc import Mapping, Sequence

import numpy as np

from bert_keras.errors import InputError
from bert_keras.metrics.classes import check_counts

_ARTICLES = re.compile(r"\b(?:an?|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)  # ASCII only, as in the official script


def normalize_answer(text: str) -> str:
    """Return an answer in lower case, without ASCII punctuation, articles and extra spaces, for comparison.

    Example:
        >>> normalize_answer("The  U.S.A.")
        'usa'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


def exact_match(prediction: str, gold_texts: Sequence[str]) -> float:
    """Return 1.0 if a normalized prediction equals one of the normalized gold texts, else 0.0.

    Args:
        prediction: the predicted text; empty: no answer.
        gold_texts: the accepted texts; empty: there is no answer.

    Raises:
        InputError: `gold_texts` is a single string.
    """
    predicted = normalize_answer(prediction)
    return float(any(predicted == gold for gold in _normalize_golds(gold_texts)))


def f1(prediction: str, gold_texts: Sequence[str]) -> float:
    """Return the highest F1 of the words of a prediction and of a gold text, from 0 to 1.

    A word counts as often as both texts have it. If one of them has no words, F1 is 1 if the other has none, else 0.

    Args:
        prediction, gold_texts: as for `exact_match`.

    Raises:
        InputError: `gold_texts` is a single string.

    Example:
        >>> f1("the tall tower", ["tower of Paris", "tower"])
        0.6666666666666666
    """
    predicted = normalize_answer(prediction).split()
    return max(_compute_word_f1(predicted, gold.split()) for gold in _normalize_golds(gold_texts))


def answer_scores(predictions: Mapping[str, str], gold: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Compute the scores of answers in percent.

    Args:
        predictions: the predicted text, keyed by question id; empty: no answer. Ids that are not in `gold` are ignored.
        gold: the accepted texts, keyed by question id; empty: the question is unanswerable.

    Returns:
        `exact_match` and `f1`, means over the questions, from 0 to 100. If some questions are unanswerable, also
        `no_answer_exact` and `no_answer_f1` of these, and `has_answer_exact` and `has_answer_f1` of the others.

    Raises:
        InputError: a question has no prediction (the official scripts ignore it, or count it as wrong), or there are no
            questions.

    Example:
        >>> answer_scores({"q1": "in 1889", "q2": ""}, {"q1": ["1889"], "q2": []})["exact_match"]
        50.0
    """
    _check_ids(predictions, gold, "prediction")
    exact, overlap = _compute_percents(predictions, gold)
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
    """Find the threshold above which "no answer" is the better prediction.

    A question is predicted as unanswerable if its difference is above the threshold. The result is the lowest of the
    thresholds with the highest F1, as in the BERT paper. It differs from `find_best_thresh` of the official script in
    three mistakes of the latter: it also tries thresholds between equal differences; it uses 0.0 for "answer nothing",
    which is wrong for negative differences; and it counts "the" as a wrong answer to an unanswerable question, unlike
    the rest of the script.

    Args:
        null_score_differences: the score of no answer minus the score of the best answer, in logits, keyed by question
            id; any number that grows with uncertainty works.
        predictions: the best non-empty text, keyed by question id.
        gold: the accepted texts, keyed by question id; empty: the question is unanswerable.

    Returns:
        The threshold, and its `exact_match` and `f1` (see `answer_scores`) in percent. The threshold is one of the
        differences, or the lowest difference minus 1 if no question should be answered.

    Raises:
        InputError: a question has no prediction or no finite difference, or there are no questions.
    """
    _check_ids(predictions, gold, "prediction")
    _check_ids(null_score_differences, gold, "null score difference")
    differences = np.array([null_score_differences[question] for question in gold], np.float64)
    wrong = np.flatnonzero(~np.isfinite(differences))
    if wrong.size:
        raise InputError(
            f"the null score difference of {list(gold)[wrong[0]]!r} is {differences[wrong[0]]}; expected a finite "
            "number: check the scores of the model"
        )
    order = np.argsort(differences, kind="stable")  # (Q,), the most certain answers first
    differences = differences[order]
    null_exact, null_overlap = _compute_percents(dict.fromkeys(gold, ""), gold)
    exact, overlap = _compute_percents(predictions, gold)
    exact = _compute_prefix_means(exact[order], null_exact[order])
    overlap = _compute_prefix_means(overlap[order], null_overlap[order])
    thresholds = np.concatenate([[differences[0] - 1], differences])
    # equal differences are all above a threshold or all below
    possible = np.append(thresholds[:-1] < thresholds[1:], True)
    best = np.flatnonzero(possible)[np.argmax(overlap[possible])]
    return float(thresholds[best]), float(exact[best]), float(overlap[best])


def _compute_prefix_means(answered: np.ndarray, null: np.ndarray) -> np.ndarray:
    """Return `(Q + 1,)` means; item k takes `answered` for the first k questions and `null` for the others."""
    return (null.sum() + np.concatenate([[0], np.cumsum(answered - null)])) / len(answered)


def _compute_percents(
    predictions: Mapping[str, str], gold: Mapping[str, Sequence[str]]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the exact match and the F1 of each question, `(Q,)` each, from 0 to 100, in the order of `gold`."""
    exact = [exact_match(predictions[question], texts) for question, texts in gold.items()]
    overlap = [f1(predictions[question], texts) for question, texts in gold.items()]
    return 100 * np.array(exact), 100 * np.array(overlap)


def _normalize_golds(gold_texts: Sequence[str]) -> list[str]:
    """Return the normalized accepted texts that are not empty; if there are none, one empty text."""
    if isinstance(gold_texts, str):
        raise InputError(
            f"the gold texts are the string {gold_texts!r}; expected a list of accepted texts: write [{gold_texts!r}], "
            "or [] where there is no answer"
        )
    return [gold for gold in map(normalize_answer, gold_texts) if gold] or [""]


def _compute_word_f1(predicted: list[str], gold: list[str]) -> float:
    if not predicted or not gold:
        return float(predicted == gold)
    num_shared = (collections.Counter(predicted) & collections.Counter(gold)).total()
    return 2 * num_shared / (len(predicted) + len(gold))


def _check_ids(given: Mapping[str, object], gold: Mapping[str, Sequence[str]], what: str) -> None:
    missing = [question for question in gold if question not in given]
    if missing:
        raise InputError(
            f"{len(missing):,} of {len(gold):,} questions have no {what}, the first is {missing[0]!r}; expected one "
            "for each: answer all of them, or remove these questions"
        )
    check_counts(len(gold), len(gold), what="questions")
