"""Every task setting changes what the task does, and can be stored as JSON."""

import dataclasses
import json

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.checkpoints.task_loading import restore_task
from bert_keras.heads.answer.task import QuestionAnswering
from bert_keras.heads.classify.task import TextClassification, TextExample
from bert_keras.heads.embed.task import SentenceEmbedding
from bert_keras.heads.tag.task import TokenClassification
from bert_keras.pipelines.readers.questions import Answer, Question
from bert_keras.pipelines.readers.words.tagged_sentences import TaggedSentence

LONG = " ".join(f"number {index} is followed by another one," for index in range(9))
LABELLED_TEXTS = [TextExample(LONG, None, "2"), TextExample("so fine", None, "1"), TextExample("odd", None, "1")]
CONTEXT = f"in Berlin; {LONG}"
TASKS = {
    "classify": TextClassification(max_sequence_length=20, window_overlap=3, labels=("1", "2")),
    "tag": TokenClassification(max_sequence_length=20, window_overlap=3, labels=("O", "B-X", "I-X"), scheme="IOB2"),
    "answer": QuestionAnswering(max_sequence_length=20, window_overlap=3, max_question_length=5, allows_null=True),
    "embed": SentenceEmbedding(max_sequence_length=20, prompts={"query": "so "}),
}
EXAMPLES = {
    "classify": LABELLED_TEXTS,
    "tag": [
        TaggedSentence.from_words(LONG.split(), ["O", "B-X", "I-X"] * 21, 1),
        TaggedSentence.from_words(["unaffable"], ["B-X"], 2),
    ],
    "answer": [Question("q", f"Where {LONG}?", CONTEXT, "", (Answer("Berlin", 3),), False, "")],
    "embed": [TextExample(LONG, "so fine", 0.5), TextExample("odd", "so", 0.2)],
}
CHANGES = {  # another value for every setting
    "classify": {
        "max_sequence_length": 19,
        "window_overlap": 4,
        "problem": "regression",
        "labels": ("2", "1"),
        "has_pairs": True,
        "class_weights": "balanced",
    },
    "tag": {
        "max_sequence_length": 19,
        "window_overlap": 4,
        "labels": ("B-X", "O", "I-X"),
        "scheme": "none",
        "labelled_tokens": "all",
    },
    "answer": {
        "max_sequence_length": 19,
        "window_overlap": 4,
        "max_question_length": 4,
        "max_answer_length": 1,
        "num_best": 4,
        "allows_null": False,
        "null_threshold": 1000.0,
    },
    "embed": {
        "max_sequence_length": 19,
        "objective": "contrastive",
        "highest_score": 5.0,
        "pooling": ("mean", "cls"),
        "normalize": False,
        "include_prompt": False,
        "prompts": {"query": "so ", "passage": "odd "},
        "default_prompt_name": "query",
        "prompt": "fine ",
    },
}
FIELDS = [(name, field) for name, changes in CHANGES.items() for field in changes]


def make_outputs(task, sequences) -> dict[str, np.ndarray]:
    """Return random model outputs in which [CLS] is the likeliest answer."""
    rng = np.random.default_rng(0)
    num = len(sequences.token_ids) if task.is_token_level else len(sequences)
    shapes = {"logits": (num, 3 if task.name == "tag" else 2), "embedding": (num, 4)}
    shapes |= {"start_logits": (num,), "end_logits": (num,)}
    outputs = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    outputs["start_logits"][sequences.row_splits[:-1] if task.is_token_level else []] += 9
    return outputs


def describe_behaviour(task, tokenizer) -> str:
    """Return everything that a task does with some examples, as JSON."""
    examples = EXAMPLES[task.name]
    sequences = task.encode(tokenizer, examples)
    labelled = task.add_labels(sequences, examples)
    answers = task.decode(sequences, make_outputs(task, sequences), examples)
    losses = task.loss()
    description = {
        "sequences": [
            sequences.token_ids,
            sequences.row_splits,
            labelled.labels,
            labelled.token_labels,
            labelled.weights,
        ],
        "answers": [task.to_json(answer, 9) for answer in answers],
        "scores": task.score(answers, examples),
        "artifact": task.input_names,
        "model": [
            task.head.model_name,
            task.head_arguments(),
            losses if losses == "auto" else losses["embedding"].name,
        ],
    }
    return json.dumps(description, default=lambda array: array.tolist())


@pytest.mark.parametrize("name", TASKS)
def test_changes_cover_every_setting(name):
    fields = {field.name for field in dataclasses.fields(TASKS[name])}
    assert set(CHANGES[name]) == fields - ({"window_overlap"} if name == "embed" else set())  # no windows


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_every_setting_changes_the_behaviour(name, field, tokenizer):
    task = TASKS[name]
    changed = dataclasses.replace(task, **{field: CHANGES[name][field]})
    assert changed != task
    assert describe_behaviour(changed, tokenizer) != describe_behaviour(task, tokenizer)
    assert describe_behaviour(task, tokenizer) == describe_behaviour(dataclasses.replace(task), tokenizer)


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_settings_survive_a_json_round_trip(name, field):
    task = dataclasses.replace(TASKS[name], **{field: CHANGES[name][field]})
    settings = json.loads(json.dumps(task.settings()))
    assert settings.pop("name") == name == task.name
    assert type(task)(**settings) == task


@pytest.mark.parametrize("name", TASKS)
def test_task_makes_examples_of_its_own_class(name):
    pair = ("a", "b") if name in ("answer", "embed") else ("a",)
    example = TASKS[name].make_example(*pair, line=3)
    assert type(example) is TASKS[name].example_class is type(EXAMPLES[name][0])
    assert getattr(example, "line", 3) == 3


@pytest.mark.parametrize(
    ("length", "overlap", "new_length", "new_overlap"),
    [
        (384, 128, 96, 32),
        (384, 128, 100, 33),
        (128, 32, 128, 32),
        (128, 32, 200, 32),
        (20, 0, 7, 0),
        (20, None, 7, None),
    ],
)
def test_overlap_shrinks_with_the_length_and_never_grows(length, overlap, new_length, new_overlap):
    task = TextClassification(max_sequence_length=length, window_overlap=overlap, labels=("a", "b"))
    expected = dataclasses.replace(task, max_sequence_length=new_length, window_overlap=new_overlap)
    assert task.with_length(new_length) == expected


@pytest.mark.parametrize(("positions", "overlap"), [(17, 4), (128, 32), (200, 32)])
def test_windows_of_a_tagger_without_stored_settings_fit_its_positions(positions, overlap):
    """As many tokens as the model accepts; the overlap of 32 tokens is for sequences of 128 or more."""
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 4, "intermediate_dim": 4, "vocabulary_size": 9}
    config = bk.BertConfig(**sizes, max_sequence_length=positions)
    model = bk.BertTokenClassifier(bk.BertEncoder(config, pooler=False), 2, labels=("O", "B-X"))
    task = restore_task(None, model)
    assert (task.max_sequence_length, task.window_overlap) == (positions, overlap)
