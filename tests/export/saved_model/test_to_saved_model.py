"""SavedModels accept raw strings and return the predictions of their checkpoint."""

import dataclasses
import functools
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of the tokenizer

from bert_keras.engines.predictor import Predictor
from bert_keras.export.artifacts import list_not_carried_over
from bert_keras.export.parity.comparison import Comparison
from bert_keras.export.parity.expected_answers import expect_text_answers
from bert_keras.export.parity.parity_check import start_saved_model_check
from bert_keras.export.parity.probe_inputs import THOROUGH_PROBES, to_bytes_array
from bert_keras.export.saved_model import to_saved_model
from bert_keras.heads.text_function import TextCharacters
from tests.export.conftest import KINDS, LENGTH, load_once
from tests.marks import slow_except

TEXTS = ["the cat sat", "", "every dog ran off with its red hat .", "Ünknown 中 😀"]
QUICK = ("pair_classifier",)  # other tests save it too
NOT_SAVED = tuple(kind for kind in KINDS if kind not in (*QUICK, "pretrainer", "electra", "question_answerer"))
TOLERANCE = 2e-5  # measured: 5.0e-6 for logits over the vocabulary, 4.1e-6 for other outputs


@pytest.fixture(scope="session")
def get_function(references, saved):
    """Function that returns the default signature of a kind.

    Kinds outside of `QUICK` run without being saved.
    """
    functions = {}

    def get(kind: str):
        if kind not in functions and kind in QUICK:
            functions[kind] = functools.partial(load_once(str(saved(kind)))[0], "serving_default")
        elif kind not in functions:
            signatures = to_saved_model.build_signatures(*_parts(references(kind)))
            functions[kind] = functools.partial(_answer, signatures["serving_default"])
        return functions[kind]

    return get


@pytest.fixture(scope="module")
def served(get_function):
    """Function that returns the outputs of a SavedModel for texts."""

    def answer(kind: str, **texts):
        encoded = {
            name: [text.encode() if isinstance(text, str) else text for text in column]
            for name, column in texts.items()
        }
        return get_function(kind)({name: np.array(column, object) for name, column in encoded.items()})

    return answer


def _answer(function, texts):
    outputs = function(**{name: tf.constant(column, tf.string) for name, column in texts.items()})
    return {name: values.numpy() for name, values in outputs.items()}


@pytest.mark.parametrize("kind", slow_except(KINDS, quick=QUICK))
def test_predictions_of_every_model_equal_its_checkpoint(kind, references, saved, in_this_process):
    check_report(start_saved_model_check(references(kind), saved(kind)).report())


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_model_passes_the_thorough_check_in_a_fresh_process(kind, references, saved):
    report = start_saved_model_check(references(kind), saved(kind), THOROUGH_PROBES).report()
    check_report(report)
    assert report["num_inputs"] >= 200


def check_report(report):
    assert report["passed"], report
    assert max(output["max"] for output in report["outputs"].values()) < TOLERANCE
    assert not any(label["differ"] for label in report["labels"].values())
    for side in ("inputs", "outputs"):
        for dtype, shape in report["signatures"]["ids"][side].values():
            assert shape[0] is None  # any batch size
            assert side == "outputs" or (dtype, shape) == ("int32", [None, None])


def test_batching_does_not_change_predictions(served):
    batched = served("pair_classifier", text=TEXTS, second_text=TEXTS[::-1])
    for place, (text, second) in enumerate(zip(TEXTS, TEXTS[::-1], strict=True)):
        single = served("pair_classifier", text=[text], second_text=[second])
        np.testing.assert_allclose(single["scores"][0], batched["scores"][place], rtol=0, atol=TOLERANCE)


def test_words_are_returned_with_character_ranges_and_padded(served):
    texts = ["The cat, naïve", "", "ran off"]
    answer = served("token_classifier", text=texts)
    assert answer["num_words"].tolist() == [4, 0, 2]
    assert [word.decode() for word in answer["words"][0]] == ["The", "cat", ",", "naïve"]
    for text, words, starts, ends in zip(texts, *(answer[name] for name in ("words", "starts", "ends")), strict=True):
        assert [text[start:end] for start, end in zip(starts, ends, strict=True)] == [word.decode() for word in words]
    assert answer["labels"][1].tolist() == [b""] * 4
    assert answer["label_ids"][1].tolist() == [-1] * 4


@pytest.mark.parametrize("kind", slow_except(["question_answerer", "null_answerer"], quick=["null_answerer"]))
def test_answer_is_a_substring_of_the_context_with_its_range(kind, served):
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
        quick=["token_classifier"],
    ),
)
def test_unusual_strings_do_not_change_other_predictions(kind, served):
    others = [b"the cat sat", b"a [MASK] dog ran"]
    expected = served(kind, text=others)
    batched = served(kind, text=[others[0], *EDGES.values(), others[1]])
    for name, values in expected.items():
        for place, number in ((0, 0), (1, -1)):
            unpadded = tuple(slice(size) for size in np.shape(values[place]))
            got = batched[name][number][unpadded] if values.ndim > 1 else batched[name][number]
            if values.dtype.kind == "f":
                np.testing.assert_allclose(got, values[place], rtol=0, atol=TOLERANCE)
            else:
                np.testing.assert_array_equal(got, values[place])
    assert all(np.isfinite(values).all() for values in batched.values() if values.dtype.kind == "f")
    if "num_words" in batched:
        assert batched["num_words"][2] == 6 * 4762


@pytest.mark.parametrize("kind", slow_except(["question_answerer", "null_answerer"], quick=["null_answerer"]))
@pytest.mark.parametrize("edge", slow_except(EDGES, quick=["100 kB", "not UTF-8"]))
def test_unusual_questions_and_contexts_do_not_change_other_answers(edge, kind, served):
    others = {"question": [b"who sat ?"], "context": [b"The cat sat on a mat."]}
    expected = served(kind, **others)
    for questions, contexts in (([EDGES[edge]], [b"a red hat"]), ([b"who ?"], [EDGES[edge]])):
        batched = served(kind, question=others["question"] + questions, context=others["context"] + contexts)
        assert batched["answer"][0] == expected["answer"][0]
        np.testing.assert_allclose(batched["best_scores"][0], expected["best_scores"][0], rtol=0, atol=TOLERANCE)
        assert np.isfinite(batched["score"]).all()
        batched["answer"][1].decode("utf-8")  # raises unless the answer is valid UTF-8


def test_empty_batch_is_accepted(served):
    assert served("pair_classifier", text=[], second_text=[])["label"].shape == (0,)
    assert served("token_classifier", text=[])["words"].shape[0] == 0
    assert served("null_answerer", question=[], context=[])["answer"].shape == (0,)


def test_batches_are_padded_to_their_longest_text(served):
    short = served("encoder", text=["cat", "a cat"])
    assert short["last_hidden_state"].shape == (2, 4, 36)
    assert short["attention_mask"].tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    assert not short["last_hidden_state"][0, 3].any()
    assert served("encoder", text=["cat " * 99])["last_hidden_state"].shape == (1, LENGTH, 36)


@pytest.mark.slow  # test_parity_check.py runs a SavedModel in a fresh process too
def test_saved_model_does_not_need_this_package(saved, tmp_path):
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


def test_texts_are_passed_to_artifacts_as_bytes():
    assert to_bytes_array(["é", ""]).tolist() == ["é".encode(), b""]


def test_words_are_cut_without_copying_the_text():
    """`tf.strings.substr` would copy the text once per word: 2.8 GB for 100 kB."""
    function = tf.function(lambda texts, numbers, ends: TextCharacters.decode(texts).cut(numbers, 0 * ends, ends))
    specs = [tf.TensorSpec([None], tf.string), *[tf.TensorSpec([None], tf.int32)] * 2]
    operations = {operation.type for operation in function.get_concrete_function(*specs).graph.get_operations()}
    assert "UnicodeEncode" in operations
    assert "Substr" not in operations
    text = "café \x00x 😀".encode()
    got = function(tf.constant([b"ab", text + b"\xff"]), tf.constant([0, 1, 1]), tf.constant([1, 4, 10]))
    assert [part.decode() for part in got.numpy()] == ["a", "café", "café \x00x 😀\ufffd"[:10]]


def test_text_is_truncated_at_a_character_boundary():
    texts = TextCharacters.decode(tf.constant(["ab", "café 😀x"]))
    rest = texts.cut_to_end(tf.constant([1, 0, 1, 1]), tf.constant([4, 1, 6, 0]))
    assert [part.decode() for part in rest.numpy()] == [" 😀x", "b", "x", "café 😀x"]


@pytest.mark.parametrize("include_prompt", slow_except([True, False], quick=[False]))
def test_default_prompt_is_prepended_to_served_texts(include_prompt, references):
    bare = references("embedder")
    settings = {"prompts": {"query": "Katze 1,2 "}, "default_prompt_name": "query", "include_prompt": include_prompt}
    reference = bare.with_task(dataclasses.replace(bare.task, **settings))
    function = to_saved_model.build_signatures(*_parts(reference))["serving_default"]
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
    ("artifact", "changes", "expected"),
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
                "the prompts query, answer: serving_default puts no prompt before a text, so add it yourself",
                "include_prompt: the signature ids pools the tokens of a prompt like those of the text",
            ],
        ),
        (
            "tflite/model_float32.tflite",
            {"prompts": {"query": "a "}},
            ["the prompts query: the file accepts ids, so add the prompt to each text yourself"],
        ),
        ("onnx/onnx/model.onnx", {"prompts": {"query": "a "}}, []),
        (
            "onnx/onnx/model.onnx",
            {"prompts": {"query": "a "}, "include_prompt": False},
            ["include_prompt: the output sentence_embedding pools the tokens of a prompt like those of the text"],
        ),
    ],
)
def test_prompts_missing_from_an_artifact_are_listed(artifact, changes, expected, references):
    bare = references("embedder")
    reference = bare.with_task(dataclasses.replace(bare.task, **changes))
    assert list_not_carried_over(reference, artifact) == expected
    assert list_not_carried_over(references("classifier"), artifact) == []
