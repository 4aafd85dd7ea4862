"""Question answering: training positions equal transformers' run_qa.py, answers equal an exhaustive span search."""

import dataclasses
import json
import math

import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.heads.answer.task import QuestionAnswering
from bert_keras.pipelines.readers.questions import Answer, Question
from tests.heads.squad_recipe import best_answers, null_score, training_windows
from tests.marks import slow_except

WORDS = (
    *("the", "Berlin,", "antidisestablishmentarianism", "unaffable", "U.S.A.", "Zürich", "naïve", "東京は", "3.5", "a"),
    *("😀", "👨‍👩‍👧", "(1889)", "cafe\u0301", "“so”", "ﬁne", "Straße", "\u200bx", "do\x07main"),
)
TOLERANCE = 1e-5  # measured: 2.1e-6, for sums of two logits of magnitude up to 10
QUESTION = "Where is it, naïve one?"


def random_context(rng, max_words: int) -> str:
    spaces = [" ", " ", " ", "  ", "\t", "\n", " \u00a0"]
    words = rng.choice(WORDS, rng.integers(3, max_words))
    return "".join(str(word) + str(rng.choice(spaces)) for word in words).strip()


def tokenize_with_offsets(their_tokenizer, text: str) -> list[tuple[int, int]]:
    return their_tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]


def question(context: str, *ranges: tuple[int, int], name: str = "q") -> Question:
    answers = tuple(Answer(context[start:end], start) for start, end in ranges)
    return Question(name, QUESTION, context, "", answers, not answers, "")


def random_questions(their_tokenizer, num_questions: int, max_words: int, seed: int) -> list[Question]:
    """Return questions with answers at or within token boundaries; some have no answer."""
    rng = np.random.default_rng(seed)
    questions = []
    for number in range(num_questions):
        context = random_context(rng, max_words)
        tokens = tokenize_with_offsets(their_tokenizer, context)
        first = rng.integers(len(tokens))
        last = min(first + rng.integers(9), len(tokens) - 1)
        kind = number % 5
        start, end = tokens[first][0], tokens[last][1]
        if kind == 1:  # within tokens
            start, end = rng.integers(*tokens[first]), 1 + rng.integers(*tokens[last])
        elif kind == 2:  # first tokens of the context
            start = tokens[0][0]
            end = tokens[min(last - first, len(tokens) - 1)][1]
        elif kind == 3:  # last tokens of the context
            end = tokens[-1][1]
            start = tokens[max(0, len(tokens) - 1 - (last - first))][0]
        ranges = [] if number % 11 == 10 or end <= start else [(int(start), int(end))]
        questions.append(question(context, *ranges, name=str(number)))
    return questions


@pytest.mark.parametrize(
    ("length", "overlap"), slow_except([(24, 5), (32, 20), (19, 0), (200, 50)], quick=[(32, 20), (19, 0)])
)
def test_training_positions_equal_transformers(length, overlap, tokenizer, their_tokenizer):
    examples = random_questions(their_tokenizer, 110, 40, seed=length)
    task = QuestionAnswering(max_sequence_length=length, window_overlap=overlap, allows_null=True)
    sequences = task.encode(tokenizer, examples)
    labels = task.add_labels(sequences, examples).labels
    ids = np.split(sequences.token_ids, sequences.row_splits[1:-1])
    ours = [
        (one.tolist(), int(start), int(end))
        for one, start, end in zip(ids, labels["start_positions"], labels["end_positions"], strict=True)
    ]
    expected = [
        window for example in examples for window in training_windows(their_tokenizer, example, length, overlap)
    ]
    assert ours == expected
    num_answered = np.count_nonzero(labels["start_positions"])
    assert num_answered > 60
    if length < 200:
        assert len(sequences) > 130
        assert len(sequences) - num_answered > 20


def test_answer_with_surrounding_space_covers_the_tokens_within(tokenizer):
    context = "in  Berlin \t now"
    examples = [question(context, (2, 12)), question(context, (10, 13)), question(context, (3, 5))]
    task = QuestionAnswering()
    labels = task.add_labels(task.encode(tokenizer, examples), examples).labels
    begin = 1 + tokenizer.tokenize([QUESTION]).row_lengths().numpy()[0] + 1
    assert labels["start_positions"].tolist() == [begin + 1, 0, begin + 1]  # the second answer contains no token
    assert labels["end_positions"].tolist() == [begin + 1, 0, begin + 1]


def random_outputs(sequences, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        name: rng.normal(0, 3, len(sequences.token_ids)).astype("float32") for name in ("start_logits", "end_logits")
    }


@pytest.mark.parametrize(
    ("length", "overlap", "num_best", "max_length"),
    slow_except(
        [(24, 5, 5, 4), (32, 20, 40, 30), (19, 0, 1, 1), (200, 50, 20, 8), (60, 40, 400, 3)],
        quick=[(24, 5, 5, 4), (19, 0, 1, 1), (60, 40, 400, 3)],
    ),
)
def test_answers_equal_an_exhaustive_span_search(length, overlap, num_best, max_length, tokenizer, their_tokenizer):
    examples = random_questions(their_tokenizer, 30, 60, seed=length + 1)
    task = QuestionAnswering(
        max_sequence_length=length, window_overlap=overlap, num_best=num_best, max_answer_length=max_length
    )
    sequences = task.encode(tokenizer, examples)
    outputs = random_outputs(sequences, seed=1)
    answers = task.decode(sequences, outputs, examples)
    for number, (example, answer) in enumerate(zip(examples, answers, strict=True)):
        logits = outputs["start_logits"], outputs["end_logits"]
        limits = {"num_best": num_best, "max_answer_length": max_length}
        expected = best_answers(sequences, number, example.context, *logits, their_tokenizer, **limits)
        found = [(one["score"], one["start"], one["end"]) for one in answer["best"]]
        assert found == expected
        for one in answer["best"]:
            assert example.context[one["start"] : one["end"]] == one["answer"] != ""
        assert len({one["answer"] for one in answer["best"]}) == len(found)
        exponentials = [math.exp(score - expected[0][0]) for score, _, _ in expected]
        probabilities = [one["probability"] for one in answer["best"]]
        np.testing.assert_allclose(
            probabilities, np.array(exponentials) / sum(exponentials), rtol=0, atol=5e-15
        )  # measured: 6.7e-16
        assert answer["null_score"] == null_score(sequences, number, *logits)
        assert {**answer, **answer["best"][0]} == answer  # the answer is the best candidate
        assert answer["id"] == example.id


@pytest.mark.parametrize("length", [100, 12])
def test_answer_within_a_word_is_extended_to_the_whole_word(length, tokenizer, their_tokenizer):
    context = "the unaffable player, playing: a word-playing. unaffable"
    tokens = their_tokenizer(context, add_special_tokens=False)
    continues = [token.startswith("##") for token in their_tokenizer.convert_ids_to_tokens(tokens["input_ids"])]
    assert sum(continues) > 3
    task = QuestionAnswering(max_sequence_length=length, window_overlap=2, num_best=1)
    sequences = task.encode(tokenizer, [question(context)])
    for number in np.flatnonzero(continues):
        outputs = {name: np.zeros(len(sequences.token_ids), "float32") for name in ("start_logits", "end_logits")}
        for values in outputs.values():
            values[(sequences.text_positions == number) & sequences.is_second] = 9
        [answer] = task.decode(sequences, outputs, [question(context)])
        word = tokens.word_to_chars(tokens.token_to_word(int(number)))
        assert (answer["start"], answer["end"]) == (word.start, word.end)
        assert answer["answer"] == context[word.start : word.end]


def test_repeated_answer_text_is_listed_once(tokenizer, their_tokenizer):
    examples = [question("so " * number) for number in range(20, 40)]
    task = QuestionAnswering(max_sequence_length=60, window_overlap=9, num_best=3, max_answer_length=3)
    sequences = task.encode(tokenizer, examples)
    outputs = random_outputs(sequences, seed=5)
    for number, answer in enumerate(task.decode(sequences, outputs, examples)):
        assert {one["answer"] for one in answer["best"]} == {"so", "so so", "so so so"}
        logits = outputs["start_logits"], outputs["end_logits"]
        limits = {"num_best": 3, "max_answer_length": 3}
        expected = best_answers(sequences, number, examples[number].context, *logits, their_tokenizer, **limits)
        assert [(one["score"], one["start"], one["end"]) for one in answer["best"]] == expected


def test_answers_equal_transformers_logits_decoded_like_run_squad(save_task, their_model, their_tokenizer):
    settings = {"max_sequence_length": 40, "window_overlap": 12, "num_best": 3, "max_answer_length": 6}
    predictor, folder = save_task(QuestionAnswering(**settings))
    run = their_model(folder, "BertForQuestionAnswering")
    examples = random_questions(their_tokenizer, 8, 60, seed=9)
    answers = predictor([(example.question, example.context) for example in examples])
    assert len({answer["answer"] for answer in answers}) > 4
    options = {"truncation": "only_second", "max_length": 40, "stride": 12, "return_overflowing_tokens": True}
    for example, answer in zip(examples, answers, strict=True):
        inputs = their_tokenizer(example.question, example.context, padding=True, **options)
        outputs = run(**{name: inputs[name] for name in ("input_ids", "attention_mask", "token_type_ids")})
        is_real = np.array(inputs["attention_mask"]) == 1
        starts, ends = (outputs[name][is_real] for name in ("start_logits", "end_logits"))
        sequences = predictor.task.encode(predictor.tokenizer, [example])
        limits = {"num_best": 3, "max_answer_length": 6}
        expected = best_answers(sequences, 0, example.context, starts, ends, their_tokenizer, **limits)
        assert [(one["start"], one["end"]) for one in answer["best"]] == [(start, end) for _, start, end in expected]
        scores = [one["score"] for one in answer["best"]]
        np.testing.assert_allclose(scores, [score for score, _, _ in expected], rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(answer["null_score"], null_score(sequences, 0, starts, ends), rtol=0, atol=TOLERANCE)


def test_answers_do_not_depend_on_other_questions(tokenizer, their_tokenizer):
    examples = random_questions(their_tokenizer, 7, 60, seed=3)
    task = QuestionAnswering(max_sequence_length=30, window_overlap=10)
    sequences = task.encode(tokenizer, examples)
    together = task.decode(sequences, random_outputs(sequences, seed=4), examples)
    token_examples = sequences.examples[sequences.sequence_indices]
    for number, example in enumerate(examples):
        outputs = {name: values[token_examples == number] for name, values in random_outputs(sequences, seed=4).items()}
        [alone] = task.decode(task.encode(tokenizer, [example]), outputs, [example])
        assert alone == together[number]


def decode_without_span(tokenizer, task, context: str):
    """Return the answer for logits whose 20 best starts all follow the 20 best ends."""
    examples = [question(context, name="none")]
    sequences = task.encode(tokenizer, examples)
    rising = np.arange(len(sequences.token_ids), dtype="float32")
    return task.decode(sequences, {"start_logits": rising, "end_logits": -rising}, examples)[0]


@pytest.mark.parametrize("context", ["a word " * 30, "\x07 \u200b"], ids=["no span fits", "no tokens"])
@pytest.mark.parametrize("allows_null", [False, True])
def test_answer_is_empty_if_no_span_is_valid(context, allows_null, tokenizer):
    task = QuestionAnswering(max_sequence_length=120, window_overlap=0, allows_null=allows_null)
    answer = decode_without_span(tokenizer, task, context)
    assert answer["best"] == []
    assert (answer["answer"], answer["start"], answer["end"], answer["probability"]) == ("", None, None, None)
    assert answer["score"] == answer["null_score"]
    assert task.apply_calibration([answer]) == [answer]
    assert task.calibrate([answer], [question(context)]) == task
    json.dumps(task.to_json(answer, 3))


@pytest.fixture(scope="module")
def calibration_cases(tokenizer, their_tokenizer):
    """Questions with and without answers, and imperfect predictions for them."""
    task = QuestionAnswering(max_sequence_length=60, window_overlap=20, allows_null=True)
    examples = random_questions(their_tokenizer, 60, 40, seed=8)
    sequences = task.encode(tokenizer, examples)
    outputs = random_outputs(sequences, seed=2)
    labels = task.add_labels(sequences, examples).labels
    begins = sequences.row_splits[:-1]
    for name in ("start", "end"):
        outputs[f"{name}_logits"][begins + labels[f"{name}_positions"]] += 5
    answers = task.decode(sequences, outputs, examples)
    without = decode_without_span(tokenizer, task, "a word " * 30)
    return task, [*answers, without], [*examples, question("a word " * 30, name="none")]


def f1_at(task, answers, examples, threshold: float) -> float:
    task = dataclasses.replace(task, null_threshold=threshold)
    return task.score(task.apply_calibration(answers), examples)["f1"]


def test_calibrated_threshold_has_the_best_f1(calibration_cases):
    task, answers, examples = calibration_cases
    calibrated = task.calibrate(answers, examples)
    best = task.score(calibrated.apply_calibration(answers), examples)["f1"]
    differences = [answer["null_score"] - answer["best"][0]["score"] for answer in answers if answer["best"]]
    assert best == max(f1_at(task, answers, examples, value) for value in [*differences, min(differences) - 1])
    assert best > f1_at(task, answers, examples, 0.0) > f1_at(task, answers, examples, 100.0)
    assert dataclasses.replace(calibrated, null_threshold=0.0) == task
    assert type(calibrated.null_threshold) is float


def test_calibration_removes_and_restores_answers(calibration_cases):
    task, answers, _ = calibration_cases
    without_answers = dataclasses.replace(task, null_threshold=-1000.0).apply_calibration(answers)
    assert {answer["answer"] for answer in without_answers} == {""}
    assert all(answer["score"] == answer["null_score"] for answer in without_answers)
    with_answers = dataclasses.replace(task, null_threshold=1000.0).apply_calibration(without_answers)
    assert [answer["answer"] for answer in with_answers] == [
        answer["best"][0]["answer"] if answer["best"] else "" for answer in answers
    ]
    assert task.apply_calibration(with_answers) == answers
    never_null = dataclasses.replace(task, allows_null=False, null_threshold=-1000.0).apply_calibration(answers)
    assert never_null == with_answers  # the threshold is ignored if every question has an answer


def test_calibration_does_nothing_if_every_question_has_an_answer(calibration_cases):
    task, answers, examples = calibration_cases
    task = dataclasses.replace(task, allows_null=False)
    assert task.calibrate(answers, examples) is task


def test_questions_with_the_same_id_are_scored_separately():
    task = QuestionAnswering()
    examples = [question("Berlin", (0, 6)), question("Paris", (0, 5)), question("Rome", (0, 4))]
    scores = task.score([{"answer": "Berlin"}, {"answer": "Lyon"}, {"answer": "rome!"}], examples)
    assert scores == {"exact_match": pytest.approx(200 / 3), "f1": pytest.approx(200 / 3)}
    assert scores[task.main_score] == scores["f1"]


def test_answers_convert_to_json_with_the_requested_candidates(calibration_cases):
    task, answers, _ = calibration_cases
    converted = json.loads(json.dumps(task.to_json(answers[0])))
    assert set(converted) == {"id", "answer", "score", "start", "end", "probability", "null_score"}
    assert json.loads(json.dumps(task.to_json(answers[0], 3)))["best"] == answers[0]["best"][:3]


def test_question_without_a_context_is_rejected(save_task):
    predictor, _ = save_task(QuestionAnswering(max_sequence_length=40, window_overlap=12))
    with pytest.raises(InputError, match="a question needs a context, and there is none; expected a pair"):
        predictor(["Where?"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"window_overlap": None}, "contexts are split into windows; expected window_overlap as a number of tokens"),
        ({"max_answer_length": 0}, "max_answer_length is 0; expected an integer >= 1"),
        ({"max_question_length": 0}, "max_question_length is 0; expected an integer >= 1"),
        ({"num_best": 0}, "num_best is 0; expected an integer >= 1"),
    ],
)
def test_invalid_settings_are_rejected(settings, message):
    with pytest.raises(InputError, match=message):
        QuestionAnswering(**settings)


def test_long_questions_are_truncated(tokenizer):
    example = dataclasses.replace(question("Berlin is it"), question="where " * 50)
    task = QuestionAnswering(max_sequence_length=30, window_overlap=5, max_question_length=7)
    sequences = task.encode(tokenizer, [example])
    assert sequences.second_starts.tolist() == [1 + 7 + 1]
