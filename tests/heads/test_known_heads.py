"""The rules that every record of a head keeps."""

import inspect

import pytest

from bert_keras import modeling
from bert_keras.heads.known_heads import HEADS, find_finetuned_head, get_head, get_task_head, list_finetuned_heads

by_model = pytest.mark.parametrize("head", HEADS, ids=lambda head: head.model_name)


def test_every_model_has_one_head():
    assert sorted(head.model_name for head in HEADS) == sorted(modeling.__all__)
    assert len({head.name for head in HEADS}) == len(HEADS)


@by_model
def test_a_head_names_its_model(head):
    assert head.load("model") is getattr(modeling, head.model_name)
    assert get_head(head.model_name) is head


@by_model
def test_a_head_knows_whether_its_model_has_classes(head):
    assert head.has_num_classes == ("num_classes" in inspect.signature(head.load("model")).parameters)


@pytest.mark.parametrize("head", [head for head in HEADS if head.task], ids=lambda head: head.model_name)
def test_a_head_names_its_task(head):
    task = head.load("task")
    assert task.name == head.name
    assert get_task_head(task.name) is head


@by_model
def test_a_head_names_functions_that_exist(head):
    """Heads that are fine-tuned have all of them."""
    names = ("training_reader", "scoring_reader", "description", "comparison", "graph")
    given = {name for name in names if getattr(head, name) is not None}
    assert given == set(names) if head.is_finetuned else given <= {"graph", "description", "comparison"}
    assert ("graph" in given) == ("comparison" in given)
    given |= {name for name in ("file_outputs", "readme") if getattr(head, name) is not None}
    assert all(callable(head.load(name)) for name in given)


def test_only_heads_with_labelled_examples_are_fine_tuned():
    assert [head.name for head in list_finetuned_heads()] == ["classify", "tag", "answer", "embed"]
    assert find_finetuned_head("BertMaskedLM") is find_finetuned_head("AnotherModel") is None


@by_model
def test_transformers_has_the_class(head):
    """ELECTRA's discriminator has a class of another family, and embedders belong to sentence-transformers."""
    import transformers

    if head.huggingface is not None:
        assert f"Bert{head.huggingface}" in dir(transformers)  # reading the attribute would import torch
    else:
        assert head.model_name in ("ElectraPretrainer", "BertEmbedder")


@pytest.mark.slow  # imports torch
@by_model
def test_peft_has_the_task_type(head):
    import peft

    assert (head.peft is not None) == head.is_finetuned
    assert head.peft is None or head.peft in peft.TaskType.__members__
