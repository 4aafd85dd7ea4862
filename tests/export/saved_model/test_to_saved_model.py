"""SavedModels: raw strings in, the checkpoint's answers in the terms of its task out."""

import dataclasses
import functools
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of the tokenizer

from bert_keras.export.not_carried_over import list_not_carried_over
from bert_keras.export.parity import parity_check
from bert_keras.export.parity.comparison import Comparison
from bert_keras.export.parity.expected_answers import expect_text_answers
from bert_keras.export.parity.parity_check import start_saved_model_check
from bert_keras.export.parity.probe_inputs import DEFAULT, THOROUGH, to_bytes_array
from bert_keras.export.saved_model import to_saved_model
from bert_keras.export.saved_model.answers.substrings import TextCharacters
from bert_keras.tasks.predictor import Predictor
from tests.export.conftest import KINDS, LENGTH, load_once
from tests.marks import slow_except

TEXTS = ["the cat sat", "", "every dog ran off with its red hat .", "Ünknown 中 😀"]
QUICK = ("pair_classifier", "token_classifier", "masked_lm")  # those that other tests save, too
NOT_SAVED = ("windowed_classifier", "multi_label", "regression", "null_answerer", "embedder", "encoder")
TOLERANCE = 2e-5  # measured: 5.0e-6 in the logits over the vocabulary, 4.1e-6 in others


@pytest.fixture(scope="session")
def function_of(references, saved):
    """Returns `function_of(kind)`: the function that a SavedModel has as its default; of most before it is saved."""
    made = {}

    def function(kind: str):
        if kind not in made and kind in QUICK:
            made[kind] = functools.partial(load_once(str(saved(kind)))[0], "serving_default")
        elif kind not in made:
            served = to_saved_model.ServedModel(*_parts(references(kind)))
            made[kind] = functools.partial(_answer, served, served._text_signature())
        return made[kind]

    return function


@pytest.fixture(scope="module")
def served(function_of):
    """Returns `served(kind, **texts)`: what a SavedModel answers."""

    def answer(kind: str, **texts):
        as_bytes = {
            name: [text.encode() if isinstance(text, str) else text for text in of_name]
            for name, of_name in texts.items()
        }
        return function_of(kind)({name: np.array(of_name, object) for name, of_name in as_bytes.items()})

    return answer


def _answer(owner, function, texts):
    del owner  # of the variables, kept until here
    outputs = function(**{name: tf.constant(of_name, tf.string) for name, of_name in texts.items()})
    return {name: values.numpy() for name, values in outputs.items()}


@pytest.mark.parametrize("kind", slow_except(KINDS, quick=QUICK))
def test_every_model_answers_as_its_checkpoint(kind, references, saved, in_this_process):
    check(start_saved_model_check(references(kind), saved(kind)).report())


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_model_answers_in_a_fresh_process_to_all_probes(kind, references, saved):
    verdict = start_saved_model_check(references(kind), saved(kind), THOROUGH).report()
    check(verdict)
    assert verdict["num_inputs"] >= 200


def check(verdict):
    assert verdict["passed"], verdict
    assert max(seen["max"] for seen in verdict["outputs"].values()) < TOLERANCE
    assert not any(seen["differ"] for seen in verdict["labels"].values())
    for side in ("inputs", "outputs"):
        for dtype, shape in verdict["signatures"]["ids"][side].values():
            assert shape[0] is None  # any batch
            assert side == "outputs" or (dtype, shape) == ("int32", [None, None])


@pytest.mark.parametrize("kind", slow_except(NOT_SAVED, quick=["windowed_classifier", "null_answerer", "embedder"]))
def test_every_task_answers_to_texts_as_its_checkpoint(kind, references, served):
    reference, comparison = references(kind), Comparison(TOLERANCE)
    texts = parity_check._texts(reference, DEFAULT, text_model.text_function(*_arguments(reference)).inputs)
    names = text_model.text_function(*_arguments(reference)).inputs
    answer = served(kind, **parity_check._text_inputs(names, texts))
    expect_text_answers(reference, texts)(comparison, parity_check._by_text([answer], [range(len(texts))]))
    seen = comparison.report()
    assert seen["passed"], seen
    assert sum(one["compared"] for one in seen["labels"].values()) >= 32 or kind in ("embedder", "regression")


def _arguments(reference):
    return reference.model, None, reference.tokenizer, reference.task


def test_a_classifier_answers_in_its_own_terms(references, served):
    answer = served("classifier", text=TEXTS)
    expected = Predictor(*_parts(references("classifier")))(TEXTS)
    assert set(answer) == {"label", "label_id", "scores", "probabilities"}
    assert [label.decode() for label in answer["label"]] == [one["label"] for one in expected]
    assert [["rot", "grün", "blau"][number] for number in answer["label_id"]] == [one["label"] for one in expected]
    np.testing.assert_allclose(answer["probabilities"], [one["probabilities"] for one in expected], atol=TOLERANCE)


def test_batch_mates_do_not_change_an_answer(served):
    together = served("classifier", text=TEXTS)
    for place, text in enumerate(TEXTS):
        alone = served("classifier", text=[text])
        np.testing.assert_allclose(alone["scores"][0], together["scores"][place], rtol=0, atol=TOLERANCE)


def test_pairs_are_two_named_strings(references, served):
    seconds = TEXTS[1:] + TEXTS[:1]
    answer = served("pair_classifier", text=TEXTS, second_text=seconds)
    expected = Predictor(*_parts(references("pair_classifier")))(list(zip(TEXTS, seconds, strict=True)))
    np.testing.assert_allclose(answer["probabilities"], [one["probabilities"] for one in expected], atol=TOLERANCE)
    swapped = served("pair_classifier", text=seconds, second_text=TEXTS)
    assert np.abs(swapped["probabilities"] - answer["probabilities"]).max() > 0.01


def test_words_are_told_with_their_characters_and_padded(served):
    texts = ["The cat, naïve", "", "ran off"]
    answer = served("token_classifier", text=texts)
    assert answer["num_words"].tolist() == [4, 0, 2]
    assert [word.decode() for word in answer["words"][0]] == ["The", "cat", ",", "naïve"]
    for text, words, starts, ends in zip(texts, *(answer[name] for name in ("words", "starts", "ends")), strict=True):
        assert [text[start:end] for start, end in zip(starts, ends, strict=True)] == [word.decode() for word in words]
    assert answer["labels"][1].tolist() == [b""] * 4
    assert answer["label_ids"][1].tolist() == [-1] * 4


@pytest.mark.parametrize("kind", slow_except(["question_answerer", "null_answerer"], quick=["null_answerer"]))
def test_an_answer_is_cut_from_the_context_and_told_with_its_characters(kind, served):
    context = "żółw. The cat sat on a mat. Every dog ran off with its red hat. " * 3
    answer = served(kind, question=["who sat ?", "x"], context=[context, ""])
    start, end = answer["start"][0], answer["end"][0]
    assert context[start:end] == answer["answer"][0].decode()
    assert answer["num_best"].tolist() == [5, 0]
    best = [text.decode() for text in answer["best_answers"][0]]
    assert len(set(best)) == 5
    assert (answer["answer"][1], answer["start"][1], answer["end"][1]) == (b"", -1, -1)
    assert answer["score"][1] == answer["null_score"][1]


def test_masks_are_filled_with_tokens_and_texts(served):
    answer = served("masked_lm", text=["the [MASK] sat on [MASK] .", "no mask", "[MASK]"])
    assert answer["num_masks"].tolist() == [2, 0, 1]
    assert answer["texts"].shape == (3, 2, 5)
    token, text = answer["tokens"][0, 1, 0].decode(), answer["texts"][0, 1, 0].decode()
    before = "the [MASK] sat on" + ("" if token.startswith("##") else " ")
    assert text == f"{before}{token.removeprefix('##')} ."
    assert answer["texts"][1].tolist() == [[b""] * 5] * 2


EDGES = {
    "empty": b"",
    "100 kB": b"the cat sat on a mat " * 4762,
    "100 kB without a space": b"x" * 100_000,
    "not UTF-8": b"\xff\xfe the \xc3 cat \xe2\x82",
    "only spaces": " \t\n\u00a0 ".encode(),
    "only unknown characters": "\u0378\U0010ffff\ue000".encode(),
    "NUL": b"\x00the\x00 cat\x00",
}


@pytest.mark.parametrize(
    "kind",
    slow_except(
        ["classifier", "windowed_classifier", "token_classifier", "embedder", "masked_lm"],
        quick=["classifier", "token_classifier", "masked_lm"],
    ),
)
def test_odd_strings_are_answered_and_leave_their_mates_alone(kind, served):
    mates = [b"the cat sat", b"a [MASK] dog ran"]
    alone = served(kind, text=mates)
    together = served(kind, text=[mates[0], *EDGES.values(), mates[1]])
    for name, values in alone.items():
        for place, whole in ((0, 0), (1, -1)):
            cut = tuple(slice(size) for size in np.shape(values[place]))
            both = together[name][whole][cut] if values.ndim > 1 else together[name][whole]
            if values.dtype.kind == "f":
                np.testing.assert_allclose(both, values[place], rtol=0, atol=TOLERANCE)
            else:
                np.testing.assert_array_equal(both, values[place])
    assert all(np.isfinite(values).all() for values in together.values() if values.dtype.kind == "f")
    if "num_words" in together:
        assert together["num_words"][2] == 6 * 4762


@pytest.mark.parametrize("kind", slow_except(["question_answerer", "null_answerer"], quick=["null_answerer"]))
@pytest.mark.parametrize("edge", slow_except(EDGES, quick=["empty", "100 kB", "not UTF-8", "only spaces"]))
def test_odd_questions_and_contexts_are_answered(edge, kind, served):
    mates = {"question": [b"who sat ?"], "context": [b"The cat sat on a mat."]}
    alone = served(kind, **mates)
    for questions, contexts in (([EDGES[edge]], [b"a red hat"]), ([b"who ?"], [EDGES[edge]])):
        together = served(kind, question=mates["question"] + questions, context=mates["context"] + contexts)
        assert together["answer"][0] == alone["answer"][0]
        np.testing.assert_allclose(together["best_scores"][0], alone["best_scores"][0], rtol=0, atol=TOLERANCE)
        assert np.isfinite(together["score"]).all()
        together["answer"][1].decode("utf-8")  # what is told is UTF-8


def test_no_text_at_all_is_no_error(served):
    assert served("classifier", text=[])["label"].shape == (0,)
    assert served("token_classifier", text=[])["words"].shape[0] == 0
    assert served("null_answerer", question=[], context=[])["answer"].shape == (0,)


def test_only_the_longest_text_decides_what_is_computed(served):
    short = served("encoder", text=["cat", "a cat"])
    assert short["last_hidden_state"].shape == (2, 4, 36)
    assert short["attention_mask"].tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    assert not short["last_hidden_state"][0, 3].any()
    assert served("encoder", text=["cat " * 99])["last_hidden_state"].shape == (1, LENGTH, 36)


@pytest.mark.slow  # `test_a_saved_model_is_published_with_its_verdict_and_can_be_verified` runs a fresh process, too
def test_the_saved_model_needs_nothing_of_ours(saved, tmp_path):
    code = (
        "import sys, tensorflow as tf, tensorflow_text\n"
        f"model = tf.saved_model.load({str(saved('embedder'))!r})\n"
        "answer = model.signatures['serving_default'](tf.constant(['a cat']))\n"
        "assert answer['embedding'].shape == (1, 36), answer\n"
        "assert not [name for name in sys.modules if name.startswith(('bert_keras', 'keras_hub'))]\n"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]


def _parts(reference):
    return reference.model, reference.tokenizer, reference.task


def test_texts_are_bytes_on_their_way_to_an_artifact():
    assert to_bytes_array(["é", ""]).tolist() == ["é".encode(), b""]


def test_a_word_of_a_text_costs_no_copy_of_the_text():
    """`tf.strings.substr` on a text for each of its words: 2.8 GB for 100 kB."""
    function = tf.function(lambda texts, numbers, ends: TextCharacters.of(texts).cut(numbers, 0 * ends, ends))
    specs = [tf.TensorSpec([None], tf.string), *[tf.TensorSpec([None], tf.int32)] * 2]
    operations = {operation.type for operation in function.get_concrete_function(*specs).graph.get_operations()}
    assert "UnicodeEncode" in operations
    assert "Substr" not in operations
    text = "café \x00x 😀".encode()
    got = function(tf.constant([b"ab", text + b"\xff"]), tf.constant([0, 1, 1]), tf.constant([1, 4, 10]))
    assert [part.decode() for part in got.numpy()] == ["a", "café", "café \x00x 😀\ufffd"[:10]]


def test_the_rest_of_a_text_begins_at_a_character_of_its_own():
    texts = TextCharacters.of(tf.constant(["ab", "café 😀x"]))
    rest = texts.rest(tf.constant([1, 0, 1, 1]), tf.constant([4, 1, 6, 0]))
    assert [part.decode() for part in rest.numpy()] == [" 😀x", "b", "x", "café 😀x"]


@pytest.mark.parametrize("include_prompt", [True, False])
def test_the_default_prompt_stands_before_served_texts(include_prompt, references):
    bare = references("embedder")
    settings = {"prompts": {"query": "Katze 1,2 "}, "default_prompt_name": "query", "include_prompt": include_prompt}
    reference = bare.with_task(dataclasses.replace(bare.task, **settings))
    function = to_saved_model.ServedModel(*_parts(reference))._text_signature()
    answer = function(text=tf.constant([text.encode() for text in TEXTS]))["embedding"].numpy()
    expected = [one["embedding"] for one in Predictor(*_parts(reference))(TEXTS)]
    np.testing.assert_allclose(answer, expected, rtol=0, atol=TOLERANCE)
    unprompted = [one["embedding"] for one in Predictor(*_parts(bare))(TEXTS)]
    assert np.abs(answer - unprompted).max(axis=1).min() > 0.01
    comparison = Comparison(TOLERANCE)
    served = [{"embedding": vector} for vector in answer]
    expect_text_answers(reference, [(text,) for text in TEXTS])(comparison, served)
    assert comparison.report()["passed"]


@pytest.mark.parametrize(
    ("artifact", "changes", "left"),
    [
        ("saved_model/1", {}, []),
        ("saved_model/1", {"prompts": {"query": "a ", "document": ""}, "default_prompt_name": "query"}, []),
        (
            "saved_model/1",
            {"prompts": {"query": "a ", "passage": "b "}, "default_prompt_name": "query"},
            ["the prompts passage: serving_default puts 'a ' before each text; use ids for other prompts"],
        ),
        (
            "saved_model/1",
            {"prompts": {"query": "a ", "answer": "b "}, "include_prompt": False},
            [
                "the prompts query, answer: serving_default puts nothing before a text, so put a prompt there yourself",
                "include_prompt: the signature ids pools the tokens of a prompt like those of the text",
            ],
        ),
        (
            "tflite/model_float32.tflite",
            {"prompts": {"query": "a "}},
            ["the prompts query: the file takes ids, so put a prompt before each text yourself"],
        ),
        ("onnx/onnx/model.onnx", {"prompts": {"query": "a "}}, []),
        (
            "onnx/onnx/model.onnx",
            {"prompts": {"query": "a "}, "include_prompt": False},
            ["include_prompt: the output sentence_embedding pools the tokens of a prompt like those of the text"],
        ),
    ],
)
def test_what_an_artifact_does_not_carry_of_prompts_is_listed(artifact, changes, left, references):
    bare = references("embedder")
    reference = bare.with_task(dataclasses.replace(bare.task, **changes))
    assert list_not_carried_over(reference, artifact) == left
    assert list_not_carried_over(references("classifier"), artifact) == []
