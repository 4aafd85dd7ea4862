"""Split of training data: proportional per class, equal texts on the same side, reproducible."""

import collections
import random

import pytest
from sklearn.model_selection import train_test_split

from bert_keras.errors import InputError
from bert_keras.heads.classify.task import TextExample
from bert_keras.heads.examples.file_options import FileOptions
from bert_keras.heads.examples.held_out import hold_out
from bert_keras.pipelines.readers.questions import Question, read_questions
from bert_keras.pipelines.readers.words.tagged_sentences import TaggedSentence
from bert_keras.training.training_data import read_training_data
from tests.shared_data import shared

NO_OPTIONS = FileOptions()


def make_examples(*labels):
    return [TextExample(f"text {number}", None, label, number) for number, label in enumerate(labels)]


def test_classes_of_banking77_are_split_in_proportion_like_scikit_learn():
    data = read_training_data("classify", shared("banking77/train.csv"), None, NO_OPTIONS)
    assert (len(data.train), len(data.dev)) == (9003, 1000)
    labels = [example.label for example in (*data.train, *data.dev)]
    _, theirs = train_test_split(labels, test_size=1000, stratify=labels, random_state=0)
    ours = collections.Counter(example.label for example in data.dev)
    assert max(abs(ours[label] - number) for label, number in collections.Counter(theirs).items()) <= 1
    assert len(data.task.labels) == 77
    assert not {example.text for example in data.train} & {example.text for example in data.dev}
    assert data.held_out.settings() == {"share": 0.1, "seed": 0, "unit": "texts", "is_stratified": True}


def test_split_depends_only_on_seed_and_texts():
    examples = make_examples(*"abc" * 40)
    shuffled = random.Random(1).sample(examples, len(examples))
    chosen = {example.text for example in hold_out(examples, "t", share=0.2)[1]}
    assert chosen == {example.text for example in hold_out(shuffled, "t", share=0.2)[1]}
    assert chosen != {example.text for example in hold_out(examples, "t", share=0.2, seed=1)[1]}
    assert len(chosen) == 24


def test_repeated_texts_are_on_the_same_side():
    examples = [TextExample(f"text {number % 30}", None, "ab"[number % 2], number) for number in range(90)]
    train, dev, _ = hold_out(examples, "t", share=0.2)
    assert len(train) + len(dev) == 90
    assert dev
    assert not {example.text for example in train} & {example.text for example in dev}


def test_single_example_of_a_class_stays_in_training_and_no_class_is_held_out_entirely():
    for seed in range(20):
        train, dev, _ = hold_out(make_examples("a", "b", "b", *"c" * 17), "t", share=0.5, seed=seed)
        assert {example.label for example in train} == {"a", "b", "c"}
        assert collections.Counter(example.label for example in dev) == {"b": 1, "c": 9}


def test_rare_labels_of_multi_label_examples_and_rare_tags_are_on_both_sides():
    rng = random.Random(3)
    label_sets = [["a", *rng.sample("bc", rng.randrange(3)), *["rare"] * (number % 10 == 0)] for number in range(100)]
    train, dev, _ = hold_out(make_examples(*label_sets, []), "t", share=0.2)
    assert sum("rare" in example.label for example in dev) == 2
    assert {label for example in train for label in example.label} == set("abc") | {"rare"}
    tags = [("O", "B-PER" if number % 10 == 0 else "O") for number in range(100)]
    sentences = [TaggedSentence.from_words(("w", f"w{number}"), pair, number) for number, pair in enumerate(tags)]
    _, dev, split = hold_out(sentences, "t", share=0.2)
    assert sum("B-PER" in sentence.tags for sentence in dev) == 2
    assert split.unit == "sentences"


def test_questions_about_the_same_context_stay_together():
    questions = read_questions(shared("squad/squad_v2.0_dev_subset.json.gz"))
    for share in (0.1, 0.4):
        train, dev, split = hold_out(questions, "t", share=share)
        assert split.unit == ("contexts" if share == 0.1 else "articles")
        assert abs(len(dev) / len(questions) - share) < (0.01 if share == 0.1 else 0.15)
        assert not {one.context for one in train} & {one.context for one in dev}
    if share == 0.4:
        assert not {one.title for one in train} & {one.title for one in dev}


def test_numeric_labels_are_split_without_classes():
    _, dev, split = hold_out(make_examples(*range(50)), "t")
    assert (len(dev), split.is_stratified) == (5, False)


def test_at_least_one_of_few_large_units_is_held_out():
    examples = [TextExample(f"text {number // 20}", None, 1.0, number) for number in range(40)]
    train, dev, _ = hold_out(examples, "t")
    assert (len(train), len(dev)) == (20, 20)


@pytest.mark.parametrize("labels", [["a"], [1.0]], ids=["class", "number"])
def test_too_few_examples_are_rejected(labels):
    with pytest.raises(InputError, match=r"train\.csv has 1 example of 1 text, too few .* name .* with --dev"):
        hold_out(make_examples(*labels), "train.csv")


def test_column_with_a_distinct_class_per_example_is_rejected(write):
    path = write("t.csv", "text,score\n" + "".join(f"film {number},{number / 7:.3f}\n" for number in range(30)))
    message = (
        r"t\.csv: each of the 30 texts has its own class \(0\.000, 0\.143, 0\.286 and 27 more\); expected two "
        r"texts of a class or more: name the column of classes with --label-column, learn numbers with --problem "
        r"regression, or name held-out examples with --dev"
    )
    with pytest.raises(InputError, match=message):
        read_training_data("classify", path, None, NO_OPTIONS)


def make_pairs(firsts, per_first):
    labels = "abc" * (firsts * per_first)
    return [
        TextExample(f"first {number // per_first}", f"second {number}", labels[number], number)
        for number in range(firsts * per_first)
    ]


def test_pairs_with_the_same_first_text_stay_together():
    train, dev, split = hold_out(make_pairs(30, 3), "t", share=0.2)
    assert (len(dev), split.unit) == (18, "first texts")
    assert not {example.text for example in train} & {example.text for example in dev}


@pytest.mark.parametrize(("firsts", "per_first", "share"), [(4, 30, 0.1), (1, 60, 0.9), (60, 1, 0.1)])
def test_equal_pairs_stay_together_if_first_texts_are_few_or_unique(firsts, per_first, share):
    examples = make_pairs(firsts, per_first)
    train, dev, split = hold_out([*examples, *examples], "t", share=share)
    assert split.unit == "pairs"
    assert len(dev) == pytest.approx(share * 2 * len(examples), abs=2)
    assert not {example.second_text for example in train} & {example.second_text for example in dev}


def test_first_texts_of_conjnli_and_stsb_are_on_one_side():
    scored = FileOptions(columns=["sentence1", "sentence2", "score"])
    for task, name, options in (
        ("classify", "conjnli/adversarial_train_15k.tsv.gz", NO_OPTIONS),
        ("embed", "stsb/stsb-en-train.csv", scored),
    ):
        data = read_training_data(task, shared(name), None, options)
        assert data.held_out.unit == "first texts"
        assert len(data.dev) / (len(data.train) + len(data.dev)) == pytest.approx(0.1, abs=0.005)
        assert not {example.text for example in data.train} & {example.text for example in data.dev}


@pytest.mark.parametrize("share", [0, 1, 1.5, -0.1])
def test_share_outside_0_and_1_is_rejected(share):
    with pytest.raises(InputError, match=r"the held-out share is .*; expected a number between 0 and 1"):
        hold_out(make_examples("a", "a"), "t", share=share)


def test_pairs_without_scores_cannot_be_held_out(write):
    path = write("pairs.csv", "text1,text2\na,b\nc,d\n")
    with pytest.raises(InputError, match=r"contrastive training is scored on pairs with scores, .* with --dev"):
        read_training_data("embed", path, None, NO_OPTIONS, objective="contrastive")


def test_label_is_never_held_out_entirely_even_if_rarer_labels_decide():
    label_sets = [["r1", "z"], ["r2", "z"], ["r1"], ["r2"]]
    held_out = []
    for seed in range(30):
        train, dev, _ = hold_out(make_examples(*label_sets), "t", share=0.5, seed=seed)
        assert {label for example in train for label in example.label} == {"r1", "r2", "z"}
        held_out.append(len(dev))
    assert set(held_out) == {1, 2}  # some draws select both examples of z, and one is returned to training


def test_questions_about_the_same_context_stay_together_across_titles():
    def make_question(number, context):
        return Question(f"q{number}", f"Which {number}?", context, f"title {number % 7}", (), False, "")

    questions = [make_question(number, f"context {number % 20}") for number in range(100)]
    train, dev, split = hold_out(questions, "t", share=0.2)
    assert split.unit == "articles"
    assert dev
    assert not {one.context for one in train} & {one.context for one in dev}
