"""Write `squad_cases.json`: random answers and the scores that transformers gives them.

    python tests/metrics/make_squad_cases.py > tests/metrics/squad_cases.json

The script needs a separate environment with transformers 4.57.1, the last version with the official SQuAD script;
the 5.x releases do not have it. Half of the answers consist of text that normalization removes.
"""

import itertools
import json
import random
import types

from transformers.data.metrics.squad_metrics import get_raw_scores, squad_evaluate

NUM_QUESTIONS, NUM_SETS, NUM_IN_SET = 250, 12, 14
WORDS = ["tower", "Tower", "of", "Paris", "1889", "Zürich", "İzmir", "straße", "東京", "theory", "an'a"]
REMOVED = ["the", "The", "a", "an", "AN", "...", "!", "-", "the\u2013", "«a»", "a.", "\t", "\u00a0", ""]


def join_words(rng: random.Random, words: list[str]) -> str:
    return rng.choice([" ", " ", "  ", "-", "\u00a0"]).join(rng.choices(words, k=rng.randrange(5)))


def question(answers: list[str], number: int) -> types.SimpleNamespace:
    return types.SimpleNamespace(qas_id=f"q{number}", answers=[{"text": answer} for answer in answers])


def single_cases(rng: random.Random):
    """Yield cases of a prediction, its gold texts, its exact match and its F1."""
    for _ in range(NUM_QUESTIONS):
        answers = [join_words(rng, WORDS + REMOVED) for _ in range(rng.randrange(4))]
        if answers and rng.random() < 0.5:  # close to a gold text
            prediction = " ".join([rng.choice(REMOVED), rng.choice(answers).upper(), rng.choice(["of", "!", "the"])])
        else:
            prediction = join_words(rng, WORDS + REMOVED)
        exact, f1 = get_raw_scores([question(answers, 0)], {"q0": prediction})
        yield {"prediction": prediction, "gold": answers, "exact": exact["q0"], "f1": f1["q0"]}


def set_case(rng: random.Random, unanswerable_rate: float) -> dict:
    """Return predictions, gold texts, the probabilities of no answer, and the scores of the official script.

    The probabilities are distinct and no text normalizes to "", because there our scores differ from the script; see
    `bert_keras/metrics/squad.py`.
    """
    ids = [f"q{number}" for number in range(NUM_IN_SET)]
    gold = {
        identity: []
        if rng.random() < unanswerable_rate
        else [" ".join(rng.choices(WORDS, k=3)) for _ in range(rng.choice([1, 3]))]
        for identity in ids
    }
    guesses = {identity: rng.choice([*texts, "the tower of Paris", "Zürich", ""]) for identity, texts in gold.items()}
    chances = dict(zip(ids, (percent / 100 for percent in rng.sample(range(1, 100), NUM_IN_SET)), strict=True))
    examples = [question(answers, number) for number, answers in enumerate(gold.values())]
    official = squad_evaluate(examples, guesses, chances)
    return {"predictions": guesses, "gold": gold, "null_chances": chances, "official": official}


def main() -> None:
    rng = random.Random(20)
    rates = itertools.cycle([0.0, 0.3, 0.5, 0.2, 0.4, 1.0])
    sets = [set_case(rng, rate) for _, rate in zip(range(NUM_SETS), rates, strict=False)]
    for name, cases in (("questions", list(single_cases(rng))), ("sets", sets)):
        lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
        print(f'{"{" if name == "questions" else ","}"{name}": [\n{lines}\n]')
    print("}")


if __name__ == "__main__":
    main()
