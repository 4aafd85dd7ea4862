"""`Predictor` uses the task stored in a folder, or the default task of a third-party model."""

import dataclasses
import json
import shutil

import numpy as np
import pandas
import polars
import pytest

import bert_keras as bk
from bert_keras.checkpoints.task_loading import restore_task
from bert_keras.engines import predictor as predictor_module
from bert_keras.engines.predictor import Predictor
from bert_keras.errors import InputError
from bert_keras.heads.answer.task import QuestionAnswering
from bert_keras.heads.classify.task import TextClassification, TextExample
from bert_keras.heads.embed.task import SentenceEmbedding
from bert_keras.heads.tag.task import TokenClassification
from bert_keras.pipelines.readers.questions import Question
from tests.heads.conftest import SIZES

PROMPTS = {"include_prompt": False, "prompts": {"query": "Where? "}, "default_prompt_name": "query"}
TASKS = {  # no setting has its default value
    "classify": TextClassification(
        max_sequence_length=31,
        window_overlap=3,
        labels=("bad", "good", "odd"),
        class_weights="balanced",
        has_pairs=True,
    ),
    "multi_label": TextClassification(
        max_sequence_length=31, window_overlap=3, problem="multi_label", labels=("b", "a")
    ),
    "regression": TextClassification(max_sequence_length=31, window_overlap=3, problem="regression"),
    "tag": TokenClassification(
        max_sequence_length=31, window_overlap=3, labels=("O", "B-X", "I-X"), scheme="IOB2", labelled_tokens="all"
    ),
    "words": TokenClassification(max_sequence_length=31, window_overlap=3, labels=("X", "B")),
    "answer": QuestionAnswering(
        max_sequence_length=31,
        window_overlap=3,
        max_question_length=11,
        max_answer_length=7,
        num_best=3,
        allows_null=True,
        null_threshold=-1.5,
    ),
    "embed": SentenceEmbedding(
        max_sequence_length=31,
        objective="contrastive",
        highest_score=5.0,
        pooling="cls",
        normalize=False,
        **PROMPTS,
        prompt="odd: ",
    ),
}
INPUTS = {"answer": [("Where?", "in Berlin, as it were")]}  # the other tasks accept single texts
SHAPES = {
    "vocab_size": SIZES["vocabulary_size"],
    "num_hidden_layers": SIZES["num_layers"],
    "num_attention_heads": SIZES["num_heads"],
    "hidden_size": SIZES["hidden_dim"],
    "intermediate_size": SIZES["intermediate_dim"],
    "max_position_embeddings": SIZES["max_sequence_length"],
}


@pytest.fixture(scope="module")
def saved(save_task):
    """Function that returns (predictor, folder) for one of `TASKS`, saved once."""
    cache = {}

    def get(name: str):
        if name not in cache:
            cache[name] = save_task(TASKS[name])
        return cache[name]

    return get


@pytest.fixture(scope="module")
def third_party(their_tokenizer, tmp_path_factory):
    """Function that saves a model with transformers; its release 5 writes no vocab.txt."""
    import torch
    import transformers

    def write(class_name: str, **changes):
        folder = tmp_path_factory.mktemp(class_name)
        torch.manual_seed(0)
        config = transformers.BertConfig(**SHAPES, initializer_range=0.5, **changes)
        getattr(transformers, class_name)(config).save_pretrained(folder)
        their_tokenizer.save_pretrained(folder)
        return folder

    return write


def edit_task(folder, out, change):
    """Copy a folder and change the task in its config."""
    shutil.copytree(folder, out)
    values = json.loads((out / "config.json").read_text())
    change(values["bert_keras"])
    (out / "config.json").write_text(json.dumps(values))
    return out


@pytest.mark.parametrize("name", TASKS)
def test_task_is_restored_from_its_folder(name, saved):
    predictor, _ = saved(name)
    assert predictor.task == TASKS[name]


def test_tasks_of_this_file_change_every_setting():
    for kind in {type(task) for task in TASKS.values()}:
        tasks = [task for task in TASKS.values() if type(task) is kind]
        same = {field.name for field in dataclasses.fields(kind) if all(is_default(task, field) for task in tasks)}
        assert same == ({"window_overlap"} if kind is SentenceEmbedding else set())  # embeddings have no windows


def is_default(task, field: dataclasses.Field) -> bool:
    return getattr(task, field.name) == field.default


@pytest.mark.slow
def test_task_is_restored_from_a_converted_folder(saved, predict_from, tmp_path):
    predictor, folder = saved("answer")
    bk.convert(folder, tmp_path / "out")
    assert bk.load_tokenizer(tmp_path / "out").vocabulary == predictor.tokenizer.vocabulary
    converted = predict_from(tmp_path / "out")
    assert converted.task == TASKS["answer"]
    inputs = [("Where?", "in Berlin, as it were")]
    np.testing.assert_equal(converted(inputs), predictor(inputs))


@pytest.mark.parametrize("name", TASKS)
def test_only_settings_that_the_model_does_not_fix_can_be_changed(name, saved):
    predictor, folder = saved(name)
    task = restore_task(folder, predictor.model, max_sequence_length=25, window_overlap=None)
    overlap = None if name == "embed" else 2  # 3 of 31 tokens, scaled to 25
    assert task == dataclasses.replace(TASKS[name], max_sequence_length=25, window_overlap=overlap)
    if name != "embed":
        task = restore_task(folder, predictor.model, max_sequence_length=25, window_overlap=3)
        assert task == dataclasses.replace(TASKS[name], max_sequence_length=25)
    with pytest.raises(InputError, match="max_length cannot be changed here; expected settings among max_seq"):
        restore_task(folder, predictor.model, max_length=25)
    for fixed in {"labels", "problem", "pooling", "normalize", *PROMPTS} & set(TASKS[name].settings()):
        with pytest.raises(InputError, match=f"{fixed} cannot be changed here"):
            restore_task(folder, predictor.model, **{fixed: getattr(TASKS[name], fixed)})


def test_settings_reach_the_task_and_sequences_fit_the_model(saved):
    _, folder = saved("classify")
    predictor = Predictor.from_checkpoint(folder, max_sequence_length=10_000, window_overlap=5)
    assert (predictor.task.max_sequence_length, predictor.task.window_overlap) == (256, 5)


def test_folder_without_a_task_uses_the_defaults_of_its_model(build, tmp_path):
    expected = {
        "classify": TextClassification(256, labels=("bad", "good", "odd")),
        "multi_label": TextClassification(256, problem="multi_label", labels=("b", "a")),
        "regression": TextClassification(256, problem="regression"),
        "tag": TokenClassification(256, labels=("O", "B-X", "I-X"), scheme="IOB2"),
        "words": TokenClassification(256, labels=("X", "B")),
        "answer": QuestionAnswering(256, window_overlap=85),
        "embed": SentenceEmbedding(256, pooling="cls", normalize=False, **PROMPTS),
    }
    for name, task in expected.items():
        bk.save(model := build(TASKS[name]), None, tmp_path / name)
        assert restore_task(tmp_path / name, model) == task, name


def test_third_party_classifier_uses_the_defaults(third_party, predict_from, their_pipeline):
    folder = third_party("BertForSequenceClassification", num_labels=3)
    predictor = Predictor.from_checkpoint(folder)
    assert predictor.task == TextClassification(256, labels=("LABEL_0", "LABEL_1", "LABEL_2"))
    [answer], [expected] = predictor(["a fine film"]), their_pipeline("text-classification", folder)(["a fine film"])
    assert answer["label"] == expected["label"]
    np.testing.assert_allclose(answer["probability"], expected["score"], rtol=0, atol=5e-6)  # measured: 7.0e-7
    regression = predict_from(third_party("BertForSequenceClassification", num_labels=1))
    assert regression.task == TextClassification(256, problem="regression")
    assert set(regression(["a fine film"])[0]) == {"value"}


def test_sequence_length_comes_from_a_third_party_tokenizer(third_party, tmp_path):
    folder = third_party("BertForSequenceClassification", num_labels=3)
    out = shutil.copytree(folder, tmp_path / "out")
    path = out / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model_max_length": 100}))
    assert Predictor.from_checkpoint(out).task.max_sequence_length == 100


def test_regression_with_several_outputs_is_rejected(third_party, predict_from):
    folder = third_party("BertForSequenceClassification", num_labels=2, problem_type="regression")
    with pytest.raises(InputError, match="predicts 2 numbers per text; expected one"):
        predict_from(folder)


@pytest.mark.parametrize(
    ("labels", "scheme"),
    [(("O", "B-LOC", "I-LOC"), "IOB2"), (("I-LOC", "B-LOC", "O"), "IOB2"), (("NOUN", "VERB"), "none"), (None, "none")],
)
def test_third_party_tagger_uses_the_defaults(labels, scheme, third_party, predict_from, their_pipeline):
    names = {} if labels is None else {"id2label": dict(enumerate(labels))}
    folder = third_party("BertForTokenClassification", **names)
    predictor = predict_from(folder)
    assert predictor.task == TokenClassification(256, labels=labels or ("LABEL_0", "LABEL_1"), scheme=scheme)
    text = "the chief of Berlin met us here"
    [answer], theirs = predictor([text]), their_pipeline("token-classification", folder, ignore_labels=[])(text)
    assert answer["tags"] == [one["entity"] for one in theirs]


def test_third_party_question_answerer_uses_the_defaults(third_party, predict_from):
    predictor = predict_from(third_party("BertForQuestionAnswering"))
    assert predictor.task == QuestionAnswering(max_sequence_length=256, window_overlap=85)
    [answer] = predictor([("Where?", "in Berlin, as it were")])
    assert "in Berlin, as it were"[answer["start"] : answer["end"]] == answer["answer"] != ""


@pytest.mark.parametrize("class_name", ["BertModel", "BertForPreTraining"])
def test_model_without_a_task_is_rejected(class_name, third_party, predict_from):
    with pytest.raises(
        InputError, match=r"holds a Bert\w+, which has no task head; expected one of BertClassifier, .*: fine"
    ):
        predict_from(third_party(class_name))


def test_folder_without_a_vocabulary_is_rejected(build, tmp_path):
    bk.save(build(TASKS["classify"]), None, tmp_path / "out")
    with pytest.raises(
        InputError, match=r"out has no vocabulary, neither tokenizer\.json nor vocab\.txt.*: copy its vocab"
    ):
        Predictor.from_checkpoint(tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "old", "new"), [("tag", "labelled_pieces", "labelled_tokens"), ("classify", "of_pairs", "has_pairs")]
)
def test_setting_names_of_version_0_1_are_still_read(name, old, new, saved, tmp_path):
    predictor, folder = saved(name)
    assert getattr(predictor.task, new) not in ("first", False)  # not the defaults
    out = edit_task(folder, tmp_path / "out", lambda ours: ours["task"].update({old: ours["task"].pop(new)}))
    assert restore_task(out, predictor.model) == predictor.task


def test_unknown_stored_setting_is_rejected(saved, tmp_path):
    predictor, folder = saved("classify")
    out = edit_task(folder, tmp_path / "out", lambda ours: ours["task"].update(colour="red"))
    with pytest.raises(
        InputError, match=r"out/config\.json has the task setting colour, which this version does not know"
    ):
        restore_task(out, predictor.model)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"pooling": 5}, "sets pooling to 5; expected a string"),
        ({"pooling": ["mean", 5]}, "expected a list of strings"),
        ({"prompts": {"query": 5}}, "expected an object of strings"),
        ({"prompt": ["a"]}, "expected a string"),
    ],
)
def test_stored_setting_of_the_wrong_type_is_rejected(setting, message, saved, tmp_path):
    predictor, folder = saved("embed")
    out = edit_task(folder, tmp_path / "out", lambda ours: ours["task"].update(setting))
    with pytest.raises(InputError, match=message):
        restore_task(out, predictor.model)


@pytest.mark.parametrize("name", ["tag", None])
def test_stored_task_of_another_model_type_is_ignored(name, saved, tmp_path):
    predictor, folder = saved("classify")
    out = edit_task(folder, tmp_path / "out", lambda ours: ours.update(task={"name": name, "colour": "red"}))
    assert restore_task(out, predictor.model) == TextClassification(256, labels=("bad", "good", "odd"))


def test_labels_come_from_the_model(saved, tmp_path):
    predictor, folder = saved("classify")
    out = edit_task(folder, tmp_path / "out", lambda ours: ours["task"].update(labels=["x", "y", "z"]))
    assert restore_task(out, predictor.model).labels == ("bad", "good", "odd")


@pytest.mark.parametrize("name", TASKS)
def test_texts_and_task_examples_get_the_same_answers(name, saved):
    predictor, _ = saved(name)
    inputs = INPUTS.get(name, ["a fine film in Berlin"])
    texts = inputs[0] if isinstance(inputs[0], tuple) else (inputs[0],)
    [answer], [other] = predictor(inputs), predictor([predictor.task.make_example(*texts)])
    np.testing.assert_equal(other, answer)
    json.dumps(predictor.task.to_json(answer, 2))


def test_answers_keep_the_order_of_the_texts_across_chunks(saved, monkeypatch):
    predictor, _ = saved("classify")
    texts = [f"{'so ' * (number % 7)}number {number}" for number in range(23)]
    expected = predictor(texts)
    monkeypatch.setattr(predictor_module, "EXAMPLES_PER_CHUNK", 5)
    chunks = list(predictor.stream(map(TextExample, texts)))
    assert [len(chunk) for chunk in chunks] == [5, 5, 5, 5, 3]
    answers = [answer for chunk in chunks for answer in chunk]
    actual, expected = ([answer["probabilities"] for answer in chunk] for chunk in (answers, expected))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6)  # measured: 1.4e-7
    assert predictor([]) == []


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ("a text", "one text was given; expected a list of texts: put it in brackets"),
        (None, r"the examples are a NoneType; expected a list of texts: pass one, such as \['a text'\]$"),
        ({"text": "a"}, r"the examples are a dict; expected a list of texts: pass one, such as \['a text'\]$"),
        (
            pandas.DataFrame({"text": ["a"]}),
            r"the examples are a DataFrame; expected a list of texts: pass its column of texts, such as frame\['text",
        ),
        (polars.DataFrame({"text": ["a"]}), r"the examples are a DataFrame; expected a list of texts: pass its column"),
        (
            [["a", "b"]],
            r"a list of words was given, \['a', 'b'\], but the task classify does not tag words; expected a text"
            r", or a tuple of two texts",
        ),
        ([{"text": "a"}], r"an example is \{'text': 'a'\}; expected a text"),
        (["a", ("b" * 999, 3)], r"an example is \('b{30,50}\.\.\.b+', 3\); expected a text"),
        (
            [("a", "b", "c")],
            r"an example is \('a', 'b', 'c'\); expected a text, a tuple of two texts, a list of words, or a T",
        ),
        ([("a", None)], r"an example is \('a', None\); expected a text"),
        ([3], "an example is 3; expected a text"),
        ([()], r"an example is \(\); expected a text"),
        ([Question("", "a", "b", "", (), False, "")], r"an example is Question\(.*; expected a text"),
    ],
)
def test_invalid_inputs_are_rejected(inputs, message, saved):
    predictor, _ = saved("classify")
    with pytest.raises(InputError, match=message):
        predictor(inputs)


@pytest.mark.parametrize("name", TASKS)
def test_answers_are_plain_values_that_json_can_store(name, saved):
    predictor, _ = saved(name)
    inputs = INPUTS.get(
        name, [("a fine film", "not so fine")] if TASKS[name].settings().get("has_pairs") else ["a fine film"]
    )
    answers = predictor(inputs)
    assert json.loads(json.dumps(answers)) == answers
    if not TASKS[name].has_alternatives:
        with pytest.raises(InputError, match=r"top lists classes or answers, and the task is \w+(, regression)?: "):
            predictor(inputs, top=2)
        return
    best = predictor(inputs, top=2)
    assert json.loads(json.dumps(best)) == best


def test_top_lists_the_best_classes(saved):
    predictor, _ = saved("classify")
    inputs = [("a fine film", "not so fine")]
    [answer], [best], [label] = predictor(inputs), predictor(inputs, top=2), predictor(inputs, top=1)
    ranked = sorted(zip(answer["probabilities"], TASKS["classify"].labels, strict=True), reverse=True)
    assert best["best"] == [{"label": name, "probability": value} for value, name in ranked[:2]]
    assert label == {"label": answer["label"], "probability": answer["probability"]}
    for wrong in (0, 2.0, True, "2"):
        with pytest.raises(InputError, match=r"top is .*; expected an integer >= 1"):
            predictor(inputs, top=wrong)


def test_top_lists_predicted_labels_or_the_available_answers(saved):
    predictor, _ = saved("multi_label")
    [answer], [one] = predictor(["a fine film"]), predictor(["a fine film"], top=1)
    assert len(one["best"]) == max(1, len(answer["labels"]))
    predictor, _ = saved("answer")
    assert len(predictor(INPUTS["answer"], top=9)[0]["best"]) == TASKS["answer"].num_best


def test_tagger_does_not_split_the_words_of_a_list(saved):
    predictor, _ = saved("tag")
    words = ["Alice", "met", "Mr.", "O'Neill-Smith", "in", "St. Ives"]
    [answer] = predictor([words])
    assert len(answer["tags"]) == len(words)
    for entity in answer["entities"]:
        assert " ".join(words)[entity["start"] : entity["end"]] == entity["text"]
    [expected] = predictor(["fine words here"])
    assert predictor([["fine", "words", "here"]]) == [expected]
    assert predictor([[]])[0]["tags"] == []


@pytest.mark.parametrize(
    ("words", "message"), [(["fine", ""], "the word 2 is ''"), (["fine", " "], "the word 2 is ' '")]
)
def test_empty_words_are_rejected(words, message, saved):
    predictor, _ = saved("tag")
    with pytest.raises(InputError, match=message):
        predictor([words])


@pytest.mark.parametrize("name", ["multi_label", "regression", "tag", "words", "embed"])
def test_task_is_inferred_from_the_model(name, saved):
    predictor, _ = saved(name)
    inferred = Predictor(predictor.model, predictor.tokenizer)
    assert type(inferred.task) is type(predictor.task)
    inputs = ["a fine film"]
    assert inferred(inputs)[0].keys() == predictor(inputs)[0].keys()
    assert getattr(inferred.task, "labels", None) == getattr(predictor.task, "labels", None)


def test_model_without_a_head_has_no_task(sizes, saved):
    predictor, _ = saved("tag")
    with pytest.raises(InputError, match="the model holds a BertEncoder, which has no task head"):
        Predictor(predictor.model.encoder, predictor.tokenizer)
