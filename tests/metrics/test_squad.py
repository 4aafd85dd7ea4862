"""Answer scores equal the official SQuAD script and hand-computed cases.

`squad_cases.json` contains the scores of that script; `make_squad_cases.py` creates the file.
"""

import json
import pathlib
import random

import pytest

from bert_keras.errors import InputError
from bert_keras.metrics.squad import answer_scores, exact_match, f1, find_null_threshold, normalize_answer

OFFICIAL = json.loads(pathlib.Path(__file__).with_name("squad_cases.json").read_text(encoding="utf-8"))
CLOSE = {"rel": 0, "abs": 1e-13}  # measured: 1.4e-14, for percentages


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ("The Eiffel Tower", "eiffel tower"),
        ("an apple a day", "apple day"),
        ("theory and analysis", "theory and analysis"),  # only whole words are articles
        ("A.N.", ""),  # punctuation is removed first, which leaves an article
        ("U.S.A.", "usa"),
        ("twenty-one", "twentyone"),
        ("  two \t\n words\u00a0here ", "two words here"),
        ("...!?", ""),
        ("the", ""),
        ("", ""),
        ("ZÜRICH", "zürich"),
        ("«the»", "« »"),  # only ASCII punctuation is removed
        ("the\u2013end", "\u2013end"),
        ("$5,000.50", "500050"),
        ("東京", "東京"),
        ("STRASSE", "strasse"),
    ],
)
def test_normalized_texts(text, normalized):
    assert normalize_answer(text) == normalized


@pytest.mark.parametrize(
    ("prediction", "gold", "exact", "overlap"),
    [
        ("1889", ["1889"], 1, 1),
        ("in 1889", ["1889"], 0, 2 / 3),
        ("The tower!", ["a tower"], 1, 1),
        ("Tower of London", ["tower of Paris", "London"], 0, 2 / 3),  # the best match counts
        ("to be to", ["to to to be"], 0, 6 / 7),  # a word counts as often as it occurs in both
        ("Paris", ["London"], 0, 0),
        ("Zürich", ["ZÜRICH."], 1, 1),
        ("Zurich", ["Zürich"], 0, 0),
        ("straße", ["STRASSE"], 0, 0),
        ("", [], 1, 1),
        ("the", [], 1, 1),
        ("...", [], 1, 1),
        ("Paris", [], 0, 0),
        ("", ["Paris"], 0, 0),
        ("", ["the", "Paris"], 0, 0),  # "the" is ignored, because another gold text remains
        ("", ["the"], 1, 1),
        ("the", ["..."], 1, 1),
        ("no", ["..."], 0, 0),
    ],
)
def test_hand_computed_answer_scores(prediction, gold, exact, overlap):
    assert exact_match(prediction, gold) == exact
    assert f1(prediction, gold) == pytest.approx(overlap, abs=1e-15)


def test_single_answer_scores_equal_the_official_script():
    for case in OFFICIAL["questions"]:
        assert exact_match(case["prediction"], case["gold"]) == case["exact"], case
        assert f1(case["prediction"], case["gold"]) == pytest.approx(case["f1"], abs=1e-15), case  # measured: 1.1e-16


@pytest.mark.parametrize("case", OFFICIAL["sets"])
def test_scores_of_a_set_equal_the_official_script(case):
    names = {
        "exact": "exact_match",
        "f1": "f1",
        "HasAns_exact": "has_answer_exact",
        "HasAns_f1": "has_answer_f1",
        "NoAns_exact": "no_answer_exact",
        "NoAns_f1": "no_answer_f1",
    }
    expected = {names[name]: score for name, score in case["official"].items() if name in names}
    if all(case["gold"].values()):  # as in v1.1, where every question has an answer
        del expected["has_answer_exact"], expected["has_answer_f1"]
    assert answer_scores(case["predictions"], case["gold"]) == pytest.approx(expected, **CLOSE)


@pytest.mark.parametrize("case", OFFICIAL["sets"])
def test_best_threshold_equals_the_official_script(case):
    threshold, _, best = find_null_threshold(case["null_chances"], case["predictions"], case["gold"])
    official = case["official"]["best_f1_thresh"]
    assert best == pytest.approx(case["official"]["best_f1"], **CLOSE)
    assert threshold == (official or min(case["null_chances"].values()) - 1)  # theirs is 0.0 if none is answered


def draw_set(seed):
    """Return random score differences, many of them equal, with guesses and gold texts."""
    rng = random.Random(seed)
    ids = [f"q{number}" for number in range(rng.randrange(1, 12))]
    gold = {identity: rng.choice([[], ["Paris"], ["tower of Paris", "the"]]) for identity in ids}
    guesses = {identity: rng.choice(["Paris", "tower", "the", ""]) for identity in ids}
    return {identity: rng.randrange(-4, 5) / 2 for identity in ids}, guesses, gold


@pytest.mark.parametrize("seed", range(60))
def test_threshold_is_the_lowest_with_the_best_f1(seed):
    differences, guesses, gold = draw_set(seed)

    def score_with(threshold):
        return answer_scores(
            {identity: "" if differences[identity] > threshold else guess for identity, guess in guesses.items()}, gold
        )

    threshold, exact, best = find_null_threshold(differences, guesses, gold)
    assert {"exact_match": exact, "f1": best} == pytest.approx(
        {name: score_with(threshold)[name] for name in ("exact_match", "f1")}, **CLOSE
    )
    others = [number / 4 for number in range(-24, 13)]
    assert best >= max(score_with(other)["f1"] for other in others) - CLOSE["abs"]
    lower = [score_with(other)["f1"] for other in others if other < threshold and threshold > min(differences.values())]
    assert all(score < best - CLOSE["abs"] for score in lower)  # the lowest of equally good thresholds


def test_hand_computed_thresholds():
    gold = {"sure": ["Paris"], "unsure": ["1889"], "none": []}
    guesses = {"sure": "Paris", "unsure": "in 1889", "none": "London"}
    differences = {"none": 3.5, "sure": -7.25, "unsure": -1.5}
    assert find_null_threshold(differences, guesses, gold) == (-1.5, pytest.approx(200 / 3), pytest.approx(800 / 9))
    assert find_null_threshold({**differences, "none": -1.5}, guesses, gold)[0] == -7.25  # else +2/3 and -1
    assert find_null_threshold({"none": -2.0}, guesses, {"none": []}) == (-3.0, 100.0, 100.0)


def test_questions_with_and_without_answers_have_separate_scores():
    gold = {"a": ["Paris"], "b": [], "c": [], "d": []}
    assert answer_scores({"a": "to Paris", "b": "", "c": "", "d": "x", "other": "y"}, gold) == {
        "exact_match": 50,
        "f1": pytest.approx(100 * (2 / 3 + 2) / 4),
        "has_answer_exact": 0,
        "has_answer_f1": pytest.approx(200 / 3),
        "no_answer_exact": pytest.approx(200 / 3),
        "no_answer_f1": pytest.approx(200 / 3),
    }
    assert set(answer_scores({"a": "x"}, {"a": ["Paris"]})) == {"exact_match", "f1"}
    assert set(answer_scores({"b": "x"}, {"b": []})) == {"exact_match", "f1", "no_answer_exact", "no_answer_f1"}


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (
            lambda: answer_scores({"a": ""}, {"a": [], "b": [], "c": ["x"]}),
            r"2 of 3 questions have no prediction, the first is 'b'; expected one for each",
        ),
        (lambda: answer_scores({}, {}), r"there are no questions to score"),
        (lambda: exact_match("x", "Paris"), r"the gold texts are the string 'Paris'; .* write \['Paris'\]"),
        (lambda: answer_scores({"a": ""}, {"a": "Paris"}), r"the gold texts are the string 'Paris'"),
        (lambda: find_null_threshold({}, {"a": ""}, {"a": []}), r"1 of 1 questions have no null score difference"),
        (lambda: find_null_threshold({"a": 1.0}, {}, {"a": []}), r"1 of 1 questions have no prediction"),
        (
            lambda: find_null_threshold({"a": float("nan")}, {"a": ""}, {"a": []}),
            r"the null score difference of 'a' is nan; expected a finite number",
        ),
    ],
)
def test_invalid_predictions_are_errors(score, message):
    with pytest.raises(InputError, match=message):
        score()
