"""Tagging: training labels and predictions compared with transformers, character ranges in the text, windows."""

import dataclasses
import json

import numpy as np
import pytest
from seqeval import metrics as seqeval

from bert_keras.engines.keras_engine import KerasEngine
from bert_keras.engines.predictor import Predictor
from bert_keras.engines.sequence_runner import SequenceRunner
from bert_keras.errors import InputError
from bert_keras.heads.tag.task import TokenClassification
from bert_keras.pipelines.readers.words.tagged_sentences import TaggedSentence
from tests.heads.google_windows import find_best_window, make_windows
from tests.marks import slow_except

TAGS = ("O", "B-LOC", "B-PER", "I-LOC", "I-PER", "B-ONCE")
TOLERANCE = 2e-6  # measured: 5.2e-7, for probabilities
WORDS = (
    *("the", "Berlin", "antidisestablishmentarianism", "unaffable,", "U.S.A.", "Zürich", "cafe\u0301", "東京", "3.5"),
    *("😀", "👨‍👩‍👧", "New York", "a\tb c", "\u0301x", "ﬁne", "Straße", "İstanbul"),
    *("\x07", "\u200b", "\u0301", "\ufeff"),  # words without tokens
)
RAW = {
    "plain": "Angela Merkel met the unaffable U.N. chief in New York, Berlin.",
    "accents": "José Ñandú lives in Zürich; Ærøskøbing is far",
    "combining": "Jose\u0301 N\u0303andu\u0301 dined, cafe\u0301 au lait",
    "emoji": "😀 Berlin 👨‍👩‍👧 is 🇩🇪 fine 👍🏽!",
    "chinese": "東京は日本の首都です。 I live in北京now",
    "tabs": "\tBerlin\t\tand\nParis \u00a0 are\r\nfar\x07 away \u200b here",
    "controls": "Ber\x07lin \u200bParis\u200b \ufeffRome",
}


def sentence(words, tags=None):
    """Return a sentence of words separated by spaces."""
    return TaggedSentence.from_words([str(word) for word in words], tags, 1)


def random_sentences(num_sentences: int, max_words: int, seed: int) -> list[TaggedSentence]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, max_words, num_sentences)
    return [sentence(rng.choice(WORDS, length), tuple(rng.choice(TAGS, length).tolist())) for length in lengths]


@pytest.fixture(scope="module")
def entities(save_task):
    """Tagger of entities: (predictor, folder)."""
    return save_task(TokenClassification(labels=TAGS, scheme="IOB2"))


@pytest.fixture(scope="module")
def parts(save_task):
    """Tagger of parts of speech: (predictor, folder)."""
    return save_task(TokenClassification(labels=("ADJ", "NOUN", "VERB"), window_overlap=7))


def label_like_transformers(their_tokenizer, example, tokens: str) -> list[int]:
    """Return the labels of a whole sentence, as transformers' run_ner.py computes them."""
    continued = [tag.replace("B-", "I-") for tag in TAGS]
    continued = [TAGS.index(tag) if tag in TAGS else index for index, tag in enumerate(continued)]
    labels, previous = [], None
    for word in their_tokenizer(list(example.words), is_split_into_words=True).word_ids():
        if word is None:
            labels.append(-100)
        elif word != previous:
            labels.append(TAGS.index(example.tags[word]))
        else:
            labels.append(continued[TAGS.index(example.tags[word])] if tokens == "all" else -100)
        previous = word
    return labels


def windows_like_transformers(their_tokenizer, example, tokens: str, length: int, overlap: int) -> list:
    """Return (ids, labels) of each window.

    Where a window begins within a word, run_ner.py labels the first token of the window as the first token of the word.
    We treat it as a later token, because only the first token predicts the tag.
    """
    options = {"max_length": length, "stride": overlap, "truncation": True, "return_overflowing_tokens": True}
    windows = their_tokenizer([list(example.words)], is_split_into_words=True, **options)["input_ids"]
    labels = label_like_transformers(their_tokenizer, example, tokens)[1:-1]
    step = length - 2 - overlap
    parts = [labels[number * step : number * step + len(ids) - 2] for number, ids in enumerate(windows)]
    return [(ids, [-100, *part, -100]) for ids, part in zip(windows, parts, strict=True)]


@pytest.mark.parametrize("tokens", ["first", "all"])
@pytest.mark.parametrize(("length", "overlap"), [(128, 32), (23, 5), (16, 0)])
def test_token_labels_equal_transformers(length, overlap, tokens, tokenizer, their_tokenizer):
    examples = random_sentences(40, 30, seed=1)
    lengths = {"max_sequence_length": length, "window_overlap": overlap}
    task = TokenClassification(labels=TAGS, scheme="IOB2", labelled_tokens=tokens, **lengths)
    labelled = task.add_labels(task.encode(tokenizer, examples), examples)
    theirs = [windows_like_transformers(their_tokenizer, example, tokens, length, overlap) for example in examples]
    expected = [window for windows in theirs for window in windows]
    splits = labelled.sequences.row_splits[1:-1]
    ids, labels = np.split(labelled.sequences.token_ids, splits), np.split(labelled.token_labels, splits)
    assert [(one.tolist(), other.tolist()) for one, other in zip(ids, labels, strict=True)] == expected
    assert len(expected) > 40 if length < 128 else len(expected) == 40


def test_tags_without_a_scheme_are_repeated_on_later_tokens(tokenizer):
    task = TokenClassification(labels=("A-B-x", "B-x", "I-x"), labelled_tokens="all")
    examples = [sentence(["unaffable", "unaffable"], ("B-x", "A-B-x"))]
    labelled = task.add_labels(task.encode(tokenizer, examples), examples)
    assert labelled.token_labels.tolist() == [-100, 1, 1, 1, 0, 0, 0, -100]


def test_iob2_tags_without_types_continue_on_later_tokens(tokenizer):
    task = TokenClassification(labels=("O", "B", "I"), scheme="IOB2", labelled_tokens="all")
    examples = [sentence(["unaffable"], ("B",))]
    labelled = task.add_labels(task.encode(tokenizer, examples), examples)
    assert labelled.token_labels.tolist() == [-100, 1, 2, 2, -100]


def make_simple_texts(num_texts: int) -> list[str]:
    """Return texts that transformers, which groups words by the lengths of their tokens, splits into the same words."""
    rng = np.random.default_rng(2)
    words = "the Berlin antidisestablishmentarianism unaffable chief 3 New York naively Zurich met Merkel".split()
    return [" ".join(rng.choice(words, length)) for length in rng.integers(1, 25, num_texts)]


def test_entities_equal_the_transformers_pipeline(entities, their_pipeline):
    """The sequences include invalid ones: in both, an I after O or after another label begins an entity."""
    predictor, folder = entities
    texts = make_simple_texts(40)
    answers = predictor(texts)
    expected = their_pipeline("token-classification", folder, aggregation_strategy="first")(texts)
    num_invalid = 0
    for answer, theirs in zip(answers, expected, strict=True):
        ours = [(one["label"], one["start"], one["end"]) for one in answer["entities"]]
        assert ours == [(one["entity_group"], one["start"], one["end"]) for one in theirs]
        probabilities = [one["probability"] for one in answer["entities"]]
        np.testing.assert_allclose(probabilities, [one["score"] for one in theirs], rtol=0, atol=TOLERANCE)
        pairs = zip(["O", *answer["tags"]], answer["tags"], strict=False)
        num_invalid += sum(tag[0] == "I" and previous[1:] != tag[1:] for previous, tag in pairs)
    assert num_invalid > 10
    assert len({one["label"] for answer in answers for one in answer["entities"]}) == 3


def test_words_without_a_scheme_equal_the_transformers_pipeline(parts, their_pipeline):
    predictor, folder = parts
    texts = make_simple_texts(10)
    expected = their_pipeline("token-classification", folder, aggregation_strategy="none")(texts)
    for text, answer, theirs in zip(texts, predictor(texts), expected, strict=True):
        first = [one for one in theirs if not one["word"].startswith("##")]
        assert answer["tags"] == [one["entity"] for one in first]
        assert [one["label"] for one in answer["words"]] == answer["tags"]
        assert [one["start"] for one in answer["words"]] == [one["start"] for one in first]
        assert [one["text"] for one in answer["words"]] == text.split()


@pytest.mark.parametrize("case", RAW)
def test_entity_text_equals_the_range_in_a_raw_text(case, entities, parts):
    for predictor, kind in ((entities[0], "entities"), (parts[0], "words")):
        [answer] = predictor([RAW[case]])
        assert answer[kind]
        for one in answer[kind]:
            assert RAW[case][one["start"] : one["end"]] == one["text"]
        json.dumps(predictor.task.to_json(answer))
    words = "".join(one["text"] for one in answer["words"])
    # all characters are in words, except whitespace and a zero-width space between spaces
    assert "".join(words.split()) == "".join(RAW[case].replace(" \u200b ", "").split())


def test_combining_marks_belong_to_their_words(parts):
    [answer] = parts[0](["Jose\u0301 cafe\u0301"])
    assert [one["text"] for one in answer["words"]] == ["Jose\u0301", "cafe\u0301"]


def conllu(text: str, *ranges: tuple[int, int]) -> TaggedSentence:
    """Return a sentence whose words are ranges of a text; they may touch, leave gaps or coincide."""
    return TaggedSentence.from_ranges(text, ranges, None, 3)


CONLLU = {
    "multiword tokens": conllu("vámonos al mar!", (0, 4), (4, 7), (8, 10), (8, 10), (11, 14), (14, 15)),
    "marks and emoji": conllu("du\tcafe\u0301 😀。", (0, 2), (0, 2), (3, 8), (9, 10), (10, 11)),
    "no spaces": conllu("東京は\u200b日本", (0, 2), (2, 3), (4, 6)),
    "within a word": conllu("unaffable 10 000 km", (0, 2), (2, 9), (10, 16), (17, 19)),
}


@pytest.mark.parametrize("example", CONLLU.values(), ids=CONLLU)
def test_entity_text_equals_the_original_range(example, entities, parts):
    [answer] = entities[0]([example])
    assert len(answer["tags"]) == len(example.words)
    for one in answer["entities"]:
        assert example.text[one["start"] : one["end"]] == one["text"]
    [answer] = parts[0]([example])
    assert [one["text"] for one in answer["words"]] == list(example.words)
    assert [(one["start"], one["end"]) for one in answer["words"]] == list(
        zip(example.starts, example.ends, strict=True)
    )


@pytest.mark.parametrize("example", CONLLU.values(), ids=CONLLU)
def test_model_input_separates_words_by_spaces_regardless_of_the_text(example, parts):
    [answer], [separated] = parts[0]([example]), parts[0]([sentence(example.words)])
    assert answer["tags"] == separated["tags"]
    actual, expected = ([word["probability"] for word in found["words"]] for found in (answer, separated))
    assert actual == expected
    assert min(actual) > 0


@pytest.fixture(scope="module")
def make_pointwise(save_task):
    """Function that returns a tagger with given settings whose prediction for a token depends on that token only."""
    predictor, _ = save_task(TokenClassification(labels=TAGS, scheme="IOB2"))
    for weight in predictor.model.weights:
        if "/attention/projection/" in weight.path or "/position/" in weight.path:
            weight.assign(np.zeros(weight.shape))

    def make(**settings):
        return Predictor(predictor.model, predictor.tokenizer, dataclasses.replace(predictor.task, **settings))

    return make


@pytest.mark.parametrize(
    ("length", "overlap"), slow_except([(5, 1), (13, 4), (13, 10), (29, 0)], quick=[(5, 1), (13, 10)])
)
def test_windows_do_not_change_tags_of_a_model_without_context(length, overlap, make_pointwise):
    examples = random_sentences(20, 60, seed=4)
    one_window = make_pointwise(max_sequence_length=256).answer(examples)
    answers = make_pointwise(max_sequence_length=length, window_overlap=overlap).answer(examples)
    for answer, expected, example in zip(answers, one_window, examples, strict=True):
        assert answer["tags"] == expected["tags"]
        assert len(answer["tags"]) == len(example.words)
        ranges = [(one["label"], one["start"], one["end"]) for one in answer["entities"]]
        assert ranges == [(one["label"], one["start"], one["end"]) for one in expected["entities"]]
        actual, long = ([one["probability"] for one in found["entities"]] for found in (answer, expected))
        np.testing.assert_allclose(actual, long, rtol=0, atol=1e-6)  # measured: 1.0e-7


def test_word_tag_comes_from_its_first_token_in_the_window_with_most_context(entities):
    predictor, _ = entities
    examples = random_sentences(6, 60, seed=5)
    task = dataclasses.replace(predictor.task, max_sequence_length=17, window_overlap=9)
    sequences = task.encode(predictor.tokenizer, examples)
    logits = SequenceRunner(KerasEngine(predictor.model), is_token_level=True)(sequences)["logits"]
    num_windows = 0
    answers = task.decode(sequences, {"logits": logits}, examples)
    for number, (example, answer) in enumerate(zip(examples, answers, strict=True)):
        windows = make_windows(sequences, number)
        num_windows += len(windows)
        firsts = predictor.tokenizer.tokenize([*example.words, "end"]).row_lengths().numpy().cumsum()
        firsts = [0, *firsts[:-1]]
        for word, first in enumerate(firsts[:-1]):
            if firsts[word + 1] == first:
                assert answer["tags"][word] == "O"  # a word without tokens
                continue
            best = find_best_window([(tokens.start, tokens.stop) for _, tokens in windows], first)
            sequence_index, tokens = windows[best]
            position = sequences.row_splits[sequence_index] + 1 + first - tokens.start
            assert answer["tags"][word] == TAGS[logits[position].argmax()]
    assert num_windows > 24


def test_word_without_tokens_has_the_first_tag_and_no_probability_if_there_is_no_o(parts):
    [answer] = parts[0].answer([sentence(["a", "\x07", "b"])])
    assert answer["tags"][1] == "ADJ"
    assert [one["probability"] > 0 for one in answer["words"]] == [True, False, True]


@pytest.mark.parametrize("text", ["", " \t", "\x07\u200b"])
def test_text_without_words_has_no_tags(text, entities):
    answers = entities[0]([text, "Berlin", text])
    assert [len(answer["tags"]) for answer in answers] == [0, 1, 0]
    assert entities[0]([text]) == [{"tags": [], "entities": []}]


def test_scores_equal_seqeval():
    task = TokenClassification(labels=TAGS, scheme="IOB2")
    truth, predicted = random_sentences(30, 20, seed=6), random_sentences(30, 20, seed=6)
    rng = np.random.default_rng(7)
    predicted = [
        [tag if rng.random() < 0.7 else str(rng.choice(TAGS)) for tag in example.tags] for example in predicted
    ]
    scores = task.score([{"tags": tags} for tags in predicted], truth)
    expected = [list(example.tags) for example in truth]
    assert scores["f1"] == pytest.approx(seqeval.f1_score(expected, predicted), rel=1e-15)
    assert scores["accuracy"] == seqeval.accuracy_score(expected, predicted)
    assert set(scores) == {"precision", "recall", "f1", "accuracy"}
    task = TokenClassification(labels=TAGS)
    assert task.score([{"tags": tags} for tags in predicted], truth)["accuracy"] == scores["accuracy"]
    assert (task.main_score, TokenClassification(labels=TAGS, scheme="IOB2").main_score) == ("accuracy", "f1")


def test_unknown_tag_is_rejected(tokenizer):
    task, examples = TokenClassification(labels=("O", "B-LOC")), [sentence(["a", "b"], ("O", "I-LOC"))]
    with pytest.raises(
        InputError, match="the label 'I-LOC' is not one of the task's, which are 'O', 'B-LOC': correct one"
    ):
        task.add_labels(task.encode(tokenizer, examples), examples)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scheme": "IOB1"}, "scheme is 'IOB1'; expected one of IOB2, none"),
        ({"labelled_tokens": "last"}, "labelled_tokens is 'last'; expected one of first, all"),
    ],
)
def test_invalid_settings_are_rejected(settings, message):
    with pytest.raises(InputError, match=message):
        TokenClassification(**settings)


def test_pairs_are_rejected(entities):
    with pytest.raises(InputError, match="tagging needs single texts, and a second text was given: leave it out"):
        entities[0]([("one", "two")])
